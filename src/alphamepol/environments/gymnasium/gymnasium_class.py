"""A class of Gymnasium environments, run in worker processes."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import gymnasium
import numpy as np

from alphamepol.environments.cmp import check_entropy_names
from alphamepol.environments.generated.environment_seeds import TrainingStream
from alphamepol.environments.generated.member_generator import MemberGenerator
from alphamepol.environments.gymnasium.crew import read_crew
from alphamepol.environments.gymnasium.fleet import FleetPlan, GymnasiumFleet
from alphamepol.environments.gymnasium.pickled_recipe import pickle_recipe
from alphamepol.environments.gymnasium.trial import Trial, try_gymnasium_members
from alphamepol.environments.gymnasium.worker import EntropyOn, Particle, Recipe
from alphamepol.environments.host import HostClass, HostMember, Spaces
from alphamepol.environments.image_spaces import image_space_shape
from alphamepol.environments.tasks import EnvironmentReward
from alphamepol.errors import InputError
from alphamepol.files.names import WIDTH, describe_plainly, name_as_text
from alphamepol.settings.run import WorkersGiven


def gymnasium_class(
    members: Mapping[str, str | Callable[[], gymnasium.Env]],
    probabilities: Sequence[float] | None = None,
    entropy_on: EntropyOn = None,
    *,
    entropy_names: Sequence[str] = (),
    name: str = "custom",
    endless: bool = False,
    workers: WorkersGiven = None,
    copies: int | None = None,
) -> HostClass:
    """Build a class of Gymnasium environments, which worker processes step.

    Every member is made and stepped a few times, in a process of its own, so that most mistakes are reported at once.
    The worker processes start when the class is first used.

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
    - `workers`: the number of worker processes, or "ray" or "ray:64" for actors of a Ray cluster (docs/scaling.md). The
      default is one process per core, and with "ray" one actor per core of the cluster. Results do not depend on it.
    - `copies`: the number of environments of each member that a worker holds. By default it is 1 if a step takes two
      milliseconds or more, and up to 16 if a step takes less; for actors of a Ray cluster, enough for a fifth of a
      second, and up to 128. Results do not depend on it.

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
    return build_gymnasium_class(
        members,
        probabilities,
        entropy_on,
        entropy_names=entropy_names,
        name=name,
        endless=endless,
        workers=workers,
        copies=copies,
    )


def build_gymnasium_class(
    members: Any,
    probabilities: Sequence[float] | None = None,
    entropy_on: EntropyOn = None,
    *,
    entropy_names: Sequence[str] = (),
    name: str = "custom",
    endless: bool = False,
    workers: WorkersGiven = None,
    copies: int | None = None,
    generator: MemberGenerator | None = None,
) -> HostClass:
    """Build a class as `gymnasium_class` does. With a generator, training draws members that have no names."""
    if not isinstance(members, Mapping) or not members:
        raise InputError("members: none was given; give a dictionary with at least one name and its environment")
    read_crew(workers)  # before the members are tried
    if copies is not None and copies < 1:
        raise InputError(f"copies: {copies} was given; it must be at least 1")
    makers = {name: _maker_for_gymnasium_class(name, made) for name, made in members.items()}
    unnamed = None if generator is None else TrainingStream(generator.make, generator.seed)
    recipe = Recipe(makers, Particle(entropy_on), unnamed)
    trials = try_gymnasium_members(list(members), pickle_recipe(recipe))
    _check_gymnasium_class_alike(trials)
    first = next(iter(trials.values()))
    check_entropy_names(entropy_names, first.feature_size)
    names = tuple(entropy_names) or _usual_names_in_gymnasium_class(entropy_on, first)
    _warn_of_rounding_in_gymnasium_class(trials, names)
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
    plan = FleetPlan(list(members), recipe, next(iter(found.values())), slowest, copies)
    description = f"{[trial.what for trial in trials.values()]} {describe_plainly(entropy_on)}{' endless' * endless}"
    if generator is not None:
        description += f" generated {generator.seed} {generator.training}"
    return HostClass(found, GymnasiumFleet(plan, workers), probabilities, name, description, generator)


def _warn_of_rounding_in_gymnasium_class(trials: Mapping[str, Trial], names: Sequence[str]) -> None:
    """Warn of each member with a particle so far from zero that float32 hardly sees how it changes.

    A change of less than 10⁻¹² of the number itself is rounding. Numbers below 1000 are not far from zero: where these
    change so little, they are almost constant.
    """
    for member, trial in trials.items():
        largest, change = np.abs(trial.particles).max(axis=0), np.ptp(trial.particles, axis=0)
        steps = np.spacing(largest.astype(np.float32))
        lost = np.flatnonzero((largest > 1000) & (change > 1e-12 * largest) & (change < 100 * steps))
        if lost.size:
            one = int(lost[0])
            feature = name_as_text(names[one], WIDTH) if names else f"feature {one}"
            warnings.warn(
                f"environment {name_as_text(member, WIDTH)}: {feature} is about {largest[one]:.3g} and "
                f"changed by {change[one]:.2g} in the first steps, but particles are stored in float32, whose numbers "
                f"are {steps[one]:.2g} apart there; let entropy_on subtract a constant",
                stacklevel=3,
            )


def _maker_for_gymnasium_class(name: str, made: Any) -> Callable[[], gymnasium.Env]:
    if isinstance(made, str):
        # The time limit of the environment is removed, because trajectories have their own horizon.
        return lambda: gymnasium.make(made, max_episode_steps=-1)
    if not callable(made):
        raise InputError(
            f"members: {name!r} is {made!r}; give a Gymnasium id, or a function that makes the environment"
        )
    return cast(Callable[[], gymnasium.Env], made)


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
