"""Compare the speed of sampling a class of MuJoCo models with the speed of MuJoCo by itself, on the cores of a CPU."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from alphamepol.compute.machine import machine_cores
from alphamepol.environments.mujoco.ant import PHYSICS, STEPS_PER_ACTION
from alphamepol.environments.mujoco.ant_stairs import make_ant_stairs
from alphamepol.environments.mujoco.library import mujoco, silent_mujoco_warnings
from alphamepol.policies.policy import stack_policies
from alphamepol.policies.shape import PolicyShape, fresh_policy
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.settings.policy import PolicySettings
from benchmarks.measuring import Measurement, turn_by_turn

SEEDS, MINIBATCHES, BATCH, HORIZON = 3, 30, 5, 40
"""150 Ants for each seed, as many as in an epoch of the paper, but shorter trajectories."""


def measure(rounds: int) -> list[Measurement]:
    """Measure Ants of three seeds in one wave. MuJoCo by itself repeats their actions, and does the same work."""
    return [_measure_ants(rounds, integrator) for integrator in ("RK4", "Euler")]


def _measure_ants(rounds: int, integrator: str) -> Measurement:
    stairs = make_ant_stairs(integrator, physics="cpu")
    where = stairs["Down"]
    shape = PolicyShape.of_spaces(where.observation_space, where.action_space)
    settings = PolicySettings((400, 300), initial_log_std=-0.5)
    policies = stack_policies([fresh_policy(shape, settings, 0, key=jax.random.key(seed)) for seed in range(SEEDS)])
    members = jnp.arange(SEEDS * MINIBATCHES).reshape(SEEDS, MINIBATCHES) % 5 // 4
    keys = jax.random.split(jax.random.key(0), SEEDS)

    def ours() -> Any:
        return collect_with_sampler(policies, stairs, members, batch=BATCH, horizon=HORIZON, keys=keys)

    done = ours()
    starts = np.asarray(done.perceived[..., 0, :], float).reshape(-1, 29)
    starts = np.concatenate([np.zeros((len(starts), 1)), starts], axis=1)
    controls = np.asarray(done.actions, float).reshape(len(starts), HORIZON, 8)
    models = [where.staging.models[number] for number in np.repeat(np.asarray(members).ravel(), BATCH)]
    assert starts.shape[1] == mujoco.mj_stateSize(models[0], PHYSICS)
    data = [mujoco.MjData(models[0]) for _ in range(machine_cores())]
    pool = mujoco.rollout.Rollout(nthread=machine_cores())

    def bare() -> None:
        state = starts
        for t in range(HORIZON):
            states: Any = pool.rollout(models, data, state, controls[:, t : t + 1], nstep=STEPS_PER_ACTION)[0]
            state = states[:, -1]

    with silent_mujoco_warnings():
        seconds = turn_by_turn(rounds, ours=ours, bare=bare)
    pool.close()
    name = f"{len(starts) * HORIZON} steps of Ants, {integrator}, {SEEDS} seeds in one wave, with the policy"
    return Measurement(name, seconds["ours"], peers={"mujoco.rollout, the same actions": seconds["bare"]})
