"""What must hold before numbers are made of something, and the sentence when it does not."""

from collections.abc import Sequence

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.errors import InputError, RunError
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.learning.alphamepol import EpochReport, Learner
from alphamepol.policies import GaussianPolicy
from alphamepol.runs.config import PretrainConfig
from alphamepol.sampling.trajectories import Trajectories


def space_sizes(environment_class: EnvironmentClass) -> tuple[int, int]:
    """Sizes of observation and action, for a policy to be built."""
    member = environment_class[0]
    for name in ("observation_space", "action_space"):
        space = getattr(member, name)
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise InputError(f"class: {environment_class.name} has the {name} {space}; only vectors (Box) are possible")
    return member.observation_space.shape[0], member.action_space.shape[0]


def check_start(environment_class: EnvironmentClass, config: PretrainConfig) -> None:
    """A policy needs vectors; a regressed one a number per action component, and observations to regress on."""
    _, action_size = space_sizes(environment_class)
    if config.initial_mean == "none":
        return
    if len(config.initial_mean) != action_size:
        given = " ".join(f"{value:g}" for value in config.initial_mean)
        raise InputError(f"initial_mean: {given} was given; an action has {action_size} components")
    space = environment_class[0].observation_space
    if not (np.all(np.isfinite(space.low)) and np.all(np.isfinite(space.high))):
        raise InputError("initial_mean: the observations have no finite range to draw from; use none")


def check_policy_fits(policy: GaussianPolicy, environment_class: EnvironmentClass) -> None:
    needed = space_sizes(environment_class)
    found = policy.architecture["observation_size"], policy.architecture["action_size"]
    if found != needed:
        raise InputError(
            f"policy: it maps {found[0]} observation numbers to {found[1]} action numbers, but class "
            f"{environment_class.name} needs {needed[0]} and {needed[1]}"
        )


def check_particles(trajectories: Trajectories, names: Sequence[str], seeds: Sequence[int], k: int, when: str) -> None:
    """Stop on particles that are not numbers, and on mini-batches too short for k neighbours."""
    shape = trajectories.members.shape
    finite = jnp.all(jnp.isfinite(trajectories.particles), axis=-1) | ~trajectories.valid
    broken = ~np.asarray(jnp.all(finite.reshape(*shape, -1), axis=-1))
    if broken.any():
        where = _where(broken, trajectories, names, seeds, when)
        raise RunError(f"{where}: the environment returned a state that is not finite")
    short = np.asarray(jnp.sum(trajectories.valid.reshape(*shape, -1), axis=-1) <= k)
    if short.any():
        raise RunError(
            f"{_where(short, trajectories, names, seeds, when)}: its trajectories ended so early that there are not "
            f"more than k = {k} particles; use fewer --neighbours or a larger --batch"
        )


def check_aliasing(
    neighbourhood: Neighbourhood, trajectories: Trajectories, names: Sequence[str], seeds: Sequence[int], when: str
) -> None:
    """Stop when more than k particles coincide, which makes the entropy −∞."""
    aliased = np.asarray(jnp.any((neighbourhood.radii == 0) & neighbourhood.valid, axis=-1))
    if aliased.any():
        raise RunError(
            f"{_where(aliased, trajectories, names, seeds, when)}: more than k = {neighbourhood.k} particles coincide, "
            "so that the entropy is minus infinity and has no gradient; start again with more --neighbours, or with "
            "features that carry a little noise"
        )


def check_learned(learner: Learner, report: EpochReport, seeds: Sequence[int], when: str) -> None:
    """Stop when learning has driven a policy, or the estimates of it, out of the numbers."""
    judged = (learner.policy, report.kl, report.objective_after)
    finite = [np.isfinite(leaf).reshape(len(seeds), -1).all(axis=1) for leaf in jax.device_get(jax.tree.leaves(judged))]
    lost = np.flatnonzero(~np.all(finite, axis=0))
    if lost.size:
        raise RunError(
            f"{when}, seed {seeds[lost[0]]}: the policy has moved so far that its entropy is no longer a number; start "
            "again with a lower --learning-rate"
        )


def _where(bad: np.ndarray, trajectories: Trajectories, names: Sequence[str], seeds: Sequence[int], when: str) -> str:
    seed, minibatch = np.argwhere(bad)[0]
    member = names[int(trajectories.members[seed, minibatch])]
    return f"{when}, seed {seeds[seed]}, mini-batch {minibatch}, environment {member}"
