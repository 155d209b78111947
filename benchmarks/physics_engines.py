"""Compare the two engines of MuJoCo classes on Ant Stairs: single steps, statistics, contacts with blocks and walls.

    python -m benchmarks.physics_engines OUT.json

One engine is MuJoCo on the cores of a CPU. The other is MuJoCo Warp, on the GPU; without a GPU it runs on the CPU, and
is slow. docs/mujoco.md shows the results.
"""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

import copy
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco_warp
import numpy as np
import tyro

import alphamepol as am
from alphamepol.compute.devices import device_name
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.mujoco import engines
from alphamepol.environments.mujoco.ant import STEPS_PER_ACTION
from alphamepol.environments.mujoco.ant_stairs import make_ant_stairs
from alphamepol.environments.mujoco.library import mujoco
from alphamepol.environments.mujoco.mujoco_class import mujoco_class
from alphamepol.environments.mujoco.physics import PhysicsState
from alphamepol.environments.mujoco.stairs import EAST, SOUTH, STAIRS, WEST
from alphamepol.measuring.samples import entropies_of_samples, neighbours_of_samples
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.sampling.rollout import rollout_states
from alphamepol.sampling.sampler import collect_with_sampler
from benchmarks.gpu_physics import ant_policies

ENGINES = "gpu", "cpu"
PUT_MODEL = mujoco_warp.put_model
QUANTILES = 0.5, 0.9, 0.95, 0.99, 1.0
CONTACTS_SEEN = 5
"""The number of states of a trajectory whose contacts are counted."""


def main(
    out: Annotated[Path, tyro.conf.Positional],
    states: int = 1000,
    trajectories: int = 1000,
    horizon: int = 400,
    neighbours: int = 500,
    falls: int = 300,
    only: tuple[str, ...] = (),
) -> None:
    """Compare the engines, and write the figures.

    Args:
        out: the JSON file of the figures.
        states: the number of states from which both engines take one control step.
        trajectories: the number of trajectories in each member, with each policy and engine.
        horizon: the number of steps of a trajectory.
        neighbours: k of their entropies.
        falls: the number of control steps of an Ant that falls onto a block.
        only: the parts to do: single_steps, falls, statistics or repeated_bits; all if none is given.
    """
    engines.has_nvidia_gpu = lambda: True  # without a GPU, MuJoCo Warp steps where JAX computes
    found: dict[str, Any] = {"device": device_name()}
    parts: dict[str, Callable[[], Any]] = {
        "single_steps": lambda: single_steps(states, horizon),
        "falls": lambda: resting_heights(falls),
        "statistics": lambda: statistics(trajectories, horizon, neighbours),
        "repeated_bits": lambda: repeated_bits(states),
    }
    for name in only or parts:
        part, began = parts[name], time.monotonic()
        found[name] = part()
        found[f"{name}_seconds"] = round(time.monotonic() - began, 1)
        out.write_text(json.dumps(found, indent=1) + "\n")
        print(name, json.dumps(found[name]), flush=True)


def ant_stairs_for_engines(integrator: str, cone: str) -> EnvironmentClass:
    """Return Ant Stairs with another integrator and friction cone. The models have the pyramidal one."""
    stairs = make_ant_stairs(integrator)
    if cone == "pyramidal":
        return stairs
    # The engines of the pyramidal class hold its models, so that copies are changed.
    models = {name: copy.copy(model) for name, model in zip(stairs.names, stairs[0].staging.models, strict=True)}
    for model in models.values():
        model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    return mujoco_class(models, stairs.probabilities, frame_skip=STEPS_PER_ACTION, entropy_on=slice(2))


@eqx.filter_jit
def step_rows(members: Any, states: PhysicsState, actions: Any) -> PhysicsState:
    """Take one control step in each row, in the member of this row."""
    return jax.vmap(lambda member, state, action: member.step(state, action, key=jax.random.key(0)))(
        members, states, actions
    )


def single_steps(count: int, horizon: int) -> list[dict[str, Any]]:
    """Take one control step on both engines from states of trajectories of MuJoCo, and compare the positions."""
    found = []
    for integrator in ("Euler", "RK4"):
        for cone in ("pyramidal", "elliptic"):
            stairs = ant_stairs_for_engines(integrator, cone)
            rows = {kind: stairs.with_physics(kind).members for kind in ENGINES}
            numbers = jnp.arange(count) % 2
            members = {kind: take_from_trees(one, numbers) for kind, one in rows.items()}
            states = states_of_trajectories(stairs.with_physics("cpu"), numbers, horizon)
            actions = jax.random.uniform(jax.random.key(2), (count, 8), minval=-1.0, maxval=1.0)
            moved = {kind: step_rows(one, states, actions) for kind, one in members.items()}
            difference = np.abs(np.asarray(moved["gpu"].qpos) - np.asarray(moved["cpu"].qpos)).max(axis=1)
            touching = contacts_within_step(stairs, np.asarray(numbers), states, np.asarray(actions))
            for name, which in (("no contact", ~touching), ("contact", touching)):
                quantiles = np.quantile(difference[which], QUANTILES) if which.any() else [None] * len(QUANTILES)
                found.append(
                    {
                        **{"integrator": integrator, "cone": cone, "states": name, "count": int(which.sum())},
                        **{
                            f"quantile {q:g}": value
                            for q, value in zip(QUANTILES, map(as_number, quantiles), strict=True)
                        },
                        "above 1e-6": int((difference[which] > 1e-6).sum()),
                        "above 1e-5": int((difference[which] > 1e-5).sum()),
                    }
                )
    return found


def as_number(value: Any) -> float | None:
    return None if value is None else float(value)


def states_of_trajectories(stairs: EnvironmentClass, numbers: Any, horizon: int) -> PhysicsState:
    """Return one state of a trajectory for each row, at a random time, with a released policy or an untrained one."""
    policies = [am.load_policy("ant-stairs/alpha-0.2"), take_from_trees(ant_policies(stairs, 1), 0)]
    count = len(numbers)
    times = jax.random.randint(jax.random.key(3), (count,), 0, horizon)

    @eqx.filter_jit
    def states_of(policy: Policy, members: Any) -> PhysicsState:
        def one(member: Any, time: Any, key: Any) -> PhysicsState:
            states = rollout_states(policy, member, horizon, key=key).states
            return jax.tree.map(lambda leaf: leaf[time], states)

        return jax.vmap(one)(members, times, jax.random.split(jax.random.key(4), count))

    members = take_from_trees(stairs.members, numbers)
    first, second = (states_of(policy, members) for policy in policies)
    chosen = (jnp.arange(count) // 2) % 2 == 0
    return jax.tree.map(lambda a, b: jnp.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b), first, second)


def contacts_within_step(stairs: EnvironmentClass, numbers: Any, states: PhysicsState, actions: Any) -> np.ndarray:
    """Return in which rows a contact has an effect on the control step: without contacts, it would end elsewhere."""
    models = stairs[0].staging.models
    touching = np.zeros(len(numbers), bool)
    for row, number in enumerate(numbers):
        ends = []
        for disabled in (0, int(mujoco.mjtDisableBit.mjDSBL_CONTACT)):
            model = copy.copy(models[number])
            model.opt.disableflags |= disabled
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:], data.ctrl[:] = states.qpos[row], states.qvel[row], actions[row]
            mujoco.mj_step(model, data, nstep=STEPS_PER_ACTION)
            ends.append(data.qpos.copy())
        touching[row] = not np.array_equal(*ends)
    return touching


def resting_heights(control_steps: int) -> dict[str, Any]:
    """Drop an Ant onto each block, without actions, and return how high it rests above the block, on both engines."""
    found: dict[str, Any] = {}
    for kind in ENGINES:
        stairs = make_ant_stairs("RK4", physics=kind)
        blocks = [(name, block, height) for name in STAIRS for block, height in enumerate(STAIRS[name].heights)]
        numbers = jnp.array([stairs.index(name) for name, *_ in blocks])
        members = take_from_trees(stairs.members, numbers)
        place = jnp.array([(WEST + 1 + 2 * block, 0.0, height + 1.0) for _, block, height in blocks])
        state = dataclasses.replace(members.start, qpos=members.start.qpos.at[:, :3].set(place))

        def fall(state: PhysicsState, _: Any, members: Any = members) -> tuple[PhysicsState, None]:
            step = jax.vmap(lambda member, state: member.step(state, jnp.zeros(8), key=jax.random.key(0)))
            return step(members, state), None

        end, _ = jax.jit(lambda state, fall=fall: jax.lax.scan(fall, state, length=control_steps))(state)
        above = np.asarray(end.qpos[:, 2]) - np.array([height for *_, height in blocks])
        speed = np.abs(np.asarray(end.qvel[:, :3])).max(axis=1)
        found[kind] = {
            f"{name} {height:g}": {"above the block": float(a), "speed": float(v)}
            for (name, _, height), a, v in zip(blocks, above, speed, strict=True)
        }
    return found


def statistics(trajectories: int, horizon: int, neighbours: int) -> list[dict[str, Any]]:
    """Compare statistics of trajectories of three policies in both members, with intervals of the differences."""
    stairs = make_ant_stairs("RK4")
    minibatches = trajectories // 5
    found = []
    for number, (name, policy) in enumerate(policies_to_compare(stairs).items()):
        for member in stairs.names:
            samples: dict[str, dict[str, np.ndarray]] = {}
            for kind in ENGINES:
                key = jax.random.fold_in(jax.random.key(10 + number), ENGINES.index(kind))
                done = collect_with_sampler(
                    stack_policies([policy]),
                    stairs.with_physics(kind),
                    jnp.full((1, minibatches), stairs.index(member)),
                    batch=5,
                    horizon=horizon,
                    keys=key[None],
                )
                samples[kind] = statistics_of_minibatches(stairs, member, done, neighbours)
            for quantity in samples["gpu"]:
                pair = [samples[kind][quantity] for kind in ENGINES]
                difference = float(pair[0].mean() - pair[1].mean())
                width = float(1.96 * np.sqrt(sum(values.var(ddof=1) / len(values) for values in pair)))
                found.append(
                    {
                        **{"policy": name, "member": member, "quantity": quantity},
                        **{kind: float(values.mean()) for kind, values in zip(ENGINES, pair, strict=True)},
                        "difference": difference,
                        "interval": [difference - width, difference + width],
                        "within": bool(abs(difference) <= width),
                    }
                )
    return found


def policies_to_compare(stairs: EnvironmentClass) -> dict[str, Policy]:
    """Return an untrained policy, a released one, and one that always takes the same action."""
    untrained: Any = take_from_trees(ant_policies(stairs, 1), 0)
    action = jnp.array([1.0, -0.5, 0.5, 1.0, -1.0, 0.5, -0.5, 1.0])
    constant = eqx.tree_at(
        lambda policy: (policy.layers[-1].weight, policy.layers[-1].bias, policy.log_std),
        untrained,
        (jnp.zeros_like(untrained.layers[-1].weight), action, jnp.full(8, -10.0)),
    )
    return {"Random": untrained, "αMEPOL (0.2), released": am.load_policy("ant-stairs/alpha-0.2"), "constant": constant}


def statistics_of_minibatches(
    stairs: EnvironmentClass, member: str, done: Any, neighbours: int
) -> dict[str, np.ndarray]:
    """Return the mean of each quantity in each mini-batch."""
    entropies = np.asarray(entropies_of_samples(neighbours_of_samples(done, neighbours))[0])
    perceived = np.asarray(done.perceived[0])  # positions and velocities
    particles = np.asarray(done.particles[0])
    north = STAIRS[member].north
    outside = np.stack([WEST - particles[..., 0], particles[..., 0] - EAST, SOUTH - particles[..., 1]], -1)
    beyond = max(float(outside.max()), float((particles[..., 1] - north).max()))
    assert beyond < 0, f"{beyond} beyond a wall of {member}"
    model = stairs[member].staging.models[stairs.index(member)]
    return {
        "entropy": entropies,
        "height": perceived[..., 2].mean(axis=(1, 2)),
        "speed": np.linalg.norm(perceived[..., 15:17], axis=-1).mean(axis=(1, 2)),
        "x at the end": particles[:, :, -1, 0].mean(axis=1),
        "contacts": count_contacts(model, perceived),
    }


def count_contacts(model: Any, perceived: np.ndarray) -> np.ndarray:
    """Return the mean number of contacts in some states of each mini-batch."""
    data = mujoco.MjData(model)
    times = np.linspace(0, perceived.shape[2] - 1, CONTACTS_SEEN + 1).astype(int)[1:]
    counts = np.zeros((*perceived.shape[:2], len(times)))
    for place in np.ndindex(*counts.shape):
        data.qpos[:] = perceived[place[0], place[1], times[place[2]], : model.nq]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        counts[place] = data.ncon
    return counts.mean(axis=(1, 2))


def repeated_bits(count: int, control_steps: int = 10, repetitions: int = 4) -> list[dict[str, Any]]:
    """Repeat control steps of MuJoCo Warp from the same states, with and without `opt.deterministic`.

    Return how many rows do not have the same bits in all repetitions, and how many seconds a control step takes.
    """
    found = []
    for deterministic in (mujoco_warp.DeterminismType.NONE, mujoco_warp.DeterminismType.ALL):

        def put_model(*given: Any, deterministic: Any = deterministic, **more: Any) -> Any:
            model: Any = PUT_MODEL(*given, **more)
            model.opt.deterministic = deterministic
            return model

        mujoco_warp.put_model = put_model
        engines._engines.clear()
        stairs = make_ant_stairs("Euler", physics="gpu")
        members = take_from_trees(stairs.members, jnp.arange(count) % 2)
        reset = jax.vmap(lambda member, key: member.reset(key=key))
        states = reset(members, jax.random.split(jax.random.key(0), count))
        differing, largest, seconds = [], 0.0, []
        for number in range(control_steps):
            actions = jax.random.uniform(jax.random.key(number), (count, 8), minval=-1.0, maxval=1.0)
            ends = []
            for _ in range(repetitions):
                began = time.perf_counter()
                ends.append(jax.block_until_ready(step_rows(members, states, actions)))
                seconds.append(time.perf_counter() - began)
            apart = np.abs(np.stack([end.qpos for end in ends[1:]]) - np.asarray(ends[0].qpos)).max(axis=(0, 2))
            differing.append(int((apart > 0).sum()))
            largest = max(largest, float(apart.max()))
            states = ends[0]
        found.append(
            {
                "deterministic": deterministic.name,
                "rows": count,
                "rows that differ, by control step": differing,
                "largest difference of a position": largest,
                "median seconds of a control step": float(np.median(seconds)),
            }
        )
    mujoco_warp.put_model = PUT_MODEL
    engines._engines.clear()
    return found


if __name__ == "__main__":
    tyro.cli(main)
