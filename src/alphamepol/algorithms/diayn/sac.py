"""Soft actor-critic: twin critics, a tuned temperature, a replay on the device (docs/method.md, "DIAYN").

What is rewarded is up to the loss that `train_sac` is given: DIAYN's, or `sac_loss` with any reward of a transition.
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
    """Numbers that only scale something are traced: changing them compiles nothing anew."""

    learning_rate: Float[Array, ""]
    discount: Float[Array, ""]
    target_rate: Float[Array, ""]
    """How fast the targets follow the critics."""
    target_entropy: Float[Array, ""]
    """What the temperature keeps the entropy of actions at, these being in units of half their range."""
    batch: int = eqx.field(static=True)


class Networks(eqx.Module):
    """What is fitted."""

    actor: Policy
    critics: Network
    """Two, stacked: the value of an observation, a skill and an action."""
    log_temperature: Float[Array, ""]
    discriminator: Network
    """DIAYN's: which skill it was, by what was reached."""


class SacState(eqx.Module):
    """What lives on from update to update."""

    networks: Networks
    targets: Network
    moments: optax.OptState


class SacLearner(eqx.Module):
    """What lives on from turn to turn."""

    state: SacState
    episodes: Episode
    """Of the environments, side by side."""
    replay: Transitions
    """The last transitions, the oldest overwritten first."""


class SacReport(NamedTuple):
    """Of the transitions that an update was made of."""

    critic_loss: Float[Array, ""]
    entropy: Float[Array, ""]
    """Of actions, these being in units of half their range."""
    temperature: Float[Array, ""]
    reward: Float[Array, ""]


Loss = Callable[[Networks, Network, Transitions, PRNGKeyArray], tuple[Float[Array, ""], SacReport]]
"""The loss of networks, given targets, on some transitions."""


def start_sac(networks: Networks, world: World, *, environments: int, replay: int, key: PRNGKeyArray) -> SacLearner:
    """A learner with an empty replay of so many transitions, a multiple of the environments.

    Its environments do not all end their episodes at once.
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
    """`steps` actions and as many updates, in turns: an action in every environment, then an update for each.

    `steps` is a multiple of the environments, `done` the number of steps before. Returns the transitions of these
    steps, and the mean report, too.
    """
    together = len(learner.episodes.age)
    assert steps % together == 0

    def turn(learner: SacLearner, now):
        number, key = now
        act_key, draw_key, update_key = jax.random.split(key, 3)
        before = done + number * together
        learner, seen = interact_in_sac(learner, world, before, key=act_key)
        filled = jnp.minimum(before + together, len(learner.replay.skill))
        # All at once: one gather for all of a turn's updates.
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
    """An action in every environment, kept in the replay; `done` is the number of steps before."""
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
    """One step of Adam on everything, then the targets follow."""
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
    """(S1) to (S3): the losses of critics, actor and temperature, none of which reaches the others' parameters."""
    tell = jax.vmap(lambda observation, skill: stream_observation_with_skill(observation, skill, skills))
    inputs, next_inputs = tell(batch.observation, batch.skill), tell(batch.reached, batch.skill)
    here_key, next_key = jax.random.split(key)
    temperature = jnp.exp(jax.lax.stop_gradient(networks.log_temperature))

    def soft_value(critics: Network, inputs, key: PRNGKeyArray):
        """The value of acting with the actor, with its entropy, and the latter."""
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
    """Actions that stand for a distribution, as critics take them."""

    actions: Float[Array, "*rows choices numbers"]
    log_probs: Float[Array, "*rows choices"]
    weights: Float[Array, "*rows choices"]


def sample_sac_choices(distribution: Distribution, *, key: PRNGKeyArray) -> Choices:
    """All actions if they are finitely many, else one that is drawn, through which gradients pass."""
    if isinstance(distribution, Categorical):
        log_probs = jax.nn.log_softmax(distribution.logits)
        return Choices(jnp.eye(len(log_probs)), log_probs, jnp.exp(log_probs))
    assert isinstance(distribution, SquashedNormal)
    action, log_prob = distribution.sample_within(key=key)
    return Choices(action[None], log_prob[None], jnp.ones(1))


def evaluate_sac_choices(
    critics: Network, inputs: Shaped[Array, "rows inputs"], actions: Float[Array, "rows choices numbers"]
) -> Float[Array, "critics rows choices"]:
    """What each critic thinks of each choice."""

    def one_row(
        critic: Network, inputs: Shaped[Array, " inputs"], actions: Float[Array, "choices numbers"]
    ) -> Float[Array, " choices"]:
        seen = critic.see(inputs)  # once, however many choices there are
        return jax.vmap(lambda action: feed_network(critic.layers, jnp.concatenate([seen, action]))[0])(actions)

    of_rows = jax.vmap(one_row, in_axes=(None, 0, 0))
    return eqx.filter_vmap(of_rows, in_axes=(0, None, None))(critics, inputs, actions)
