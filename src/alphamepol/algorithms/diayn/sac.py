"""Soft actor-critic with two critics, a tuned temperature, and a replay on the device (docs/method.md, "SAC").

The loss that `train_sac` is given decides the reward. It is the loss of DIAYN, or `sac_loss` with any reward of a
transition.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from alphamepol.policies.distributions import Categorical, Distribution, SquashedNormal
from alphamepol.policies.networks import Network, feed_network
from alphamepol.policies.policy import Policy
from alphamepol.sampling.stream import (
    Episode,
    Transitions,
    World,
    begin_stream_episode,
    step_stream,
    stream_observation_with_skill,
)

ADAM = optax.scale_by_adam()


class SacSettings(eqx.Module):
    """The settings of SAC. Numbers that only scale are traced, so that other values compile nothing anew."""

    learning_rate: Float[Array, ""]
    discount: Float[Array, ""]
    target_rate: Float[Array, ""]
    """The rate at which the target networks follow the critics."""
    target_entropy: Float[Array, ""]
    """The entropy of actions that the temperature aims at. Actions are in units of half their range."""
    batch: int = eqx.field(static=True)


class Networks(eqx.Module):
    """All networks and numbers that are trained."""

    actor: Policy
    critics: Network
    """The two critics, stacked. A critic gives the value of an observation, a skill and an action."""
    log_temperature: Float[Array, ""]
    discriminator: Network
    """The discriminator of DIAYN, which predicts the skill from the observation that was reached."""


class SacState(eqx.Module):
    """The state of the networks between updates."""

    networks: Networks
    targets: Network
    moments: optax.OptState


class SacLearner(eqx.Module):
    """The state of a learner between turns. A turn is a step in every environment, and as many updates."""

    state: SacState
    episodes: Episode
    """The current episodes of the environments that are stepped side by side."""
    replay: Transitions
    """The latest transitions. A new transition overwrites the oldest."""


class SacReport(NamedTuple):
    """The results of an update, as means over its transitions."""

    critic_loss: Float[Array, ""]
    entropy: Float[Array, ""]
    """The entropy of actions, which are in units of half their range."""
    temperature: Float[Array, ""]
    reward: Float[Array, ""]


Loss = Callable[[Networks, Network, Transitions, PRNGKeyArray], tuple[Float[Array, ""], SacReport]]
"""A function of networks, target networks, transitions and a key that returns a loss and a report."""


def start_sac(networks: Networks, world: World, *, environments: int, replay: int, key: PRNGKeyArray) -> SacLearner:
    """Return a learner with an empty replay for `replay` transitions, which is a multiple of `environments`.

    The first episodes have different ages, so that the environments do not all end their episodes at once.
    """
    assert replay % environments == 0
    episodes = jax.vmap(lambda key: begin_stream_episode(world, key=key))(jax.random.split(key, environments))
    ages = jnp.arange(environments, dtype=jnp.int32) * world.horizon // environments
    episodes = eqx.tree_at(lambda episodes: episodes.age, episodes, ages)
    episode = jax.tree.map(lambda leaf: leaf[0], episodes)
    one = jax.eval_shape(lambda: step_stream(world, networks.actor, episode, key=key)[1])
    room = jax.tree.map(lambda leaf: jnp.zeros((replay, *leaf.shape), leaf.dtype), one)
    moments = ADAM.init(networks)  # pyright: ignore[reportArgumentType] (Optax does not know modules)
    return SacLearner(SacState(networks, networks.critics, moments), episodes, room)


def train_sac(
    learner: SacLearner,
    world: World,
    loss: Loss,
    settings: SacSettings,
    done: Int[Array, ""],
    *,
    steps: int,
    key: PRNGKeyArray,
) -> tuple[SacLearner, Transitions, SacReport]:
    """Take `steps` steps and as many updates.

    In each turn, every environment takes a step, then as many updates follow. `steps` must be a multiple of the number
    of environments. `done` is the number of earlier steps. Return the learner, the transitions of these steps, and the
    mean report.
    """
    together = len(learner.episodes.age)
    assert steps % together == 0

    def turn(learner: SacLearner, now):
        number, key = now
        act_key, draw_key, update_key = jax.random.split(key, 3)
        before = done + number * together
        learner, seen = interact_in_sac(learner, world, before, key=act_key)
        filled = jnp.minimum(before + together, len(learner.replay.skill))
        # One gather serves all updates of a turn.
        rows = jax.random.randint(draw_key, (together, settings.batch), 0, filled)
        batches = jax.tree.map(lambda leaf: leaf[rows], learner.replay)
        update_keys = jax.random.split(update_key, together)
        state, reports = jax.lax.scan(
            lambda state, batch: update_sac(state, batch[0], loss, settings, key=batch[1]),
            learner.state,
            (batches, update_keys),
        )
        return SacLearner(state, learner.episodes, learner.replay), (seen, reports)

    turns = steps // together
    learner, (seen, reports) = jax.lax.scan(turn, learner, (jnp.arange(turns), jax.random.split(key, turns)))
    seen = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), seen)
    return learner, seen, jax.tree.map(jnp.mean, reports)


def interact_in_sac(
    learner: SacLearner, world: World, done: Int[Array, ""], *, key: PRNGKeyArray
) -> tuple[SacLearner, Transitions]:
    """Take a step in every environment and write it to the replay. `done` is the number of earlier steps."""
    keys = jax.random.split(key, len(learner.episodes.age))
    actor = learner.state.networks.actor
    episodes, seen = jax.vmap(lambda episode, key: step_stream(world, actor, episode, key=key))(learner.episodes, keys)
    place = done % len(learner.replay.skill)
    replay = jax.tree.map(
        lambda kept, new: jax.lax.dynamic_update_slice_in_dim(kept, new, place, 0), learner.replay, seen
    )
    return SacLearner(learner.state, episodes, replay), seen


def update_sac(
    state: SacState, batch: Transitions, loss: Loss, settings: SacSettings, *, key: PRNGKeyArray
) -> tuple[SacState, SacReport]:
    """Take one Adam step for all networks, then let the target networks follow the critics."""
    networks, targets = state.networks, state.targets
    gradient, report = jax.grad(loss, has_aux=True)(networks, targets, batch, key)
    direction, moments = ADAM.update(gradient, state.moments)
    networks = jax.tree.map(lambda leaf, change: leaf - settings.learning_rate * change, networks, direction)
    targets = jax.tree.map(lambda old, new: old + settings.target_rate * (new - old), targets, networks.critics)
    return SacState(networks, targets, moments), report


def sac_loss(
    networks: Networks,
    targets: Network,
    batch: Transitions,
    rewards: Float[Array, " rows"],
    settings: SacSettings,
    skills: int = 1,
    *,
    key: PRNGKeyArray,
) -> tuple[Float[Array, ""], SacReport]:
    """Return the sum of the losses of critics, actor and temperature, (S1) to (S3), and a report.

    Each loss has a gradient for its own parameters only.
    """
    tell = jax.vmap(lambda observation, skill: stream_observation_with_skill(observation, skill, skills))
    inputs, next_inputs = tell(batch.observation, batch.skill), tell(batch.reached, batch.skill)
    here_key, next_key = jax.random.split(key)
    temperature = jnp.exp(jax.lax.stop_gradient(networks.log_temperature))

    def soft_value(critics: Network, inputs, key: PRNGKeyArray):
        """Return the value of the actor's actions plus temperature times entropy, and the entropy."""
        keys = jax.random.split(key, len(inputs))
        choices = jax.vmap(
            lambda one, key: sample_sac_choices(networks.actor.head(networks.actor.network(one)), key=key)
        )
        actions, log_probs, weights = choices(inputs, keys)
        worth = jnp.min(evaluate_sac_choices(critics, inputs, actions), axis=0)
        entropy = -jnp.sum(weights * log_probs, axis=-1)
        return jnp.sum(weights * worth, axis=-1) + temperature * entropy, entropy

    following = soft_value(targets, next_inputs, next_key)[0]
    aims = jax.lax.stop_gradient(rewards + settings.discount * jnp.where(batch.ended, 0.0, following))
    errors = evaluate_sac_choices(networks.critics, inputs, batch.action[:, None])[..., 0] - aims
    critic_loss = 0.5 * jnp.mean(jnp.sum(errors**2, axis=0))
    value, entropies = soft_value(jax.lax.stop_gradient(networks.critics), inputs, here_key)
    entropy = jnp.mean(entropies)
    surplus = jax.lax.stop_gradient(entropy - settings.target_entropy)
    loss = critic_loss - jnp.mean(value) + networks.log_temperature * surplus
    return loss, SacReport(critic_loss, entropy, temperature, jnp.mean(rewards))


class Choices(NamedTuple):
    """Weighted actions that represent a distribution, in the form that critics take."""

    actions: Float[Array, "*rows choices numbers"]
    log_probs: Float[Array, "*rows choices"]
    weights: Float[Array, "*rows choices"]


def sample_sac_choices(distribution: Distribution, *, key: PRNGKeyArray) -> Choices:
    """Return all actions if they are finitely many, otherwise one sample, through which gradients pass."""
    if isinstance(distribution, Categorical):
        log_probs = jax.nn.log_softmax(distribution.logits)
        return Choices(jnp.eye(len(log_probs)), log_probs, jnp.exp(log_probs))
    assert isinstance(distribution, SquashedNormal)
    action, log_prob = distribution.sample_within(key=key)
    return Choices(action[None], log_prob[None], jnp.ones(1))


def evaluate_sac_choices(
    critics: Network, inputs: Shaped[Array, "rows inputs"], actions: Float[Array, "rows choices numbers"]
) -> Float[Array, "critics rows choices"]:
    """Return the value that each critic gives to each choice."""

    def one_row(
        critic: Network, inputs: Shaped[Array, " inputs"], actions: Float[Array, "choices numbers"]
    ) -> Float[Array, " choices"]:
        seen = critic.see(inputs)  # computed once for all choices
        return jax.vmap(lambda action: feed_network(critic.layers, jnp.concatenate([seen, action]))[0])(actions)

    of_rows = jax.vmap(one_row, in_axes=(None, 0, 0))
    return eqx.filter_vmap(of_rows, in_axes=(0, None, None))(critics, inputs, actions)
