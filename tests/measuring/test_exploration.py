"""Test the intervals of an evaluation. tests/evaluation has the tests of its numbers."""

import dataclasses

import numpy as np
import pytest

from alphamepol import Evaluation
from alphamepol.estimation.risk import weighted_cvar

ALPHA, PROBABILITIES = 0.2, (0.8, 0.2)


def evaluation_of(entropies: np.ndarray) -> Evaluation:
    seeds = tuple(range(len(entropies)))
    return Evaluation("class", ("a", "b"), PROBABILITIES, ALPHA, seeds, (9.0, 9.0), entropies, entropies, None, None)


def test_the_interval_of_the_worst_mini_batches_of_one_seed_covers_what_it_should() -> None:
    """The interval must be as wide as the few mini-batches of the tail demand, not as all of them allow."""
    random, shift = np.random.default_rng(16), np.array([[0.0], [-1.0]])
    many = random.normal(size=(2, 200_000)) + shift
    truth = weighted_cvar(many.ravel(), np.repeat(PROBABILITIES, 200_000), ALPHA)
    found = [evaluation_of(random.normal(size=(1, 2, 20)) + shift).estimate_cvar().interval for _ in range(100)]
    assert 0.91 < np.mean([low <= truth <= high for low, high in found]) <= 1


def test_the_worst_fraction_has_no_interval_of_fewer_than_three_mini_batches_or_seeds() -> None:
    entropies = np.random.default_rng(17).normal(size=(3, 2, 10))
    assert evaluation_of(entropies[:1]).estimate_cvar().interval is None  # the worst fifth of ten are two
    assert evaluation_of(np.tile(entropies[:1], 2)).estimate_cvar().interval is not None
    assert evaluation_of(entropies[:2]).estimate_cvar().interval is None
    low, high = evaluation_of(entropies).estimate_cvar().interval
    assert low < evaluation_of(entropies).cvar.mean() < high
    one = dataclasses.replace(evaluation_of(entropies[:1]), alpha=1.0)
    assert one.estimate_cvar().value == pytest.approx(one.mean[0])
