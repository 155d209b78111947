"""Test the time left of progress bars, with a clock of our own."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from alphamepol.runs.progress import TimeLeftColumn, time_left

pytestmark = pytest.mark.quick


def test_the_time_left_counts_down_and_grows_when_a_step_is_late() -> None:
    """Two of five steps took ten seconds each. The third may take ten seconds, then thirty are left minus these."""
    left = [time_left(done=2, to_do=3, step=1, took=20.0, since=since) for since in (0.0, 5.0, 10.0, 40.0)]
    assert left == [30.0, 25.0, 20.0, 40.0]  # after 60 seconds for three steps, two more take 40
    assert time_left(done=4, to_do=1, step=1, took=40.0, since=25.0) == 0.0


def test_the_column_changes_every_second_of_a_long_step() -> None:
    now, column = [0.0], TimeLeftColumn()
    progress = Progress(column, console=Console(file=io.StringIO()), get_time=lambda: now[0])
    number = progress.add_task("", total=10)
    task = progress.tasks[0]

    def shown(at: float) -> str:
        now[0] = at
        return column.render(task).plain

    assert shown(50.0) == "--:--"
    progress.advance(number)
    assert shown(100.0) == "15:00"
    assert shown(101.0) == "14:59"
    progress.advance(number)  # the first step compiled, and counts no more
    assert shown(110.0) == "01:20"
    assert [shown(at) for at in (111.0, 120.0, 140.0, 3600.0)] == ["01:19", "01:10", "02:20", "3:24:10"]
    progress.reset(number, total=3)
    assert shown(3601.0) == "--:--"
