"""The update of DIAYN: learn skills, with SAC, that reach different states (docs/method.md, "DIAYN")."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from alphamepol.algorithms.diayn.discriminators import discriminator_log_probability
from alphamepol.algorithms.diayn.sac import Networks, SacLearner, SacReport, SacSettings, sac_loss, train_sac
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.networks import Network
from alphamepol.policies.policy_kinds import CategoricalPolicy, SquashedPolicy
from alphamepol.policies.shape import PolicyShape
from alphamepol.sampling.stream import Transitions, World


class DiaynReport(eqx.Module):
    """The results of an epoch."""

    discriminability: Float[Array, ""]
    """The mean of ln q(z|s) over the states that the epoch reached, by the discriminator from before the epoch."""
    sac: SacReport


def fresh_diayn_networks(shape: PolicyShape, skills: int, hidden: Sequence[int], *, key: PRNGKeyArray) -> Networks:
    """Return untrained networks for a class whose policies have the given shape."""
    actor_key, trunk_key, critics_key, discriminator_key = jax.random.split(key, 4)
    inputs = shape.observation_size + (skills if skills > 1 else 0)
    trunk = shape.image and Trunk(shape.image, biases="uniform", key=trunk_key)
    if shape.kind == "categorical":
        actor = CategoricalPolicy(inputs, shape.action_size, hidden, trunk=trunk, key=actor_key)
    else:
        actor = SquashedPolicy(inputs, shape.actions, hidden, trunk, key=actor_key)
    critics = jax.vmap(lambda key: Network(inputs + shape.action_size, hidden, 1, shape.image, key=key))(
        jax.random.split(critics_key)
    )
    discriminator = Network(shape.observation_size, hidden, skills, shape.image, key=discriminator_key)
    return Networks(actor, critics, jnp.zeros(()), discriminator)


def train_diayn_by_updates(
    learner: SacLearner, world: World, settings: SacSettings, done: Int[Array, ""], *, steps: int, key: PRNGKeyArray
) -> tuple[SacLearner, DiaynReport]:
    """Take `steps` steps and as many updates. `done` is the number of earlier steps."""

    def loss(networks: Networks, targets: Network, batch: Transitions, key: PRNGKeyArray):
        return diayn_update_loss(networks, targets, batch, settings, world.skills, key=key)

    discriminator = learner.state.networks.discriminator
    learner, seen, report = train_sac(learner, world, loss, settings, done, steps=steps, key=key)
    log_q = jax.vmap(partial(discriminator_log_probability, discriminator))(seen.reached, seen.skill)
    return learner, DiaynReport(jnp.mean(log_q), report)


def diayn_update_loss(
    networks: Networks, targets: Network, batch: Transitions, settings: SacSettings, skills: int, *, key: PRNGKeyArray
) -> tuple[Float[Array, ""], SacReport]:
    """Return the sum of the discriminator's loss and SAC's loss with the reward ln q(z|s) − ln p(z), (S4)."""
    log_q = jax.vmap(partial(discriminator_log_probability, networks.discriminator))(batch.reached, batch.skill)
    rewards = jax.lax.stop_gradient(log_q) + jnp.log(skills)
    loss, report = sac_loss(networks, targets, batch, rewards, settings, skills, key=key)
    return loss - jnp.mean(log_q), report
