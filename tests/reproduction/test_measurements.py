"""Test the variance of gradients along training against a plain computation, one trajectory step at a time."""

import json
import statistics
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from alphamepol import GaussianPolicy, InputError, PretrainConfig, make, pretrain
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.measuring.samples import SamplePlan, draw_sample_members
from alphamepol.policies.policy import stack_policies
from alphamepol.reproduction.measurements import gradient_variance_measurement, parameters_of_action_mean
from alphamepol.runs.folder import RunFolder, SavedCheckpoint

CLASS, BATCHES = "gridworld-slope", 3
CONFIG = PretrainConfig(
    seeds=2,
    epochs=2,
    trajectories=8,
    batch=2,
    horizon=6,
    neighbours=2,
    hidden=(3,),
    alpha=0.5,
    update="on-policy",
    learning_rate=1e-2,
    evaluation_batches=1,
    checkpoint_every=1,
    keep_checkpoints="all",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gradients") / "run"
    pretrain(CLASS, CONFIG, folder=folder, quiet=True)
    return folder


def gradient_of_batch(policy, perceived, actions, entropies, *, baseline: bool) -> GaussianPolicy:
    """Return (E8') with the baseline and (E9) without it, of one seed, from the log-probability of each step."""
    tail = sorted(range(len(entropies)), key=lambda number: entropies[number])[:2]  # half of four mini-batches
    threshold = 0.0 if baseline else entropies[tail[-1]]

    def objective(policy):
        total = 0.0
        for number in tail:
            log_prob = jax.vmap(jax.vmap(lambda seen, action: policy.distribution(seen).log_prob(action)))
            score = log_prob(perceived[number], actions[number]).sum()
            total += (entropies[number] - threshold) * score / len(tail)
        return total

    return eqx.filter_grad(objective)(policy)


def plain_variances(run: Path, epoch: int, batches: range, *, baseline: bool) -> tuple[list[float], list[float]]:
    """Return the variance over all parameters, and over those of the mean, of every seed."""
    policies = RunFolder(run).load_policies(SavedCheckpoint("epoch", epoch))
    environment_class = make(CLASS)
    plan = SamplePlan.of(environment_class, CONFIG, list(policies))
    keys = split_keys_by_purpose(seed_keys(list(policies))).evaluation
    every: list[list[float]] = [[], []]
    of_mean: list[list[float]] = [[], []]
    gradients: list[list[GaussianPolicy]] = [[], []]
    for batch in batches:
        members, batch_keys = draw_sample_members(keys, batch, environment_class.probabilities, CONFIG.minibatches)
        drawn = plan.collect(stack_policies(list(policies.values())), members, "", keys=batch_keys)
        neighbourhood = plan.measure(drawn, None, "", keys=batch_keys).neighbourhood
        entropies = np.asarray(jax.vmap(jax.vmap(particle_entropy))(neighbourhood))
        for seed, policy in policies.items():
            samples = drawn.perceived[seed], drawn.actions[seed]
            gradients[seed].append(gradient_of_batch(policy, *samples, entropies[seed], baseline=baseline))
    for seed in policies:
        for found, part in ((every, lambda one: one), (of_mean, lambda one: one.layers)):
            rows = [np.asarray(ravel_pytree(part(one))[0], float).tolist() for one in gradients[seed]]
            found[seed] = sum(statistics.variance(values) for values in zip(*rows, strict=True))
    return every, of_mean


@pytest.mark.parametrize("baseline", [True, False])
def test_the_variance_along_training_is_that_of_a_plain_computation(run, tmp_path, baseline) -> None:
    gradient_variance_measurement(run, CLASS, CONFIG, BATCHES, tmp_path / "measured", (1, 2))
    found = json.loads((tmp_path / "measured/summary.json").read_text())
    assert (found["seeds"], found["checkpoints"], found["batches"]) == ([0, 1], [1, 2], BATCHES)
    name = "with_baseline" if baseline else "without"
    for column, epoch in enumerate((1, 2)):
        batches = range(column * BATCHES, (column + 1) * BATCHES)
        every, of_mean = plain_variances(run, epoch, batches, baseline=baseline)
        np.testing.assert_allclose(np.array(found[f"variance_{name}"])[:, column], every, rtol=1e-3)
        np.testing.assert_allclose(np.array(found[f"action_mean_variance_{name}"])[:, column], of_mean, rtol=1e-3)


def test_final_policies_are_those_of_the_last_checkpoint(run, tmp_path) -> None:
    gradient_variance_measurement(run, CLASS, CONFIG, BATCHES, tmp_path / "final")
    gradient_variance_measurement(run, CLASS, CONFIG, BATCHES, tmp_path / "last", (2,))
    final, last = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("final", "last"))
    for part in ("variance_with_baseline", "action_mean_variance_without", "squared_mean_without"):
        np.testing.assert_allclose(final[part], np.array(last[part])[:, 0], rtol=1e-6)


def test_checkpoints_that_were_not_kept_are_named(run, tmp_path) -> None:
    with pytest.raises(InputError, match=r"run has not kept its checkpoints after epoch 3, 4, .* another --folder"):
        gradient_variance_measurement(run, CLASS, CONFIG, BATCHES, tmp_path / "measured", (2, 3, 4))
    assert not (tmp_path / "measured").exists()


def test_the_parameters_of_the_mean_are_all_but_those_of_the_standard_deviation() -> None:
    policy = GaussianPolicy(2, 2, hidden=(3,), key=jax.random.key(0))
    of_mean = parameters_of_action_mean(policy)
    assert (of_mean.size, of_mean.sum()) == (2 * 3 + 3 + 3 * 2 + 2 + 2, 2 * 3 + 3 + 3 * 2 + 2)
    values = ravel_pytree(eqx.tree_at(lambda one: one.log_std, policy, jnp.full(2, 7.0)))[0]
    np.testing.assert_array_equal(values[~of_mean], [7.0, 7.0])
