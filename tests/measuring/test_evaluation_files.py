"""Test that an evaluation comes back from its file as it was, and that other files are refused."""

import dataclasses
import math

import numpy as np
import pytest

from alphamepol import Evaluation, InputError
from alphamepol.measuring.evaluation_files import load_evaluation, save_evaluation
from alphamepol.measuring.visits import VisitMap

pytestmark = pytest.mark.quick

RANDOM = np.random.default_rng(0)
WHOLE = Evaluation(
    class_name="rooms",
    members=("calm", "windy"),
    probabilities=(0.75, 0.25),
    alpha=0.2,
    seeds=(3, 4, 5),
    ceilings=(1.0, math.inf),
    entropies=RANDOM.normal(size=(3, 2, 4)).astype(np.float32),
    trajectory_entropies=RANDOM.normal(size=(3, 2, 20)).astype(np.float32),
    visits=VisitMap(RANDOM.dirichlet(np.ones(6), (3, 2)).reshape(3, 2, 2, 3), (-1.0, 1.0, 0.0, 2.0)),
    trails=RANDOM.uniform(-1, 1, (2, 5, 7, 2)),
    cells={"trajectory": RANDOM.uniform(size=(3, 2))},
    units=(2.0, 3.0),
    encoder_seed=7,
    place_names=("position", "speed"),
)
BARE = dataclasses.replace(WHOLE, visits=None, trails=None, cells=None, units=None, encoder_seed=None, place_names=())


@pytest.mark.parametrize("evaluation", [WHOLE, BARE])
def test_it_comes_back_as_it_was(evaluation, tmp_path) -> None:
    save_evaluation(evaluation, tmp_path / "one.safetensors")
    found = load_evaluation(tmp_path / "one.safetensors")
    assert found.to_dict() == evaluation.to_dict()
    for field in ("class_name", "members", "seeds", "ceilings", "units", "encoder_seed", "place_names"):
        assert getattr(found, field) == getattr(evaluation, field)
    np.testing.assert_array_equal(found.entropies, evaluation.entropies)
    np.testing.assert_array_equal(found.trajectory_entropies, evaluation.trajectory_entropies)
    if evaluation.visits is None:
        assert (found.visits, found.trails, found.cells) == (None, None, None)
        return
    assert found.visits.extent == evaluation.visits.extent
    np.testing.assert_allclose(found.visits.shares, evaluation.visits.shares, rtol=1e-3)
    np.testing.assert_allclose(found.trails, evaluation.trails, atol=1e-3)
    save_evaluation(found, tmp_path / "two.safetensors")
    assert (tmp_path / "two.safetensors").read_bytes() == (tmp_path / "one.safetensors").read_bytes()


def test_another_file_gets_a_sentence(tmp_path) -> None:
    path = tmp_path / "one.safetensors"
    with pytest.raises(InputError, match="cannot be read as an evaluation"):
        load_evaluation(path)
    save_evaluation(WHOLE, path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"one\.safetensors cannot be read as an evaluation"):
        load_evaluation(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"visits": VisitMap(np.zeros((3, 2, 2, 3)), (-1.0, 1.0, 0.0, 2.0))},
        {"visits": VisitMap(np.full((3, 2, 2, 3), np.nan), (-1.0, 1.0, 0.0, 2.0))},
        {"visits": VisitMap(np.full((3, 2, 2, 3), 1 / 6), (1.0, 1.0, 0.0, 2.0))},
        {"visits": VisitMap(np.full((3, 2, 2, 3), 1 / 6), (-1e300, 1.0, 0.0, 2.0))},
        {"entropies": np.full((3, 2, 4), -1e30, np.float32)},
        {"cells": {"trajectory": np.full((3, 2), -1.0)}},
        {"cells": {"trajectory": np.full((3, 2), np.nan)}},
    ],
)
def test_numbers_that_no_evaluation_has_are_refused(changed, tmp_path) -> None:
    save_evaluation(dataclasses.replace(WHOLE, **changed), tmp_path / "forged.safetensors")
    with pytest.raises(InputError, match=r"forged\.safetensors cannot be read as an evaluation"):
        load_evaluation(tmp_path / "forged.safetensors")
