"""The sampler of compiled classes. One program collects every trajectory of every mini-batch."""

from functools import partial

import jax
from jaxtyping import Array, Int, Key

from alphamepol.compute.mapping import map_leading_axis
from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.tasks import Task
from alphamepol.policies.policy import Policy
from alphamepol.sampling.rollout import rollout, rollout_episodes
from alphamepol.sampling.trajectories import Episodes, Trajectories


def collect_compiled(
    policies: Policy,
    environment_class: EnvironmentClass,
    members: Int[Array, "seeds minibatches"],
    *,
    batch: int,
    horizon: int,
    keys: Key[Array, " seeds"],
) -> Trajectories:
    """Collect trajectories in a compiled class; see `collect_with_sampler`."""
    return _collect_in_compiled_sampler(policies, environment_class, members, keys, batch, horizon)


def collect_compiled_episodes(
    policies: Policy, member: CMP, tasks: Task, *, trajectories: int, horizon: int, keys: Key[Array, " tasks"]
) -> Episodes:
    """Collect episodes in one member of a compiled class; see `collect_episodes_with_sampler`."""
    return _episodes_in_compiled_sampler(policies, member, tasks, keys, trajectories, horizon)


@partial(jax.jit, static_argnames=("batch", "horizon"))
def _collect_in_compiled_sampler(
    policies, environment_class: EnvironmentClass, members, keys, batch: int, horizon: int
) -> Trajectories:
    def one_seed(policy, members, key, environment_class):
        keys = jax.random.split(key, (len(members), batch))

        def one_trajectory(member_number, key):
            return rollout(policy, environment_class[member_number], horizon, key=key)

        minibatch = jax.vmap(one_trajectory, in_axes=(None, 0))
        steps = jax.vmap(minibatch)(members, keys)
        return Trajectories(steps.perceived, steps.actions, steps.particles, steps.valid, members, steps.places)

    if environment_class.members.steps_together:
        return jax.vmap(partial(one_seed, environment_class=environment_class))(policies, members, keys)
    return map_leading_axis(one_seed, environment_class=environment_class)(policies, members, keys)


@partial(jax.jit, static_argnames=("trajectories", "horizon"))
def _episodes_in_compiled_sampler(policies, member: CMP, tasks, keys, trajectories: int, horizon: int) -> Episodes:
    def one_task(policy, task, key, member):
        one_trajectory = partial(rollout_episodes, policy, task.set_up(member), horizon, task)
        steps, last = jax.vmap(lambda key: one_trajectory(key=key))(jax.random.split(key, trajectories))
        return Episodes(steps.perceived, steps.actions, steps.rewards, steps.ended, last)

    if member.steps_together:
        return jax.vmap(partial(one_task, member=member))(policies, tasks, keys)
    return map_leading_axis(one_task, member=member)(policies, tasks, keys)
