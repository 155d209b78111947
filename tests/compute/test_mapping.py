"""Test that mapping gives the same result for all seeds at once (on an accelerator) and in a loop (on a CPU)."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol import make
from alphamepol.algorithms.alphamepol.epoch import improve_all_seeds
from alphamepol.algorithms.alphamepol.start import start_pretraining
from alphamepol.measuring.samples import neighbours_of_samples
from alphamepol.sampling.compiled_sampler import collect_compiled

pytestmark = pytest.mark.quick


def test_seeds_side_by_side_learn_what_they_learn_alone(tiny, monkeypatch) -> None:
    environment_class = make("gridworld-slope")
    config = dataclasses.replace(tiny, seeds=3, max_off_policy_iterations=8, trust_region=0.1, learning_rate=1e-3)
    state = start_pretraining(environment_class, config)
    members = jnp.array([[0, 0, 1, 0, 1, 0]] * 3)
    trajectories = collect_compiled(
        state.learners.policy, environment_class, members, batch=config.batch, horizon=config.horizon, keys=state.keys
    )
    neighbourhood = neighbours_of_samples(trajectories, config.neighbours)
    one_by_one, report = improve_all_seeds(state.learners, trajectories, neighbourhood, config, keys=state.keys)
    # The loops of the seeds end at different times, some by back-tracking.
    assert len(set(report.iterations.tolist())) > 1
    assert int(report.backtracks.max()) > 0

    jax.clear_caches()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    together, report_together = improve_all_seeds(state.learners, trajectories, neighbourhood, config, keys=state.keys)
    monkeypatch.undo()
    jax.clear_caches()
    np.testing.assert_array_equal(report.iterations, report_together.iterations)
    np.testing.assert_array_equal(report.backtracks, report_together.backtracks)
    for one, other in zip(jax.tree.leaves(one_by_one.policy), jax.tree.leaves(together.policy), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
