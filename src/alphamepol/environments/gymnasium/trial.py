"""The trial of a Gymnasium class: every member is made and stepped a few times, in a process of its own.

A member that ends its process, or that starts processes, can then do no harm to the main process.
"""

import math
import time
import traceback
from contextlib import suppress
from functools import cache, wraps
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatten, flatten_space

from alphamepol.compute.process_tree import DeadWorkerError, ProcessTree
from alphamepol.environments.environment_warnings import collect_environment_warnings, show_environment_warnings
from alphamepol.environments.gymnasium.worker import (
    Particle,
    ParticleError,
    Recipe,
    Station,
    close_gymnasium_environment,
    describe_environment_error,
)
from alphamepol.environments.image_spaces import image_space_shape
from alphamepol.errors import InputError
from alphamepol.files.names import describe_plainly

PATIENCE = 2.0
"""The seconds that the process of a trial has to end by itself."""


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
    particles: np.ndarray
    """The particles of the steps in float64, one in each row, before they are rounded to float32."""


class Answer(NamedTuple):
    """The answer of a trial process."""

    trial: Trial | None
    """The properties of the member; None if the trial failed."""
    failure: str
    """A sentence that says why the trial failed."""
    where: str
    """The traceback of the failure."""
    warned: list[str]
    """The warnings of Python and MuJoCo."""
    remarks: list[str]
    """Our own warnings."""


def try_gymnasium_members(names: list[str], pickled_recipe: bytes) -> dict[str, Trial]:
    """Try every member in a process of its own, and show its warnings.

    Raises an `InputError` if a member cannot be made or stepped, or if it ends the process.
    """
    trials: dict[str, Trial] = {}
    tree = ProcessTree()
    try:
        worker = tree.start(__name__, run_gymnasium_trials.__name__, pickled_recipe)
        for name in names:
            try:
                worker.tell(name)
                answer: Answer = cloudpickle.loads(worker.answer())
            except DeadWorkerError as error:
                raise InputError(
                    f"members: {name!r} cannot be stepped; the process that tried it died ({error.how})"
                ) from error
            show_environment_warnings((name, text) for text in answer.warned)
            show_environment_warnings(((name, text) for text in answer.remarks), each_member=True)
            if answer.trial is None:
                refused = InputError(answer.failure)
                refused.add_note(answer.where)
                raise refused
            trials[name] = answer.trial
    finally:
        tree.end(PATIENCE)
    return trials


def run_gymnasium_trials(connection: Connection, pickled_recipe: bytes) -> None:
    """Try the members whose names come through the connection, until it closes."""
    with suppress(EOFError, OSError):
        while True:
            connection.send(_answer_of_trial(connection.recv(), pickled_recipe))


def _answer_of_trial(name: str, pickled_recipe: bytes) -> bytes:
    warned, remarks = [], []
    try:
        with collect_environment_warnings(warned.append):
            trial = try_gymnasium_member(name, _load_recipe_of_trial(pickled_recipe), remarks)
        return cloudpickle.dumps(Answer(trial, "", "", warned, remarks))
    except InputError as error:
        failure, where = str(error), traceback.format_exc()
    except BaseException as error:  # such as a space that cannot be pickled
        failure = f"members: {name!r} cannot be tried ({describe_environment_error(error)})"
        where = traceback.format_exc()
    return cloudpickle.dumps(Answer(None, failure, where, warned, remarks))


@cache
def _load_recipe_of_trial(pickled_recipe: bytes) -> Recipe:
    try:
        return cloudpickle.loads(pickled_recipe)
    except BaseException as error:  # also sys.exit in a module that is imported
        raise InputError(
            f"members: they cannot be loaded in a worker process ({describe_environment_error(error)})"
        ) from error


def try_gymnasium_member(name: str, recipe: Recipe, remarks: list[str]) -> Trial:
    """Make a member, take a few steps in it, and close it. Our own warnings are added to `remarks`."""
    try:
        env = recipe.makers[name]()
    except BaseException as error:  # also sys.exit
        raise InputError(f"members: {name!r} cannot be made ({describe_environment_error(error)})") from error
    if not isinstance(env, gymnasium.Env):
        raise InputError(f"members: {name!r} made {type(env).__name__}, which is no Gymnasium environment")
    try:
        return _step_in_trial(name, env, recipe, remarks)
    finally:
        close_gymnasium_environment(env, remarks.append)


def _step_in_trial(name: str, env: gymnasium.Env, recipe: Recipe, remarks: list[str], steps: int = 5) -> Trial:
    action_space = _actions_of_trial(name, env.action_space)
    observation_space = _observations_of_trial(name, env.observation_space)
    action_space.seed(0)
    size, durations = 0, []
    recipe, particles = _recording_recipe_in_trial(recipe, env.observation_space)
    try:
        station = Station(env, recipe, remarks.append)
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
    except BaseException as error:  # also sys.exit
        raise InputError(f"members: {name!r} cannot be stepped ({describe_environment_error(error)})") from error
    if size == 0:
        raise InputError(f"entropy_on: it selects nothing from the observation of {name!r}")
    what = f"{env.spec.id} {describe_plainly(env.spec.kwargs)}" if env.spec else type(env.unwrapped).__name__
    given = {"observation_space": env.observation_space, "action_space": env.action_space}
    limit, seen = _time_limit_in_trial(env), np.array([one for one in particles if one.size == size])
    return Trial(observation_space, action_space, given, size, limit, min(durations), what, seen)


def _recording_recipe_in_trial(recipe: Recipe, space: gymnasium.Space) -> tuple[Recipe, list[np.ndarray]]:
    """Return a recipe that also records particles in float64, and the list to which it adds them."""
    entropy_on = recipe.particle.entropy_on
    recorded: list[np.ndarray] = []

    def record(particle: Any) -> Any:
        recorded.append(np.atleast_1d(np.asarray(particle, np.float64)).ravel())
        return particle

    def of_flat(observation: Any) -> Any:
        flat = np.asarray(flatten(space, observation)).ravel()
        return record(flat if entropy_on is None or callable(entropy_on) else flat[entropy_on])

    if not callable(entropy_on):
        return Recipe(recipe.makers, Particle(of_flat)), recorded
    of_function = wraps(entropy_on)(lambda *arguments, **named: record(entropy_on(*arguments, **named)))
    return Recipe(recipe.makers, Particle(of_function)), recorded


def _actions_of_trial(name: str, space: gymnasium.Space) -> gymnasium.Space:
    if isinstance(space, gymnasium.spaces.Discrete):
        return gymnasium.spaces.Discrete(int(space.n))
    if isinstance(space, gymnasium.spaces.Box):
        return gymnasium.spaces.Box(
            space.low.ravel().astype(np.float32), space.high.ravel().astype(np.float32), dtype=np.float32
        )
    raise InputError(f"members: {name!r} has the action space {space}; only Box and Discrete are possible")


def _observations_of_trial(name: str, space: gymnasium.Space) -> gymnasium.Space:
    """Return the observation space of the class: images stay as they are, all other spaces become flat."""
    if image_space_shape(space):
        return space
    flat = flatten_space(space) if space.is_np_flattenable else None
    if not isinstance(flat, gymnasium.spaces.Box):
        raise InputError(f"members: {name!r} has observations {space}, which Gymnasium cannot flatten into a vector")
    return gymnasium.spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)


def _time_limit_in_trial(env: gymnasium.Env) -> float:
    """Return the smallest time limit among the wrappers of an environment, in steps."""
    limit = math.inf
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limit = min(limit, float(env._max_episode_steps))
        env = env.env
    return limit
