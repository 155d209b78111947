"""Films: one episode of one policy in one member, with pictures that the environment draws."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, UInt8

from alphamepol.compute.devices import device_for_little_work
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.environments.cmp import CMP, HasFilm, HasPicture
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.gridworld.drawing import draw_gridworld_trail
from alphamepol.environments.gridworld.gridworld import Gridworld
from alphamepol.environments.gymnasium.fleet import GymnasiumFleet
from alphamepol.environments.host import AnyClass, HostClass
from alphamepol.environments.tasks import Goal, Task, stack_tasks
from alphamepol.errors import InputError, RunError
from alphamepol.figures.style import figure_font_has
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.measuring.visits import names_of_visited_places
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.sampling.rollout import Rollout, rollout_states
from alphamepol.sampling.sampler import collect_episodes_with_sampler, collect_with_sampler

Picture = UInt8[np.ndarray, "_ _ 3"]
MOST_BYTES = 2**30
"""The most memory for the pictures of a video."""


@dataclass(frozen=True)
class FilmPlan:
    """The episodes of a video: their class and member, and what they have in common."""

    environment_class: AnyClass
    member: str
    task: Task | None
    seed: int
    steps: int
    """The largest number of steps of an episode."""
    every: int
    """The number of steps from one picture to the next."""

    def is_due(self, step: int) -> bool:
        """Tell whether the picture after a step is wanted. The last picture of an episode is kept in any case."""
        return step % self.every == 0 or step == self.steps


@dataclass(frozen=True)
class Film:
    """The pictures of an episode, and what is known about them."""

    pictures: list[Picture]
    numbers: list[int]
    """The number of steps before each picture."""
    steps: int
    """The number of steps of the episode."""
    rewards: Float[np.ndarray, " steps"] | None
    """The reward of each step; None without a task."""
    places: Float[np.ndarray, "steps coordinates"]
    """The place of the agent, or its particle, after each step. With a task there may be no coordinates."""

    @property
    def returned(self) -> float | None:
        """The sum of all rewards; None without a task."""
        return None if self.rewards is None else float(self.rewards.sum())


def film_episode(policy: Policy, plan: FilmPlan, keep: Callable[[Picture], Picture]) -> Film:
    """Let a policy act for one episode, and draw it.

    Without a task the random numbers are those of the first trajectory that `evaluate` collects for the policy of this
    seed in this member. The places are then the same, but for rounding in compiled programs. `keep` is called with
    every picture, and returns the picture to keep.

    Raises an `InputError` if the member cannot be drawn.
    """
    number = plan.environment_class.index(plan.member)
    key = jax.random.fold_in(split_keys_by_purpose(seed_keys([plan.seed])).evaluation[0], number)
    if isinstance(plan.environment_class, HostClass):
        return _film_on_host(policy, plan.environment_class, plan, keep, key)
    return _film_compiled_episode(policy, plan.environment_class, plan, keep, key)


def check_member_can_be_drawn(environment_class: AnyClass, name: str) -> None:
    """Raise an `InputError` if a member cannot be drawn. A Gymnasium environment is drawn once to find out."""
    member = environment_class[name]
    if isinstance(environment_class, HostClass):
        if not isinstance(environment_class.fleet, GymnasiumFleet):
            raise InputError(
                f"member: {name_as_text(name, WIDTH)} cannot be drawn, because its class has a fleet of its own"
            )
        with closing(environment_class.fleet.camera(lambda step: True, lambda step, picture: None)) as camera:
            first = np.zeros(1, np.int64)
            camera.reset(camera.board(1), first, first + environment_class.index(name), np.zeros(1, np.uint32))
    elif not isinstance(member, HasFilm | HasPicture | Gridworld):
        raise InputError(
            f"member: {name_as_text(name, WIDTH)} cannot be drawn; give {type(member).__name__} a method render(state) "
            "that returns a picture, an array of numbers from 0 to 255 of shape (height, width, 3)"
        )


def _film_on_host(
    policy: Policy,
    environment_class: HostClass,
    plan: FilmPlan,
    keep: Callable[[Picture], Picture],
    key: PRNGKeyArray,
) -> Film:
    pictures: list[Picture] = []
    numbers: list[int] = []

    def keep_numbered(step: int, picture: Picture) -> None:
        pictures.append(keep(picture))
        numbers.append(step)

    assert isinstance(environment_class.fleet, GymnasiumFleet)
    stacked, index = stack_policies([policy]), environment_class.index(plan.member)
    with closing(environment_class.fleet.camera(plan.is_due, keep_numbered)) as camera:
        filmed = environment_class.with_fleet(camera)
        if plan.task is None:
            seen = collect_with_sampler(
                stacked, filmed, jnp.array([[index]]), batch=1, horizon=plan.steps, keys=key[None]
            )
            steps, rewards = int(seen.valid.sum()), None
            places = np.asarray(seen.whereabouts[0, 0, 0, :steps])
        else:
            tasks = stack_tasks([plan.task])
            episodes = collect_episodes_with_sampler(
                stacked, filmed, plan.member, tasks, trajectories=1, horizon=plan.steps, keys=key[None]
            )
            ended = np.asarray(episodes.ended[0, 0])
            steps = int(ended.argmax()) + 1 if ended.any() else plan.steps
            rewards, places = np.asarray(episodes.rewards[0, 0, :steps]), np.zeros((steps, 0))
        camera.finish()
    return Film(pictures, numbers, steps, rewards, places)


def _film_compiled_episode(
    policy: Policy,
    environment_class: EnvironmentClass[Any],
    plan: FilmPlan,
    keep: Callable[[Picture], Picture],
    key: PRNGKeyArray,
) -> Film:
    member: CMP = environment_class[plan.member]
    if plan.task is not None:
        member = plan.task.set_up(member)  # pyright: ignore[reportAssignmentType] (a member written in JAX stays one)
    # The key of the first trajectory of the first mini-batch (`sampling/compiled_sampler.py`).
    first = jax.random.split(key, (1, 1))[0, 0]
    rollout = _roll_out_film(policy, member, plan.steps, plan.task, first)
    member.check_samples(rollout)
    rollout = jax.device_put(rollout, device_for_little_work())
    # The additional step at the end is not taken; only its state is shown.
    steps = int(rollout.valid[: plan.steps].sum())
    numbers = [number for number in range(steps + 1) if plan.is_due(number) or number == steps]
    pictures = [keep(picture) for picture in _draw_film_states(member, rollout.states, numbers, plan.task)]
    rewards = None if plan.task is None else np.asarray(rollout.rewards)[:steps]
    places = np.asarray(rollout.particles if rollout.places is None else rollout.places)
    return Film(pictures, numbers, steps, rewards, places[:steps])


@partial(jax.jit, static_argnames="horizon")
def _roll_out_film(policy: Policy, member: CMP, horizon: int, task: Task | None, key: PRNGKeyArray) -> Rollout:
    return rollout_states(policy, member, horizon + 1, task, key=key)


def _draw_film_states(
    member: CMP, states: PyTree[Array], numbers: Sequence[int], task: Task | None
) -> Iterator[Picture]:
    """Yield pictures of the states with these numbers. Those of a gridworld show the way up to the state."""
    chosen = (jax.tree.map(lambda leaf, number=number: leaf[number], states) for number in numbers)
    if isinstance(member, HasFilm):
        yield from member.render_all(chosen)
    elif isinstance(member, HasPicture):
        for state in chosen:
            yield _checked_film_picture(member, state)
    else:
        assert isinstance(member, Gridworld)
        goal = (task.place.tolist(), float(task.radius)) if isinstance(task, Goal) else None
        for number in numbers:
            yield draw_gridworld_trail(member, np.asarray(states[: number + 1]), goal)


def _checked_film_picture(member: HasPicture, state: PyTree[Array]) -> Picture:
    kind = type(member).__name__
    try:
        picture = np.asarray(member.render(state))
    except (InputError, RunError):
        raise
    except Exception as error:
        raise InputError(f"member: render of {kind} failed ({type(error).__name__}: {error})") from error
    if picture.ndim != 3 or picture.shape[2] != 3 or 0 in picture.shape or picture.dtype.kind not in "uif":
        raise InputError(
            f"member: render of {kind} returned {picture.dtype}{list(picture.shape)}; a picture is an array of numbers "
            "from 0 to 255, of shape (height, width, 3)"
        )
    return np.clip(picture, 0, 255).astype(np.uint8)


def say_of_film(film: Film, plan: FilmPlan) -> list[str]:
    """Return a line for each picture of a film: the time, and the return so far, or what is seen."""
    lines = []
    for number in film.numbers:
        parts = [f"step {number}"]
        if film.rewards is not None:
            parts.append(f"return {film.rewards[:number].sum():.2f}")
        elif number > 0 and (seen := _seen_in_film(film.places[number - 1], plan)):
            parts.append(seen)
        if number == film.steps < plan.steps:
            parts.append("ended")
        lines.append(" · ".join(parts))
    return lines


def _seen_in_film(place: Float[np.ndarray, " coordinates"], plan: FilmPlan) -> str:
    """Return a place, or the only feature of a particle, in words. The text is empty if there are more numbers."""
    member = plan.environment_class[plan.member]
    names = names_of_visited_places(member) if place.size == 2 else member.entropy_names if place.size == 1 else ()
    digits = 0 if member.map is not None and member.map.cells is not None else 2
    pairs = zip(names, place.tolist(), strict=False)  # a feature may have no name
    return ", ".join(f"{name_as_text(name, 20, figure_font_has)} {value:.{digits}f}" for name, value in pairs)
