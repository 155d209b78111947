"""A class of Gymnasium environments, run in worker processes."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatten_space

from alphamepol.compute.machine import machine_cores
from alphamepol.environments.gymnasium.fleet import GymnasiumFleet
from alphamepol.environments.gymnasium.worker import EntropyOn, Particle, ParticleError, Recipe, Station
from alphamepol.environments.host import HostClass, HostMember, Spaces
from alphamepol.environments.image_spaces import image_space_shape
from alphamepol.environments.tasks import EnvironmentReward
from alphamepol.errors import InputError

TURN = 2e-3
"""Seconds that a worker should be busy when it is told to step: several cheap environments, or one that is not."""
MOST_COPIES = 16


def gymnasium_class(
    members: Mapping[str, str | Callable[[], gymnasium.Env]],
    probabilities: Sequence[float] | None = None,
    entropy_on: EntropyOn = None,
    *,
    name: str = "custom",
    endless: bool = False,
    workers: int | None = None,
    copies: int | None = None,
) -> HostClass:
    """A class of Gymnasium environments with equal spaces.

        gymnasium_class({"light": partial(gymnasium.make, "Pendulum-v1"), "heavy": make_heavy}, [0.8, 0.2])

    **Arguments**

    - `members`: name → a Gymnasium id, or a function without arguments that makes the environment. Actions are a `Box`
      or `Discrete`; observations images (uint8, height x width x channels, at least 7 x 7), or whatever else
      Gymnasium can flatten: a `Box` of any shape, `Discrete`, `Dict`, `Tuple` …
    - `probabilities`: one per member, summing to 1; uniform if not given.
    - `entropy_on`: what explores: indices or a slice of the flat observation, or a function. A function is given the
      observation as the environment returns it, or, where its parameter is called `info`, the step's `info`; with
      `(observation, info)` both. It returns a number or a vector. The whole flat observation if not given.
    - `name`: what reports call the class.
    - `endless`: whether pre-training goes on where an environment says that an episode is over; such an environment
      must bear further steps. Fine-tuning ends episodes either way.
    - `workers`: how many processes run environments; one per core if not given. Results do not depend on it.
    - `copies`: how many environments of each member a worker holds. If not given, one where a step takes two
      milliseconds or more, and up to 16 where it takes less. Results do not depend on it.

    Every member is made and tried for a few steps here, so that what cannot work is said at once.
    """
    if not isinstance(members, Mapping) or not members:
        raise InputError("members: none was given; give a dictionary with at least one, name to environment")
    for field, value in (("workers", workers), ("copies", copies)):
        if value is not None and value < 1:
            raise InputError(f"{field}: {value} was given; it must be at least 1")
    recipe = Recipe(
        {name: _maker_for_gymnasium_class(name, made) for name, made in members.items()}, Particle(entropy_on)
    )
    trials = {name: _try_member_of_gymnasium_class(name, recipe) for name in members}
    _check_gymnasium_class_alike(trials)
    found = {
        name: HostMember(
            Spaces(trial.observation_space, trial.action_space),
            trial.feature_size,
            time_limit=trial.time_limit,
            endless=endless,
            tasks=(EnvironmentReward(),),
        )
        for name, trial in trials.items()
    }
    slowest = max(trial.seconds for trial in trials.values())
    copies = copies or int(np.clip(math.ceil(TURN / slowest), 1, MOST_COPIES))
    fleet = GymnasiumFleet(recipe, next(iter(found.values())), workers or machine_cores(), copies)
    description = (
        f"{[trial.what for trial in trials.values()]} {describe_for_gymnasium_class(entropy_on)}{' endless' * endless}"
    )
    return HostClass(found, fleet, probabilities, name, description)


class Trial(NamedTuple):
    """What a first look at a member shows."""

    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    given_spaces: dict[str, gymnasium.Space]
    """As the environment has them."""
    feature_size: int
    time_limit: float
    seconds: float
    """Of one step."""
    what: str


def _maker_for_gymnasium_class(name: str, made: Any) -> Callable[[], gymnasium.Env]:
    if isinstance(made, str):
        # Trajectories have a horizon of their own.
        return lambda: gymnasium.make(made, max_episode_steps=-1)
    if not callable(made):
        raise InputError(
            f"members: {name!r} is {made!r}; give a Gymnasium id, or a function that makes the environment"
        )
    return cast(Callable[[], gymnasium.Env], made)


def _try_member_of_gymnasium_class(name: str, recipe: Recipe, steps: int = 5) -> Trial:
    """Make a member, take a few steps in it, close it."""
    try:
        env = recipe.makers[name]()
    except Exception as error:
        raise InputError(f"members: {name!r} cannot be made ({type(error).__name__}: {error})") from error
    if not isinstance(env, gymnasium.Env):
        raise InputError(f"members: {name!r} made {type(env).__name__}, which is no Gymnasium environment")
    try:
        action_space = _actions_of_gymnasium_class(name, env.action_space)
        observation_space = _observations_of_gymnasium_class(name, env.observation_space)
        station = Station(env, recipe)
        action_space.seed(0)
        size, durations = 0, []
        try:
            station.reset(0)
            for _ in range(steps):
                begin = time.perf_counter()
                _, particle, _, over, cut = station.step(np.asarray(action_space.sample()))
                durations.append(time.perf_counter() - begin)
                size = particle.size
                if over or cut:
                    station.reset(0)
        except ParticleError as error:
            raise InputError(f"entropy_on: in {name!r} {error}") from error
        except Exception as error:
            raise InputError(f"members: {name!r} cannot be stepped ({type(error).__name__}: {error})") from error
        if size == 0:
            raise InputError(f"entropy_on: it selects nothing of the observation of {name!r}")
        what = (
            f"{env.spec.id} {describe_for_gymnasium_class(env.spec.kwargs)}"
            if env.spec
            else type(env.unwrapped).__name__
        )
        given = {"observation_space": env.observation_space, "action_space": env.action_space}
        return Trial(
            observation_space, action_space, given, size, _time_limit_in_gymnasium_class(env), min(durations), what
        )
    finally:
        env.close()


def _actions_of_gymnasium_class(name: str, space: gymnasium.Space) -> gymnasium.Space:
    if isinstance(space, gymnasium.spaces.Discrete):
        return gymnasium.spaces.Discrete(int(space.n))
    if isinstance(space, gymnasium.spaces.Box):
        return gymnasium.spaces.Box(
            space.low.ravel().astype(np.float32), space.high.ravel().astype(np.float32), dtype=np.float32
        )
    raise InputError(f"members: {name!r} has the action space {space}; only Box and Discrete are possible")


def _observations_of_gymnasium_class(name: str, space: gymnasium.Space) -> gymnasium.Space:
    """Images as they are, all else flat."""
    if image_space_shape(space):
        return space
    flat = flatten_space(space) if space.is_np_flattenable else None
    if not isinstance(flat, gymnasium.spaces.Box):
        raise InputError(f"members: {name!r} has observations {space}, which Gymnasium cannot flatten into a vector")
    return gymnasium.spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)


def _check_gymnasium_class_alike(trials: Mapping[str, Trial]) -> None:
    (first_name, first), *others = trials.items()
    for name, trial in others:
        for space in first.given_spaces:
            if trial.given_spaces[space] != first.given_spaces[space]:
                raise InputError(
                    f"members: {name!r} and {first_name!r} differ in {space}: {trial.given_spaces[space]} and "
                    f"{first.given_spaces[space]}; a wrapper can make them alike"
                )
        if trial.feature_size != first.feature_size:
            raise InputError(
                f"entropy_on: it gives {trial.feature_size} numbers in {name!r} and {first.feature_size} in "
                f"{first_name!r}; it must give equally many"
            )


def _time_limit_in_gymnasium_class(env: gymnasium.Env) -> float:
    """The steps after which the smallest time limit among the wrappers cuts an episode."""
    limit = math.inf
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limit = min(limit, float(env._max_episode_steps))
        env = env.env
    return limit


def describe_for_gymnasium_class(thing: Any) -> str:
    """Tells one thing from another in any process: functions by their names, other objects by their type."""
    if isinstance(thing, partial):
        return " ".join(describe_for_gymnasium_class(part) for part in (thing.func, thing.args, thing.keywords))
    if isinstance(thing, Mapping):
        return str(
            [(describe_for_gymnasium_class(name), describe_for_gymnasium_class(value)) for name, value in thing.items()]
        )
    if isinstance(thing, list | tuple):
        return str([describe_for_gymnasium_class(part) for part in thing])
    if isinstance(thing, np.ndarray):
        return str(thing.tolist())
    if thing is None or isinstance(thing, str | int | float | slice | np.generic):
        return repr(thing)
    return getattr(thing, "__qualname__", type(thing).__qualname__)
