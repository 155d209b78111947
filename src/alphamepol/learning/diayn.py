"""DIAYN: skills that can be told apart by where they lead, learned with SAC (docs/method.md, "DIAYN")."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from alphamepol.environments.cmp import Member
from alphamepol.images import Trunk
from alphamepol.learning.sac import Networks, SacLearner, SacReport, SacSettings, sac_loss, train
from alphamepol.networks import Network
from alphamepol.policies import CategoricalPolicy, Policy, PolicyShape, SquashedPolicy
from alphamepol.sampling.stream import Transitions, World
from alphamepol.tasks import Task


class DiaynReport(eqx.Module):
    """What came of an epoch."""

    discriminability: Float[Array, ""]
    """Mean ln q(z|s) over the states reached in the epoch, by the discriminator from before it."""
    sac: SacReport


def fresh_networks(shape: PolicyShape, skills: int, hidden: Sequence[int], *, key: PRNGKeyArray) -> Networks:
    """Untrained networks for a class whose policies have a certain shape."""
    actor_key, trunk_key, critics_key, discriminator_key = jax.random.split(key, 4)
    inputs = shape.observation_size + (skills if skills > 1 else 0)
    trunk = shape.image and Trunk(shape.image, key=trunk_key)
    if shape.kind == "categorical":
        actor = CategoricalPolicy(inputs, shape.action_size, hidden, trunk=trunk, key=actor_key)
    else:
        actor = SquashedPolicy(inputs, shape.actions, hidden, trunk, key=actor_key)
    critics = jax.vmap(lambda key: Network(inputs + shape.action_size, hidden, 1, shape.image, key=key))(
        jax.random.split(critics_key)
    )
    discriminator = Network(shape.observation_size, hidden, skills, shape.image, key=discriminator_key)
    return Networks(actor, critics, jnp.zeros(()), discriminator)


def train_epoch(
    learner: SacLearner, world: World, settings: SacSettings, done: Int[Array, ""], *, steps: int, key: PRNGKeyArray
) -> tuple[SacLearner, DiaynReport]:
    """`steps` actions and updates; `done` is the number of steps before."""

    def loss(networks: Networks, targets: Network, batch: Transitions, key: PRNGKeyArray):
        return diayn_loss(networks, targets, batch, settings, world.skills, key=key)

    discriminator = learner.state.networks.discriminator
    learner, seen, report = train(learner, world, loss, settings, done, steps=steps, key=key)
    log_q = jax.vmap(partial(log_probability, discriminator))(seen.reached, seen.skill)
    return learner, DiaynReport(jnp.mean(log_q), report)


def diayn_loss(
    networks: Networks, targets: Network, batch: Transitions, settings: SacSettings, skills: int, *, key: PRNGKeyArray
) -> tuple[Float[Array, ""], SacReport]:
    """(S4): SAC's, its reward ln q(z|s) − ln p(z), and that of the discriminator."""
    log_q = jax.vmap(partial(log_probability, networks.discriminator))(batch.reached, batch.skill)
    rewards = jax.lax.stop_gradient(log_q) + jnp.log(skills)
    loss, report = sac_loss(networks, targets, batch, rewards, settings, skills, key=key)
    return loss - jnp.mean(log_q), report


def log_probability(
    discriminator: Network, observation: Shaped[Array, " observation"], skill: Int[Array, ""]
) -> Float[Array, ""]:
    """ln q(z|s)."""
    return jax.nn.log_softmax(discriminator(observation))[skill]


def of_skill(actor: Policy, skill: int, skills: int) -> Policy:
    """The policy of one skill, which is told of no skill: what the skill added becomes part of a bias."""
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
    """DIAYN's reward for one skill: ln q(z|s) − ln p(z) of the state reached."""

    discriminator: Network
    skill: Int[Array, ""]

    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        log_q = log_probability(self.discriminator, member.observe(reached).ravel(), self.skill)
        return log_q + jnp.log(self.discriminator.outputs)

    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        return jnp.array(False)  # beside the ends of the member

    def describe(self) -> dict[str, int]:
        return {"skill": int(self.skill)}


class SkillTasks(eqx.Module):
    """Draws tasks: the reward of a skill, all equally likely."""

    discriminator: Network

    def __call__(self, member: Member, *, key: PRNGKeyArray) -> Task:
        return SkillReward(self.discriminator, jax.random.randint(key, (), 0, self.discriminator.outputs))
