"""Compare many off-policy steps, in float32 and on all samples at once, with PyTorch in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import pytorch_rendition

from alphamepol import make
from alphamepol.algorithms.alphamepol.update import Learner, OffPolicySettings, improve_off_policy
from alphamepol.estimation.knn import nearest_neighbours
from alphamepol.policies.policy_kinds import GaussianPolicy
from alphamepol.sampling.sampler import collect_with_sampler

MINIBATCHES, ITERATIONS, RATE = 8, 12, 1e-3


@pytest.mark.parametrize("tail_size", [2, MINIBATCHES])
def test_steps_in_a_gridworld(tail_size: int) -> None:
    policy = GaussianPolicy(2, 2, (40, 30), key=jax.random.key(1))
    policies = jax.tree.map(lambda leaf: leaf[None], policy)
    members = jnp.arange(MINIBATCHES)[None] % 2
    stacked = collect_with_sampler(
        policies, make("gridworld-slope"), members, batch=3, horizon=50, keys=jax.random.split(jax.random.key(2), 1)
    )
    trajectories = jax.tree.map(lambda leaf: leaf[0], stacked)
    neighbourhood = nearest_neighbours(trajectories.particles.reshape(MINIBATCHES, -1, 2), 6)
    expected = pytorch_rendition.improve(
        policy, trajectories, neighbourhood, RATE, tail_size=tail_size, iterations=ITERATIONS
    )
    settings = OffPolicySettings(
        jnp.array(RATE), jnp.array(15.0), tail_size, max_iterations=ITERATIONS, subset_size=tail_size
    )
    learner, report = jax.jit(improve_off_policy)(Learner.start(policy), trajectories, neighbourhood, settings)
    assert int(report.iterations) == ITERATIONS
    assert report.objective == pytest.approx(expected.objectives[0], abs=1e-5)
    assert report.objective_after == pytest.approx(expected.objectives[-1], abs=1e-4)
    assert report.objective_after > report.objective + 0.01
    assert report.kl == pytest.approx(expected.kls[-1], rel=1e-3)
    parts = [part for layer in learner.policy.layers for part in (layer.weight, layer.bias)]
    for ours, theirs in zip([learner.policy.log_std, *parts], expected.parameters, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=RATE / 20)
