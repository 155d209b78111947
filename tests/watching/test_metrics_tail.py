"""Test that the curves of a growing metrics.jsonl are right, and that nothing is read twice."""

import io
import json
import os
import random
from typing import Any

import pytest

from alphamepol.watching import metrics_tail
from alphamepol.watching.metrics_tail import MetricsTail

pytestmark = pytest.mark.quick
LONG = 60.0
"""More seconds than any test needs to read a file."""


def lines(steps: range, seeds: int = 2, unit: str = "epoch") -> str:
    return "".join(
        json.dumps({unit: step, "seed": seed, "objective": step + seed, "entropy": {"N": -1.5 * seed}}) + "\n"
        for step in steps
        for seed in range(seeds if step % 3 else 1)
    )


class Viewer:
    """A page that follows curves with the same rule as watch.js."""

    def __init__(self) -> None:
        self.generation = self.fixed = 0
        self.steps: list[int] = []
        self.curves: dict[tuple[str, str], dict[str, list[float | None]]] = {}

    def take(self, tail: MetricsTail) -> None:
        news: Any = json.loads(json.dumps(tail.curves_since(self.generation, self.fixed)))
        start = news["start"]
        self.generation, self.fixed = news["generation"], news["fixed"]
        self.steps[start:] = news["steps"]
        for curve in news["curves"]:
            known = self.curves.setdefault((curve["field"], curve["part"]), {"mean": [], "low": [], "high": []})
            for part, values in known.items():
                values[:] = (values + [None] * start)[:start] + curve.get(part, curve["mean"])


def test_curves_are_means_over_seeds_between_the_lowest_and_the_highest(tmp_path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(lines(range(4)))  # every third epoch has one seed, all others have two
    tail, viewer = MetricsTail(path), Viewer()
    tail.advance(LONG)
    viewer.take(tail)
    assert (tail.unit, tail.newest, tail.problem, tail.reading) == ("epoch", 3, "", False)
    assert viewer.steps == [0, 1, 2, 3]
    assert viewer.curves["objective", ""] == {"mean": [0, 1.5, 2.5, 3], "low": [0, 1, 2, 3], "high": [0, 2, 3, 3]}
    assert viewer.curves["entropy", "N"]["mean"] == [0, -0.75, -0.75, 0]
    assert ("seed", "") not in viewer.curves


def test_a_viewer_that_takes_only_news_sees_what_a_new_viewer_sees(tmp_path, monkeypatch) -> None:
    """The file grows by random pieces, which end within lines, and becomes so long that steps are left out."""
    monkeypatch.setattr(metrics_tail, "MOST_POINTS", 20)
    monkeypatch.setattr(metrics_tail, "PIECE", 256)
    path, tail, viewer = tmp_path / "metrics.jsonl", MetricsTail(tmp_path / "metrics.jsonl"), Viewer()
    text, written, drawn = lines(range(150)).encode(), 0, random.Random(0)
    while written < len(text):
        written += drawn.randrange(1, 700)
        path.write_bytes(text[:written])
        tail.advance(LONG)
        viewer.take(tail)
        assert len(viewer.steps) <= 21
    fresh, newcomer = MetricsTail(path), Viewer()
    fresh.advance(LONG)
    newcomer.take(fresh)
    assert viewer.steps == newcomer.steps == [*range(0, 150, 8), 149]
    assert viewer.curves == newcomer.curves
    assert viewer.curves["objective", ""]["mean"][-2:] == [144, 149.5]


class CountingReader(io.BufferedReader):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        CountingReader.count += len(found)
        return found


def test_no_byte_is_read_twice(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(metrics_tail, "open_regular_file", lambda path: CountingReader(io.FileIO(path)))
    path = tmp_path / "metrics.jsonl"
    tail, looks = MetricsTail(path), 0
    for end in range(0, 1000, 100):
        with path.open("a") as file:
            file.write(lines(range(end, end + 100)))
        for _ in range(5):
            tail.advance(LONG)
            looks += 1
    assert tail.newest == 999
    assert path.stat().st_size <= CountingReader.count <= path.stat().st_size + looks * metrics_tail.BEFORE


def test_a_line_that_is_not_whole_is_waited_for(tmp_path) -> None:
    path = tmp_path / "metrics.jsonl"
    text = lines(range(2), seeds=1)
    path.write_text(text[:-5])
    tail = MetricsTail(path)
    tail.advance(LONG)
    assert (tail.newest, tail.problem, tail.reading) == (0, "", False)
    path.write_text(text)
    tail.advance(LONG)
    assert tail.newest == 1


def test_a_resumed_run_that_rewrites_its_lines_is_read_again(tmp_path) -> None:
    path, viewer = tmp_path / "metrics.jsonl", Viewer()
    path.write_text(lines(range(10)))
    tail = MetricsTail(path)
    tail.advance(LONG)
    viewer.take(tail)
    path.write_text(lines(range(4)))
    with path.open("a") as file:  # the file is longer than before when it is looked at next
        file.write(lines(range(4, 20)).replace('"objective": ', '"objective": 10'))
    tail.advance(LONG)
    viewer.take(tail)
    assert viewer.steps == list(range(20))
    assert viewer.curves["objective", ""]["low"][3:5] == [3, 104]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\0" * 2000 + b"\n", "damaged"),
        (b"[1]\n", "damaged"),
        (b'{"epoch": true}\n', "damaged"),
        (b'{"epoch": 99999999999999}\n', "damaged"),
        (b"{" * 100_000 + b"\n", "damaged"),
        (b'{"epoch": 3, "x": 1}\n{"epoch": 2, "x": 1}\n', "damaged after epoch 3"),
        (b"x" * (metrics_tail.LONGEST_LINE + 1), "a line of more than"),
    ],
)
def test_a_damaged_file_ends_the_curves_with_a_sentence(content: bytes, said: str, tmp_path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(lines(range(2)).encode() + content)
    tail = MetricsTail(path)
    tail.advance(LONG)
    assert said in tail.problem
    assert not tail.reading
    viewer = Viewer()
    viewer.take(tail)
    assert viewer.steps[:2] == [0, 1]


def test_hostile_numbers_and_names_stay_few_and_finite(tmp_path) -> None:
    path = tmp_path / "metrics.jsonl"
    entropies = ",".join(f'"m{n}\\n<b>": {n}' for n in range(500))
    path.write_text(f'{{"epoch": 0, "objective": NaN, "kl": 1e999, "x": "1", "y": true, "entropy": {{{entropies}}}}}\n')
    tail, viewer = MetricsTail(path), Viewer()
    tail.advance(LONG)
    viewer.take(tail)
    assert len(viewer.curves) == metrics_tail.MOST_SERIES
    assert ("entropy", "m0\\n<b>") in viewer.curves
    assert not {("objective", ""), ("kl", ""), ("x", ""), ("y", "")} & viewer.curves.keys()


def test_a_link_or_a_pipe_is_not_read(tmp_path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(lines(range(2)))
    (tmp_path / "run").mkdir()
    path = tmp_path / "run/metrics.jsonl"
    path.symlink_to(secret)
    tail = MetricsTail(path)
    tail.advance(LONG)
    assert "is a link" in tail.trouble
    path.unlink()
    os.mkfifo(path)
    tail.advance(LONG)
    assert "neither a file nor a folder" in tail.trouble
    path.unlink()
    path.write_text(lines(range(2)))
    tail.advance(LONG)
    assert (tail.newest, tail.trouble) == (1, "")


def test_a_long_file_is_read_in_short_looks(tmp_path, monkeypatch) -> None:
    """Every look at the file ends when its time is over, and goes on where the look before has ended."""
    path = tmp_path / "metrics.jsonl"
    path.write_text(lines(range(1000)))
    monkeypatch.setattr(metrics_tail, "PIECE", 1024)
    now = iter(range(10**6))
    monkeypatch.setattr(metrics_tail.time, "monotonic", lambda: next(now))
    tail, looks = MetricsTail(path), 0
    while looks == 0 or tail.reading:
        before = tail.position
        tail.advance(4.0)
        assert tail.position - before <= 4 * 1024
        looks += 1
    assert tail.newest == 999
    assert looks > 10
