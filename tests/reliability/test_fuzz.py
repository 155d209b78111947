"""The short version of fuzz.py: random command lines are taken, or refused with a sentence."""

import random
from pathlib import Path

from benchmarks.reliability.fuzz import judge, random_line, run, tiny_line
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_lines_are_taken_or_refused_with_a_sentence(chance: random.Random) -> None:
    judge(random_line(chance))


def test_a_random_small_run_ends_well_or_with_a_sentence(tmp_path: Path) -> None:
    run(tiny_line(random.Random(0)), tmp_path / "run")


def test_both_happen() -> None:
    outcomes = {judge(random_line(random.Random(seed)))[0] for seed in range(20)}
    assert outcomes == {"taken", "refused"}
