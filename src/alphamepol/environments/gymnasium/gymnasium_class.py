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
from alphamepol.environments.cmp import check_entropy_names
from alphamepol.environments.environment_warnings import collect_environment_warnings, show_environment_warnings
from alphamepol.environments.gymnasium.fleet import GymnasiumFleet
from alphamepol.environments.gymnasium.worker import EntropyOn, Particle, ParticleError, Recipe, Station
from alphamepol.environments.host import HostClass, HostMember, Spaces
from alphamepol.environments.image_spaces import image_space_shape
from alphamepol.environments.tasks import EnvironmentReward
from alphamepol.errors import InputError

TURN = 2e-3
"""The time in seconds that a worker should be busy with one message. It then steps several cheap environments or a
slow one."""
MOST_COPIES = 16


def gymnasium_class(
    members: Mapping[str, str | Callable[[], gymnasium.Env]],
    probabilities: Sequence[float] | None = None,
    entropy_on: EntropyOn = None,
    *,
    entropy_names: Sequence[str] = (),
    name: str = "custom",
    endless: bool = False,
    workers: int | None = None,
    copies: int | None = None,
) -> HostClass:
    """Build a class of Gymnasium environments, which worker processes step.

    Every member is made and stepped a few times here, so that most mistakes are reported at once. The worker processes
    start when the class is first used.

    **Arguments**

    - `members`: a dictionary from names to environments. An environment is a Gymnasium id, or a function without
      arguments that makes it. The spaces of all members must be equal. Actions are a `Box` or `Discrete`. Observations
      are images (uint8, at least 7 × 7 pixels), or of any space that Gymnasium can flatten, such as a `Box` of any
      shape, `Discrete`, `Dict` or `Tuple`. The time limit of an environment that is given by its id is removed.
    - `probabilities`: one number per member; they must sum to 1. The default is a uniform distribution.
    - `entropy_on`: the quantity whose entropy is maximised: indices or a slice of the flat observation, or a function.
      The default is the whole flat observation. A function gets the observation as the environment returns it. If it
      has a parameter `info`, it gets the `info` of the step instead, or both for the parameters `(observation, info)`.
      It returns a number or a vector.
    - `entropy_names`: a name for each number of that quantity, e.g. `("position", "speed")`. Figures write the names at
      their axes. By default they are "observation 3" for component 3 of the flat observation, and "feature 0" for the
      first number that a function returns.
    - `name`: the name of the class in reports.
    - `endless`: if True, pre-training steps on, without a reset, after the environment has ended the episode. The
      environment must then accept further steps. Fine-tuning ends episodes in any case.
    - `workers`: the number of worker processes. The default is one per core. Results do not depend on it, up to 32
      workers.
    - `copies`: the number of environments of each member that a worker holds. By default it is 1 if a step takes two
      milliseconds or more, and up to 16 if a step takes less. Results do not depend on it.

    **Returns**

    The class, a `HostClass`.

    **Raises**

    - `InputError`: if a member cannot be made, stepped or sent to a worker process; if spaces are unsupported or
      differ; if `entropy_on` fails; if `entropy_names` has not one name per number; or if another argument is not
      allowed.

    **Example**

    ```python
    from functools import partial

    import gymnasium

    import alphamepol as am

    members = {"earth": "Pendulum-v1", "moon": partial(gymnasium.make, "Pendulum-v1", g=1.6)}
    pendulums = am.gymnasium_class(
        members, probabilities=[0.8, 0.2], entropy_on=[0, 2], entropy_names=("height", "speed"), name="pendulums"
    )
    print(pendulums.names, pendulums["moon"].entropy_names)  # ('earth', 'moon') ('height', 'speed')
    ```
    """
    if not isinstance(members, Mapping) or not members:
        raise InputError("members: none was given; give a dictionary with at least one name and its environment")
    for field, value in (("workers", workers), ("copies", copies)):
        if value is not None and value < 1:
            raise InputError(f"{field}: {value} was given; it must be at least 1")
    recipe = Recipe(
        {name: _maker_for_gymnasium_class(name, made) for name, made in members.items()}, Particle(entropy_on)
    )
    said: list[tuple[str, str]] = []
    trials: dict[str, Trial] = {}
    for one in members:
        with collect_environment_warnings(lambda text, one=one: said.append((one, text))):
            trials[one] = _try_member_of_gymnasium_class(one, recipe)
    show_environment_warnings(said)
    _check_gymnasium_class_alike(trials)
    first = next(iter(trials.values()))
    check_entropy_names(entropy_names, first.feature_size)
    names = tuple(entropy_names) or _usual_names_in_gymnasium_class(entropy_on, first)
    found = {
        name: HostMember(
            Spaces(trial.observation_space, trial.action_space),
            trial.feature_size,
            time_limit=trial.time_limit,
            endless=endless,
            tasks=(EnvironmentReward(),),
            entropy_names=names,
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
    """The properties of a member that are found by making it and stepping it a few times."""

    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    given_spaces: dict[str, gymnasium.Space]
    """The spaces of the environment itself, before flattening."""
    feature_size: int
    time_limit: float
    seconds: float
    """The shortest time of a step in seconds."""
    what: str
    """A text that identifies the environment: its id and arguments, or the name of its type."""


def _maker_for_gymnasium_class(name: str, made: Any) -> Callable[[], gymnasium.Env]:
    if isinstance(made, str):
        # The time limit of the environment is removed, because trajectories have their own horizon.
        return lambda: gymnasium.make(made, max_episode_steps=-1)
    if not callable(made):
        raise InputError(
            f"members: {name!r} is {made!r}; give a Gymnasium id, or a function that makes the environment"
        )
    return cast(Callable[[], gymnasium.Env], made)


def _try_member_of_gymnasium_class(name: str, recipe: Recipe, steps: int = 5) -> Trial:
    """Make a member, take a few steps in it, and close it."""
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
            raise InputError(f"entropy_on: it selects nothing from the observation of {name!r}")
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
    """Return the observation space of the class: images stay as they are, all other spaces become flat."""
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
                f"{first_name!r}; it must give equally many in all members"
            )


def _usual_names_in_gymnasium_class(entropy_on: EntropyOn, trial: Trial) -> tuple[str, ...]:
    """Return the names of features that were not named. Images have none, because no figure shows their pixels."""
    if callable(entropy_on):
        return tuple(f"feature {number}" for number in range(trial.feature_size))
    if image_space_shape(trial.observation_space):
        return ()
    components = np.arange(math.prod(trial.observation_space.shape or ()))
    chosen = components if entropy_on is None else np.atleast_1d(components[entropy_on])
    return tuple(f"observation {number}" for number in chosen.tolist())


def _time_limit_in_gymnasium_class(env: gymnasium.Env) -> float:
    """Return the smallest time limit among the wrappers of an environment, in steps."""
    limit = math.inf
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limit = min(limit, float(env._max_episode_steps))
        env = env.env
    return limit


def describe_for_gymnasium_class(thing: Any) -> str:
    """Return a text that distinguishes objects and is the same in every process.

    Numbers, texts, slices, arrays and collections are described by their values, functions by their names, and other
    objects by their types.
    """
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
