"""Test the front and the trade-off of a sweep on numbers that were worked out by hand."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from alphamepol import PretrainConfig
from alphamepol.estimation.statistics import Estimate, Sample, estimate_statistic
from alphamepol.figures.fronts.drawing import FrontPanel, FrontPoint, draw_fronts, front_of_points
from alphamepol.measuring.exploration import Evaluation
from alphamepol.reproduction.planned import Pretraining
from alphamepol.sweeping.front import trade_off_of_runs

CONFIG = PretrainConfig(seeds=3)
CEILINGS = 2.0, 2.0, float("inf")


def evaluated(
    means: list[float], *, seeds: int = 3, ceilings: tuple[float, ...] = (2.0, 2.0, float("inf"))
) -> Evaluation:
    """Return an evaluation with these mean entropies in each member; seeds and mini-batches lie around them."""
    spread = 0.1 * np.arange(-(seeds // 2), seeds // 2 + 1)[:seeds, None] + 0.02 * np.arange(-2, 3)
    entropies = np.array(means)[None, :, None] + spread[:, None, :]
    names = tuple(f"M{number}" for number in range(len(means)))
    return Evaluation(
        class_name="made-up",
        members=names,
        probabilities=tuple(1 / len(means) for _ in means),
        alpha=0.9,
        seeds=(0, 1, 2),
        ceilings=CEILINGS[: len(means)],
        entropies=entropies,
        trajectory_entropies=entropies,
        visits=None,
        trails=None,
    )


def run(**changes) -> Pretraining:
    return Pretraining("made-up", replace(CONFIG, **changes))


@pytest.mark.quick
def test_a_point_is_on_the_front_unless_another_is_at_least_as_good_and_better() -> None:
    points = np.array([[1.0, 3.0], [2.0, 2.0], [1.0, 2.0], [3.0, 1.0], [2.0, 2.0], [0.0, 3.0]])
    assert front_of_points(points).tolist() == [True, True, False, True, True, False]
    assert front_of_points(np.zeros((1, 2))).tolist() == [True]


@pytest.mark.quick
def test_the_trade_off_has_every_member_against_the_others() -> None:
    found = trade_off_of_runs(
        {
            run(alpha=1.0): evaluated([1.5, 0.0, 0.6]),
            run(alpha=0.2): evaluated([1.0, 1.0, 0.8]),
            run(alpha=0.2, memory="last"): evaluated([1.0, 1.0, 0.7]),
        },
        {0: Estimate(1.6, None)},
    )
    assert found is not None
    assert [(one.label, one.series) for one in found.runs] == [
        ("0.2", "without memory"),
        ("1", "without memory"),
        ("0.2", "memory of the last step"),
    ]
    assert found.on_front == [True, True, False]
    first, second, third = found.member_panels()
    assert [point.x.value for point in first.points] == pytest.approx([0.9, 0.3, 0.85])
    assert [point.y.value for point in first.points] == pytest.approx([1.0, 1.5, 1.0])
    assert [point.x.value for point in third.points] == pytest.approx([1.0, 0.75, 1.0])
    # The intervals are those of means over seeds.
    for found, values in ((first.points[1].y, [1.4, 1.5, 1.6]), (first.points[1].x, [0.2, 0.3, 0.4])):
        assert found.interval == pytest.approx(estimate_statistic(Sample.of_seeds(values)).interval)
    assert {name: level.value for name, level in first.y_levels.items()} == pytest.approx(
        {"ceiling": 2.0, "trained there alone": 1.6}
    )
    assert list(second.y_levels) == ["ceiling"]
    assert third.y_levels == {}  # its ceiling is not known


@pytest.mark.quick
def test_two_members_have_one_panel_with_marks_on_both_sides() -> None:
    found = trade_off_of_runs(
        {
            run(alpha=1.0): evaluated([1.5, 0.0]),
        },
        {1: Estimate(1.2, None)},
    )
    assert found is not None
    (panel,) = found.member_panels()
    assert (panel.xlabel, panel.ylabel) == ("entropy in M0", "entropy in M1")
    assert list(panel.x_levels) == ["ceiling"]
    assert panel.y_levels["trained there alone"].value == pytest.approx(1.2)


@pytest.mark.quick
def test_the_cvar_of_all_runs_is_at_the_smallest_alpha() -> None:
    found = trade_off_of_runs({run(alpha=1.0): evaluated([1.0, 0.0]), run(alpha=0.5): evaluated([0.5, 0.4])}, {})
    assert found is not None
    assert found.alpha == 0.5
    # The worst half of the mini-batches of MEPOL are those in M1, whose mean is 0.
    averse, neutral = found.risk_panel().points
    assert neutral.x.value == pytest.approx(0.5)
    assert neutral.y.value == pytest.approx(0.0)
    assert averse.y.value > neutral.y.value
    alone = trade_off_of_runs({run(alpha=1.0): evaluated([1.0, 0.0])}, {})
    assert alone is not None
    assert alone.alpha == 0.2  # no run has another
    assert trade_off_of_runs({}, {0: Estimate(1.0, None)}) is None


def test_the_numbers_of_a_figure_are_in_its_csv(tmp_path) -> None:
    sure, unsure = Estimate(1.0, (0.5, 1.5)), Estimate(2.0, None)
    points = [FrontPoint("without memory", "0.2", sure, unsure), FrontPoint("$last$", "1", sure, sure)]
    panel = FrontPanel("entropy in A", "entropy in =B", points, {"ceiling": Estimate(3.0, None)}, {"alone": sure})
    draw_fronts([panel] * 4, tmp_path, "front")
    rows = list(csv.DictReader((tmp_path / "front.csv").read_text().splitlines()))
    assert len(rows) == 16
    assert rows[0] | {"x": "", "y": ""} == {
        **{"x": "", "y": "", "series": "ceiling", "point": "", "x_value": "3", "x_low": "", "x_high": ""},
        **{"y_value": "", "y_low": "", "y_high": "", "on_front": ""},
    }
    assert (rows[1]["series"], rows[1]["y_value"], rows[1]["y_low"]) == ("alone", "1", "0.5")
    assert (rows[2]["point"], rows[2]["y_value"], rows[2]["y_low"], rows[2]["on_front"]) == ("0.2", "2", "", "yes")
    assert rows[3]["on_front"] == "no"
    for suffix in ("png", "svg"):
        assert (tmp_path / f"front.{suffix}").stat().st_size > 1000
