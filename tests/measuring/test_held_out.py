"""Test the gap between members of the training stream and held-out members."""

import numpy as np
import pytest
from scipy.stats import t

from alphamepol.estimation.statistics import Estimate
from alphamepol.figures.tables import held_out_sentence
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.held_out import HeldOutGap, estimate_held_out_gap
from alphamepol.runs.description import check_run_summary


def evaluation_of(means: np.ndarray) -> Evaluation:
    """Return an evaluation with one mini-batch for each entry of `means`, of shape (seeds, members)."""
    seeds, members = means.shape
    names, uniform = tuple(map(str, range(members))), (1 / members,) * members
    entropies = means[..., None]
    return Evaluation(
        "class", names, uniform, 1.0, tuple(range(seeds)), (9.0,) * members, entropies, entropies, None, None
    )


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("counts", [(30, 30), (10, 40)])
def test_the_gap_is_the_difference_of_means_with_the_interval_of_independent_members(seeds, counts) -> None:
    rng = np.random.default_rng(0)
    # Members differ, and seeds differ hardly.
    seen, unseen = (
        np.repeat(rng.normal(at, 1.0, (1, count)), seeds, axis=0) + 1e-6 * rng.normal(size=(seeds, count))
        for at, count in zip((100.3, 100.0), counts, strict=True)
    )
    gap = estimate_held_out_gap(evaluation_of(seen), evaluation_of(unseen))
    assert gap.value == pytest.approx(seen.mean() - unseen.mean(), abs=1e-9)
    error = np.sqrt(sum(part[0].var(ddof=1) / part.shape[1] for part in (seen, unseen)))
    factor = t.ppf(0.975, seeds - 1 if seeds >= 3 else sum(counts) - 1)
    assert gap.interval is not None
    assert np.diff(gap.interval)[0] / 2 == pytest.approx(error * 1.96, rel=0.12 if factor < 2.2 else 0.5)


def test_luck_of_seeds_that_is_common_to_all_members_cancels() -> None:
    luck = np.array([[-3.0], [0.0], [1.0], [2.0]])
    rng = np.random.default_rng(1)
    seen, unseen = luck + rng.normal(0.0, 1e-3, (4, 12)), luck + rng.normal(0.0, 1e-3, (4, 12))
    gap = estimate_held_out_gap(evaluation_of(seen), evaluation_of(unseen))
    assert gap.interval is not None
    assert np.abs(gap.interval).max() < 5e-3


def test_the_sentence_names_the_members_and_the_gap() -> None:
    gap = HeldOutGap(20, (0.5, 0.7), Estimate(0.1, (-0.1, 0.3)))
    expected = "in 20 members of the training stream the mean is 0.60; seen − unseen: 0.10 [−0.10, 0.30]"
    assert held_out_sentence(gap) == expected


def test_a_gap_is_read_from_the_summary_that_it_was_written_to() -> None:
    gap = HeldOutGap(20, (0.5, 0.7), Estimate(0.1, (-0.1, 0.3)))
    assert HeldOutGap.of_summary(gap.to_dict()) == gap
    assert HeldOutGap.of_summary({}) is None


@pytest.mark.parametrize(
    "part",
    [
        {"seen_gap": {"value": 0.1, "interval": 3.0}},
        {"seen_gap": {"value": 0.1, "interval": [0.0]}},
        {"seen_gap": {"value": [0.1], "interval": None}},
        {"seen_gap": {"value": 0.1}},
        {"seen_gap": None},
        {"seen_mean": [0.5]},
        {"seen_members": "20"},
    ],
)
def test_a_forged_gap_is_refused(part) -> None:
    gap = HeldOutGap(20, (0.5, 0.7), Estimate(0.1, (-0.1, 0.3))).to_dict()
    whole = {
        **{"class": "a", "members": ["b"], "probabilities": [1.0], "seeds": [0, 1], "alpha": 1.0, "method": "mepol"},
        **{"entropy": {"b": [0.1, 0.2]}, "ceiling": {"b": None}, "mean": [0.1, 0.2], "cvar": [0.1, 0.2]},
    }
    check_run_summary("pretrain", {**whole, **gap}, 2)
    with pytest.raises(ValueError, match="seen_"):
        check_run_summary("pretrain", {**whole, **gap, **part}, 2)
    with pytest.raises(ValueError, match="seen_gap"):
        check_run_summary("pretrain", {**whole, "seen_members": 3}, 2)
