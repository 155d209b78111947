"""Test extreme numbers: the result is right, or one sentence says where it went wrong and what helps."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamepol import (
    EnvironmentClass,
    Gridworld,
    PretrainConfig,
    RewardFunction,
    RunError,
    TrpoConfig,
    finetune,
    knn_entropy,
    pretrain,
)
from alphamepol.estimation.entropy import importance_weighted_entropy, knn_kl
from alphamepol.runs.metrics import read_metrics

ROOM = "..\n.."


def trained(environment_class: Any, config: PretrainConfig, tmp_path) -> dict[str, Any]:
    """Train, check that the metrics are finite, and return the summary. Our JSON files hold finite numbers only."""
    run = pretrain(environment_class, config, folder=tmp_path / "run", quiet=True)
    for line in read_metrics(run.folder / "metrics.jsonl"):
        assert np.isfinite([line["objective"], line["objective_after"], line["kl"], *line["entropy"].values()]).all()
    return run.summary


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 1e-9},
        {"trajectories": 2, "batch": 2, "alpha": 1.0},
        {"horizon": 1, "batch": 6, "neighbours": 3},
        {"neighbours": 59, "batch": 2, "horizon": 30},
        {"probabilities": (1.0, 0.0)},
        {"initial_log_std": -12.0, "feature_noise": 0.01},
        {"initial_log_std": 6.0, "learning_rate": 1e-30},
        {"trust_region": 1e-12},
    ],
    ids=str,
)
def test_settings_at_their_edges(change: dict[str, Any], tiny: PretrainConfig, tmp_path) -> None:
    """The cases are, in this order:

    - a tail of one mini-batch; only one mini-batch; episodes of one step; all other particles as neighbours;
    - a member that is never drawn; a σ of a few millionths;
    - a σ of hundreds, with steps that change nothing; a trust region that allows no step.
    """
    config = dataclasses.replace(tiny, epochs=2, **change)
    summary = trained("gridworld-slope", config, tmp_path)
    assert all(np.isfinite(values).all() for values in summary["entropy"].values())


def test_k_of_all_but_one_particle_gives_the_farthest() -> None:
    points = np.random.default_rng(0).uniform(size=(30, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1).max(axis=1)
    harmonic = np.sum(1 / np.arange(1, 29)) - np.euler_gamma  # ψ(29)
    expected = np.mean(np.log(30 * np.pi * distances**2)) - harmonic
    assert float(knn_entropy(points, 29)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("members", [1, 300])
def test_classes_of_one_and_of_many(members: int, tiny: PretrainConfig, tmp_path) -> None:
    """300 members are more than there are colours, lines of a terminal, or values of a byte."""
    rooms = {f"room {number}": Gridworld(ROOM, slope="west", slope_mean=number / 1e4) for number in range(members)}
    config = dataclasses.replace(tiny, epochs=1, evaluation_batches=1)
    summary = trained(EnvironmentClass(rooms, name="rooms"), config, tmp_path)
    assert len(summary["entropy"]) == members


class Fades(Gridworld):
    """A gridworld whose state is infinite once the agent is east of x = −0.6, if its slope is above 0.1."""

    def step(self, state, action, *, key):
        place = super().step(state, action, key=key)
        return jnp.where((place[0] > -0.6) & (self.slope_mean > 0.1), jnp.inf, place)


def test_what_an_environment_breaks_names_member_and_minibatch(tiny: PretrainConfig, tmp_path) -> None:
    members = {name: Fades(ROOM, slope="east", slope_mean=mean) for name, mean in (("good", 0.0), ("fades", 0.2))}
    mixed = EnvironmentClass(members, [0.5, 0.5], name="mixed")
    sentence = (
        r"epoch 0, seed 0, mini-batch \d+, environment fades: the environment returned a state that is not finite"
    )
    with pytest.raises(RunError, match=sentence):
        pretrain(mixed, dataclasses.replace(tiny, initial_log_std=0.0), folder=tmp_path / "run", quiet=True)


class Magnified(Gridworld):
    """A gridworld whose particles are positions in a tiny unit."""

    def features(self, state):
        return state * 1e19


@pytest.mark.parametrize("coinciding", ["stop", "noise"])
def test_particles_too_large_for_squares_stop_the_run(coinciding: str, tiny: PretrainConfig, tmp_path) -> None:
    config = dataclasses.replace(tiny, coinciding=coinciding, normalise=coinciding == "noise")
    sentence = r"environment room: the environment returned a particle that holds [\d.]+e\+1[89]; numbers above 1e\+16"
    with pytest.raises(RunError, match=sentence):
        pretrain(EnvironmentClass({"room": Magnified(ROOM)}), config, folder=tmp_path / "run", quiet=True)


SMALL = TrpoConfig(tasks=2, iterations=2, horizon=10, steps=40, hidden=(8,), critic_hidden=(4,), critic_passes=1)


def test_tasks_without_reward_leave_the_policy_as_it_was(tmp_path) -> None:
    nothing = RewardFunction(lambda state, action, next_state: 0.0, name="nothing")
    run = finetune("gridworld-slope/alpha-0.2", "GWN", SMALL, tasks=[nothing], folder=tmp_path / "run", quiet=True)
    assert run.returns.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("reward", [np.nan, np.inf, 1e38])
def test_rewards_that_are_no_numbers_stop_the_run(reward: float, tmp_path) -> None:
    bad = RewardFunction(lambda state, action, next_state: reward * jnp.sum(next_state), name="bad")
    with pytest.raises(RunError, match=r"iteration \d, task 0, seed 0: a state, a reward or a parameter is no longer"):
        finetune("gridworld-slope/alpha-0.2", "GWN", SMALL, tasks=[bad], folder=tmp_path / "run", quiet=True)


@given(st.integers(-18, 15), st.integers(0, 10**6), st.sampled_from([1, 7, 20]), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_the_entropy_moves_with_the_logarithm_of_the_unit(exponent: int, seed: int, k: int, dimension: int) -> None:
    """The law is H(cX) = H(X) + d ln c, as long as float32 can hold the squares of distances."""
    points = np.random.default_rng(seed).normal(size=(40, dimension)).astype(np.float32)
    moved = float(knn_entropy(points * np.float32(10.0**exponent), k)) - float(knn_entropy(points, k))
    assert moved == pytest.approx(dimension * exponent * np.log(10), abs=2e-3 * (1 + abs(exponent)))


@given(st.integers(0, 10**6), st.floats(0, 500), st.sampled_from([1, 6, 39]))
@settings(max_examples=20, deadline=None)
def test_weights_however_uneven_give_numbers(seed: int, spread: float, k: int) -> None:
    random = np.random.default_rng(seed)
    points = random.normal(size=(40, 2)).astype(np.float32)
    log_weights = (spread * random.normal(size=40)).astype(np.float32)
    entropy = float(importance_weighted_entropy(points, log_weights, k))
    divergence = float(knn_kl(points, log_weights, k))
    assert np.isfinite([entropy, divergence]).all()
    assert divergence >= 0
    again = float(importance_weighted_entropy(points, log_weights + np.float32(3.0), k))
    assert again == pytest.approx(entropy, rel=1e-2, abs=1e-2)
