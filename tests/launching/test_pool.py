"""Test the order, the repetition and the end of tasks, with tasks that do nothing but write the files of a run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from alphamepol.launching.pool import Pool
from alphamepol.launching.task import INTERRUPTED, REFUSED, TRIES, Task

pytestmark = pytest.mark.quick


def task_in(folder: Path, name: str, *needs: str) -> Task:
    return Task(name, ("pretrain",), folder / name, folder / f"{name}.log", 10, 5.0, needs)


class Job:
    """A job that ends with a status when somebody says so."""

    def __init__(self) -> None:
        self.ended_with: int | None = None
        self.stopped = self.killed = False

    def status(self) -> int | None:
        return self.ended_with

    def stop(self) -> None:
        self.stopped, self.ended_with = True, INTERRUPTED

    def kill(self) -> None:
        self.killed = True


class Starter:
    """A starter that remembers its jobs by the names of their tasks."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.starts: list[str] = []

    def start(self, task: Task) -> Job:
        self.starts.append(task.name)
        job = self.jobs[task.name] = Job()
        return job


def names(pool: Pool) -> dict[str, str]:
    return {name: state.name for name, state in pool.look().items()}


@pytest.fixture
def end(tmp_path) -> Callable[..., None]:
    def end(job: Job, name: str, status: int = 0, steps: int = 10) -> None:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "metrics.jsonl").write_text("".join(json.dumps({"epoch": step}) + "\n" for step in range(steps)))
        if status == 0:
            (folder / "summary.json").write_text("{}")
        job.ended_with = status

    return end


def test_a_task_begins_when_the_tasks_that_it_needs_are_done(tmp_path, end) -> None:
    tasks = [task_in(tmp_path, "before"), task_in(tmp_path, "after", "before"), task_in(tmp_path, "other")]
    starter = Starter()
    pool = Pool(tasks, starter, at_once=2)
    assert names(pool) == {"before": "running", "after": "waiting", "other": "running"}
    end(starter.jobs["other"], "other")
    assert names(pool) == {"before": "running", "after": "waiting", "other": "done"}
    end(starter.jobs["before"], "before")
    assert names(pool) == {"before": "done", "after": "running", "other": "done"}


def test_no_more_tasks_run_at_once_than_allowed(tmp_path, end) -> None:
    starter = Starter()
    pool = Pool([task_in(tmp_path, name) for name in "abc"], starter, at_once=1)
    assert names(pool) == {"a": "running", "b": "queued", "c": "queued"}
    end(starter.jobs["a"], "a")
    assert names(pool) == {"a": "done", "b": "running", "c": "queued"}


def test_a_task_that_is_done_is_not_started(tmp_path, end) -> None:
    end(Job(), "a")
    starter = Starter()
    assert names(Pool([task_in(tmp_path, "a")], starter, at_once=1)) == {"a": "done"}
    assert starter.starts == []


def test_a_task_that_fails_is_tried_again_while_it_comes_further(tmp_path, end) -> None:
    starter = Starter()
    pool = Pool([task_in(tmp_path, "a"), task_in(tmp_path, "b", "a")], starter, at_once=1)
    for steps in range(1, 6):  # it comes one step further each time
        assert names(pool)["a"] == "running"
        end(starter.jobs["a"], "a", status=1, steps=steps)
    for _ in range(TRIES - 1):  # from now on it does not
        assert names(pool)["a"] == "running"
        end(starter.jobs["a"], "a", status=1, steps=5)
    (tmp_path / "a.log").write_text("epoch 5\nalphamepol: a parameter is not finite\n")
    found = pool.look()
    assert (found["a"].name, found["a"].reason) == ("failed", "a parameter is not finite")
    assert (found["b"].name, found["b"].reason) == ("failed", "it needs a")
    assert starter.starts == ["a"] * (5 + TRIES - 1)


def test_a_task_whose_input_is_wrong_is_not_tried_again(tmp_path, end) -> None:
    starter = Starter()
    pool = Pool([task_in(tmp_path, "a")], starter, at_once=1)
    pool.look()
    end(starter.jobs["a"], "a", status=REFUSED)
    assert names(pool) == {"a": "failed"}
    assert starter.starts == ["a"]


def test_a_command_that_ends_well_without_a_summary_has_failed(tmp_path, end) -> None:
    starter = Starter()
    pool = Pool([task_in(tmp_path, "a")], starter, at_once=1)
    for _ in range(TRIES):
        pool.look()
        starter.jobs["a"].ended_with = 0
    assert names(pool) == {"a": "failed"}


def test_stopping_lets_running_tasks_save_and_begins_no_other(tmp_path) -> None:
    starter = Starter()
    pool = Pool([task_in(tmp_path, name) for name in "ab"], starter, at_once=1)
    pool.look()
    pool.stop()
    pool.stop()
    assert starter.jobs["a"].stopped
    pool.look()
    assert starter.starts == ["a"]
