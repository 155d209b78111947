"""The critic: a value network, and how it is fitted to returns."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from alphamepol.policies import feed_forward

ADAM = optax.scale_by_adam()


class Critic(eqx.Module):
    """The value of what is perceived by a ReLU network, with the Adam moments that it is fitted with."""

    layers: tuple[eqx.nn.Linear, ...]
    moments: optax.OptState

    def __init__(self, input_size: int, hidden: Sequence[int] = (64, 64), *, key: PRNGKeyArray):
        """Orthogonal weights (gain √2, 1 for the last layer), biases of zero."""
        sizes = [input_size, *hidden, 1]
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2**0.5] * len(hidden) + [1.0]
        self.layers = tuple(
            _orthogonal(*widths, gain, key=key) for widths, gain, key in zip(pairwise(sizes), gains, keys, strict=True)
        )
        self.moments = ADAM.init(self.layers)  # pyright: ignore[reportArgumentType] (Optax does not know modules)

    def __call__(self, perceived: Float[Array, " inputs"]) -> Float[Array, ""]:
        return feed_forward(self.layers, perceived)[0]


def fit_critic(
    critic: Critic,
    inputs: Shaped[Array, "rows inputs"],
    targets: Float[Array, " rows"],
    rate: Float[Array, ""],
    *,
    passes: int,
    batch: int,
    key: PRNGKeyArray,
) -> tuple[Critic, Float[Array, ""]]:
    """(T5): Adam on the squared error, `passes` times over all rows in mini-batches; returns the mean loss, too."""
    rows = len(targets)
    batch = min(batch, rows)
    batches = -(-rows // batch)

    def shuffled(key: PRNGKeyArray):
        """Each row once; the last mini-batch is filled up with rows that weigh nothing."""
        # One sort instead of the several of `jax.random.permutation`; equal bits are too rare to matter.
        order = jnp.resize(jnp.argsort(jax.random.bits(key, (rows,))), (batches, batch))
        return order, (jnp.arange(batches * batch) < rows).astype(float).reshape(batches, batch)

    order, weights = (part.reshape(-1, batch) for part in jax.vmap(shuffled)(jax.random.split(key, passes)))

    def loss(layers, chosen, weights):
        errors = jax.vmap(lambda one: feed_forward(layers, one)[0])(inputs[chosen]) - targets[chosen]
        return jnp.sum(weights * errors**2) / jnp.sum(weights)

    def fit(critic: Critic, minibatch):
        error, gradient = jax.value_and_grad(loss)(critic.layers, *minibatch)
        direction, moments = ADAM.update(gradient, critic.moments)
        layers = jax.tree.map(lambda parameter, change: parameter - rate * change, critic.layers, direction)
        return eqx.tree_at(lambda critic: (critic.layers, critic.moments), critic, (layers, moments)), error

    critic, errors = jax.lax.scan(fit, critic, (order, weights))
    return critic, jnp.mean(errors)


def _orthogonal(inputs: int, outputs: int, gain: float, *, key: PRNGKeyArray) -> eqx.nn.Linear:
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    weight = jax.nn.initializers.orthogonal(gain)(key, (outputs, inputs))
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (weight, jnp.zeros(outputs)))
