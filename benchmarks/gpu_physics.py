"""Compare the speed of sampling Ants on a GPU with the speed of MuJoCo Warp by itself, in the same process."""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false

from typing import Any

import jax
import jax.numpy as jnp
import mujoco_warp
import numpy as np
import warp as wp

from alphamepol.environments.mujoco.ant import STEPS_PER_ACTION, build_mujoco_ant
from alphamepol.environments.mujoco.ant_stairs import make_ant_stairs
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.policies.shape import fresh_policy, policy_shape
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.settings.policy import PolicySettings
from benchmarks.measuring import Measurement, turn_by_turn

SEEDS, BATCH = 10, 5
HORIZON = 100
WORLDS = 1_500, 12_000
"""The numbers of Ants that are stepped together: those of ten seeds of the paper, and eight times as many."""


def measure(rounds: int) -> list[Measurement]:
    """Measure Ants of ten seeds in one wave, with the policy. MuJoCo Warp by itself repeats their actions."""
    return [_measure_worlds(rounds, *which) for which in ((i, n) for i in ("Euler", "RK4") for n in WORLDS)]


def ant_policies(stairs: Any, seeds: int) -> Policy:
    """Return untrained policies with the paper's settings, stacked over seeds."""
    settings = PolicySettings((400, 300), initial_log_std=-0.5)
    shape = policy_shape(stairs)
    return stack_policies([fresh_policy(shape, settings, 0, key=jax.random.key(seed)) for seed in range(seeds)])


def _measure_worlds(rounds: int, integrator: str, worlds: int) -> Measurement:
    stairs = make_ant_stairs(integrator, physics="gpu")
    policies, keys = ant_policies(stairs, SEEDS), jax.random.split(jax.random.key(0), SEEDS)
    minibatches = worlds // (SEEDS * BATCH)
    up = jnp.full((SEEDS, minibatches), stairs.index("Up"))
    mixed = jnp.arange(SEEDS * minibatches).reshape(up.shape) % 5 // 4

    def ours(members: Any) -> Any:
        return collect_with_sampler(policies, stairs, members, batch=BATCH, horizon=HORIZON, keys=keys)

    done = ours(up)
    starts = np.asarray(done.perceived[..., 0, :]).reshape(worlds, -1)
    bare = BareWarp(integrator, starts, np.asarray(done.actions).reshape(worlds, HORIZON, -1))
    seconds = turn_by_turn(rounds, ours=lambda: ours(up), ours_mixed=lambda: ours(mixed), bare=bare.run)
    steps = worlds * HORIZON
    rates = {name: f"{steps / found.median:,.0f}" for name, found in seconds.items()}
    return Measurement(
        f"{steps} steps of {worlds} Ants, {integrator}, {SEEDS} seeds in one wave, with the policy",
        seconds["ours"],
        peers={"MuJoCo Warp, the same actions": seconds["bare"], "ours, a fifth of them in Up": seconds["ours_mixed"]},
        note=f"control steps a second: {rates['ours']}; MuJoCo Warp by itself {rates['bare']}; a fifth of the Ants in "
        f"Up, the others in Down: {rates['ours_mixed']}",
    )


class BareWarp:
    """MuJoCo Warp by itself: the steps of an action are one CUDA graph, which Python launches for every action."""

    def __init__(self, integrator: str, starts: np.ndarray, actions: np.ndarray):
        model = build_mujoco_ant("Up", integrator)
        worlds, horizon, _ = actions.shape
        self._model: Any = mujoco_warp.put_model(model)
        self._data: Any = mujoco_warp.make_data(model, nworld=worlds)
        self._qpos, self._qvel = (
            wp.array(np.ascontiguousarray(part), dtype=float) for part in (starts[:, : model.nq], starts[:, model.nq :])
        )
        self._actions = [wp.array(np.ascontiguousarray(actions[:, t]), dtype=float) for t in range(horizon)]
        self._graph: Any = None
        self.run()  # loads all kernels
        if wp.get_device().is_cuda:
            with wp.ScopedCapture() as capture:
                self._step()
            self._graph = capture.graph

    def _step(self) -> None:
        for _ in range(STEPS_PER_ACTION):
            mujoco_warp.step(self._model, self._data)

    def run(self) -> None:
        wp.copy(self._data.qpos, self._qpos)
        wp.copy(self._data.qvel, self._qvel)
        for actions in self._actions:
            wp.copy(self._data.ctrl, actions)
            if self._graph is None:
                self._step()
            else:
                wp.capture_launch(self._graph)
        wp.synchronize()
