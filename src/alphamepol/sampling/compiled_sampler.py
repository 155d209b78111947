"""The sampler of compiled classes. One program collects every trajectory of every mini-batch."""

from functools import partial

import jax
from jaxtyping import Array, Int, Key

from alphamepol.compute.mapping import map_leading_axis
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.generated.member_generator import MemberGenerator
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
    stacked, generator = environment_class.members, environment_class.generator
    return _collect_in_compiled_sampler(policies, stacked, members, keys, batch, horizon, generator)


def collect_compiled_episodes(
    policies: Policy, member: CMP, tasks: Task, *, trajectories: int, horizon: int, keys: Key[Array, " tasks"]
) -> Episodes:
    """Collect episodes in one member of a compiled class; see `collect_episodes_with_sampler`."""
    return _episodes_in_compiled_sampler(policies, member, tasks, keys, trajectories, horizon)


@partial(jax.jit, static_argnames=("batch", "horizon", "generator"))
def _collect_in_compiled_sampler(
    policies, stacked: CMP, members, keys, batch: int, horizon: int, generator: MemberGenerator | None
) -> Trajectories:
    def one_seed(policy, members, key, stacked):
        keys = jax.random.split(key, (len(members), batch))

        def one_trajectory(member_number, key):
            member = take_from_trees(stacked, member_number) if generator is None else generator(member_number)
            return rollout(policy, member, horizon, key=key)

        minibatch = jax.vmap(one_trajectory, in_axes=(None, 0))
        steps = jax.vmap(minibatch)(members, keys)
        return Trajectories(steps.perceived, steps.actions, steps.particles, steps.valid, members, steps.places)

    if stacked.steps_together:
        return jax.vmap(partial(one_seed, stacked=stacked))(policies, members, keys)
    return map_leading_axis(one_seed, stacked=stacked)(policies, members, keys)


@partial(jax.jit, static_argnames=("trajectories", "horizon"))
def _episodes_in_compiled_sampler(policies, member: CMP, tasks, keys, trajectories: int, horizon: int) -> Episodes:
    def one_task(policy, task, key, member):
        one_trajectory = partial(rollout_episodes, policy, task.set_up(member), horizon, task)
        steps, last = jax.vmap(lambda key: one_trajectory(key=key))(jax.random.split(key, trajectories))
        return Episodes(steps.perceived, steps.actions, steps.rewards, steps.ended, last)

    if member.steps_together:
        return jax.vmap(partial(one_task, member=member))(policies, tasks, keys)
    return map_leading_axis(one_task, member=member)(policies, tasks, keys)
