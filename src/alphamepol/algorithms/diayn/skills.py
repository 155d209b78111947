"""The skills of DIAYN: the policy of a skill, and the reward of a skill as a task."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from alphamepol.algorithms.diayn.discriminators import discriminator_log_probability
from alphamepol.environments.cmp import Member
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.tasks import Task
from alphamepol.policies.networks import Network
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.sampling.trajectories import Trajectories


def policy_of_diayn_skill(actor: Policy, skill: int, skills: int) -> Policy:
    """Return the policy of one skill, which does not have the skill as an input.

    The contribution of the skill to the first layer becomes part of the bias of that layer.
    """
    if skills == 1:
        return actor
    first = actor.layers[0]
    told = first.weight[:, -skills:][:, skill]
    layer = eqx.nn.Linear(first.weight.shape[1] - skills, first.weight.shape[0], key=jax.random.key(0))
    assert first.bias is not None
    parts = first.weight[:, :-skills], first.bias + told
    layer = eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, parts)
    return eqx.tree_at(lambda actor: actor.layers, actor, (layer, *actor.layers[1:]))


class SkillReward(Task):
    """A task with DIAYN's reward for one skill z: ln q(z|s) − ln p(z), where s is the state that a step reaches."""

    discriminator: Network
    skill: Int[Array, ""]

    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        log_q = discriminator_log_probability(self.discriminator, member.observe(reached).ravel(), self.skill)
        return log_q + jnp.log(self.discriminator.outputs)

    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        return jnp.array(False)  # only the member itself ends an episode

    def describe(self) -> dict[str, int]:
        return {"skill": int(self.skill)}


class SkillTasks(eqx.Module):
    """A callable that draws a task: the reward of a skill, where all skills are equally likely."""

    discriminator: Network

    def __call__(self, member: Member, *, key: PRNGKeyArray) -> Task:
        return SkillReward(self.discriminator, jax.random.randint(key, (), 0, self.discriminator.outputs))


def diayn_skill_trails(
    skills: Sequence[Policy], environment_class: EnvironmentClass, horizon: int, *, key: PRNGKeyArray
) -> Trajectories:
    """Collect one trajectory of every skill in every member. The axes are (skill, member, 1, time)."""
    keys = jax.random.split(key, len(skills))
    members = jnp.tile(jnp.arange(len(environment_class)), (len(skills), 1))
    return collect_with_sampler(stack_policies(skills), environment_class, members, batch=1, horizon=horizon, keys=keys)
