"""How quickly environments on the host are sampled, beside what they give by themselves.

    python -m benchmarks.host_sampling ant          the Ants' fleet beside bare `mujoco.rollout` with random controls
    python -m benchmarks.host_sampling gymnasium    a Gymnasium class beside `gymnasium.vector.AsyncVectorEnv`

Turn by turn in one run; medians.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console

from alphamepol.environments.gymnasium_class import gymnasium_class
from alphamepol.environments.host import HostClass
from alphamepol.machine import cores
from alphamepol.policies import PolicySettings, PolicyShape, fresh_policy, stack_policies
from alphamepol.sampling import host

say = Console(highlight=False).print


class Busy(gymnasium.Env[np.ndarray, np.ndarray]):
    """A step keeps a core busy for a given time."""

    observation_space = gymnasium.spaces.Box(-1, 1, (17,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (6,), np.float32)

    def __init__(self, seconds: float):
        self.seconds = seconds

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: np.ndarray):
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return np.tanh(np.resize(action, 17)).astype(np.float32), 0.0, False, False, {}


def turn_by_turn(rounds: int, **what: Callable[[], float]) -> dict[str, float]:
    """The median over rounds of the steps per second that each gives, after one round that compiles."""
    rates: dict[str, list[float]] = {name: [] for name in what}
    for measure in what.values():
        measure()
    for _ in range(rounds):
        for name, measure in what.items():
            rates[name].append(measure())
    for name, values in rates.items():
        say(f"  {name:42} {statistics.median(values):10.0f} steps/s   ({min(values):.0f} … {max(values):.0f})")
    return {name: statistics.median(values) for name, values in rates.items()}


def sample(environment_class: HostClass, trajectories: int, horizon: int, hidden: tuple[int, ...]) -> float:
    """Steps per second of the whole sampler, its policy included."""
    member = environment_class[0]
    shape = PolicyShape.of_spaces(member.observation_space, member.action_space)
    policy = stack_policies([fresh_policy(shape, PolicySettings(hidden), key=jax.random.key(0))])
    members = jnp.zeros((1, trajectories), int)
    begin = time.perf_counter()
    host.collect(policy, environment_class, members, batch=1, horizon=horizon, keys=jax.random.key(1)[None])
    return trajectories * horizon / (time.perf_counter() - begin)


def ant(rounds: int) -> None:
    """150 trajectories, as in an epoch of the paper; 40 steps of each."""
    from alphamepol.environments.ant import STEPS_PER_ACTION, mujoco, start_state
    from alphamepol.environments.ant_fleet import ant_stairs

    rows, horizon = 150, 40
    stairs, threads = ant_stairs(), cores()
    models = [stairs.fleet._models[0]] * rows  # the same physics, asked for directly
    data = [mujoco.MjData(models[0]) for _ in range(threads)]
    starts = np.stack([start_state(models[0], "Down", np.random.default_rng(row)) for row in range(rows)])
    pool = mujoco.rollout.Rollout(nthread=threads)
    controls = 0.6 * np.random.default_rng(0).standard_normal((horizon, rows, 8))

    def bare() -> float:
        state, begin = starts, time.perf_counter()
        for control in controls:
            states: Any = pool.rollout(models, data, state, control[:, None], nstep=STEPS_PER_ACTION)[0]
            state = states[:, -1]
        return rows * horizon / (time.perf_counter() - begin)

    def fleet() -> float:
        board, stations = stairs.fleet.board(rows), np.arange(rows)
        stairs.fleet.reset(board, stations, np.zeros(rows, int), np.arange(rows, dtype=np.uint32))
        begin = time.perf_counter()
        for control in controls.astype(np.float32):
            stairs.fleet.step(board, stations, control)
        return rows * horizon / (time.perf_counter() - begin)

    say(f"Ant Stairs, {rows} Ants side by side, {threads} threads:")
    whole = partial(sample, stairs, rows, horizon, (400, 300))
    rates = turn_by_turn(
        rounds,
        **{"mujoco.rollout, random controls": bare, "our fleet, the same controls": fleet, "with the policy": whole},
    )
    first, second, third = rates.values()
    say(f"fleet / bare {second / first:.3f}; with the policy's own time {third / first:.3f}")


def gymnasium_environments(rounds: int, milliseconds: float) -> None:
    """As many environments side by side as there are cores."""
    workers, horizon = cores(), int(1000 / milliseconds)
    make = partial(Busy, milliseconds / 1000)
    ours = gymnasium_class({"busy": make}, workers=workers)
    single = gymnasium_class({"busy": make}, workers=workers, copies=1)
    theirs = gymnasium.vector.AsyncVectorEnv([make] * workers)
    theirs.reset(seed=0)

    def asynchronous() -> float:
        begin = time.perf_counter()
        for _ in range(horizon):
            theirs.step(theirs.action_space.sample())
        return workers * horizon / (time.perf_counter() - begin)

    say(f"{milliseconds:g} ms a step, {workers} workers:")
    together = ours.fleet.board(1).together
    whole = partial(sample, ours, together, horizon, (300, 300))
    one_copy = partial(sample, single, workers, horizon, (300, 300))
    rates = turn_by_turn(
        rounds,
        **{
            "AsyncVectorEnv, random actions": asynchronous,
            f"ours ({together // workers} a worker), with the policy": whole,
            "one a worker, with the policy": one_copy,
            "one a worker, the policy's time apart": partial(without_policy, one_copy, workers * horizon),
        },
    )
    first, *others = rates.values()
    say("ours / AsyncVectorEnv " + ", ".join(f"{rate / first:.3f}" for rate in others))
    theirs.close()


def without_policy(measure: Callable[[], float], steps: int) -> float:
    """The rate that is left when the time of choosing actions is taken off."""
    choose, spent = host._choose, [0.0]

    def timed(*arguments: Any) -> Any:
        begin = time.perf_counter()
        chosen = jax.block_until_ready(choose(*arguments))
        spent[0] += time.perf_counter() - begin
        return chosen

    host._choose = timed
    try:
        seconds = steps / measure()
    finally:
        host._choose = choose
    return steps / (seconds - spent[0])


def main(
    what: Annotated[Literal["ant", "gymnasium"], tyro.conf.Positional], rounds: int = 7, milliseconds: float = 1.0
) -> None:
    """Measure.

    Args:
        what: which kind of environment.
        rounds: how often each is measured.
        milliseconds: what a step of the Gymnasium environment costs.
    """
    ant(rounds) if what == "ant" else gymnasium_environments(rounds, milliseconds)


if __name__ == "__main__":
    tyro.cli(main)
