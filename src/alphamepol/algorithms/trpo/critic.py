"""The critic: a value network that is fitted to returns."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from alphamepol.compute.keys import NETWORK_TRUNK
from alphamepol.compute.mapping import mapped_rows_per_product
from alphamepol.compute.orthonormal import orthonormal
from alphamepol.environments.image_spaces import Shape
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.networks import run_network

ADAM = optax.scale_by_adam()


class Critic(eqx.Module):
    """A ReLU network that estimates the value of what is perceived, with the Adam moments of its fit."""

    trunk: Trunk | None
    """The convolutions, if the inputs begin with an image; else None."""
    layers: tuple[eqx.nn.Linear, ...]
    moments: optax.OptState

    def __init__(
        self,
        input_size: int,
        hidden: Sequence[int] = (64, 64),
        image: Shape | None = None,
        gain: float = 2**0.5,
        biases: bool = False,
        *,
        key: PRNGKeyArray,
    ):
        """Build the network with orthogonal weights. Their gain is `gain` in hidden layers, and 1 in the last one.

        Biases are zero, or uniform in ±1/√inputs if `biases` is True.
        """
        self.trunk = image and Trunk(image, key=jax.random.fold_in(key, NETWORK_TRUNK))
        seen = 0 if self.trunk is None else self.trunk.size - self.trunk.pixels
        sizes = [input_size + seen, *hidden, 1]
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [gain] * len(hidden) + [1.0]
        self.layers = tuple(
            _orthogonal_critic_layer(*widths, gain, biases, key=key)
            for widths, gain, key in zip(pairwise(sizes), gains, keys, strict=True)
        )
        self.moments = ADAM.init((self.trunk, self.layers))  # pyright: ignore[reportArgumentType] (Optax does not know modules)

    def __call__(self, perceived: Shaped[Array, " inputs"]) -> Float[Array, ""]:
        return run_network(self.trunk, self.layers, perceived)[0]


def evaluate_critic(
    critic: Critic, perceived: Shaped[Array, "trajectories time inputs"]
) -> Float[Array, "trajectories time"]:
    """Return the value of every step. Images are processed piece by piece."""
    if critic.trunk is None:
        return jax.vmap(jax.vmap(critic))(perceived)
    rows = perceived.reshape(-1, perceived.shape[-1])
    values = jax.lax.map(critic, rows, batch_size=mapped_rows_per_product(critic.trunk.pixels))
    return values.reshape(perceived.shape[:2])


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
    """Fit the critic to the targets (T5): Adam on the squared error, with `passes` over all rows in mini-batches.

    Return the fitted critic and the mean loss.
    """
    rows = len(targets)
    batch = min(batch, rows)
    batches = -(-rows // batch)

    def shuffled(key: PRNGKeyArray):
        """Return all rows in random order, as mini-batches, and their weights. The last mini-batch is padded with rows
        of weight 0."""
        # One sort is faster than the several sorts of `jax.random.permutation`. Equal bits are too rare to matter.
        order = jnp.resize(jnp.argsort(jax.random.bits(key, (rows,))), (batches, batch))
        return order, (jnp.arange(batches * batch) < rows).astype(float).reshape(batches, batch)

    order, weights = (part.reshape(-1, batch) for part in jax.vmap(shuffled)(jax.random.split(key, passes)))

    def loss(network, chosen, weights):
        errors = jax.vmap(lambda one: run_network(network[0], network[1], one)[0])(inputs[chosen]) - targets[chosen]
        return jnp.sum(weights * errors**2) / jnp.sum(weights)

    def fit(critic: Critic, minibatch):
        network = critic.trunk, critic.layers
        error, gradient = jax.value_and_grad(loss)(network, *minibatch)
        direction, moments = ADAM.update(gradient, critic.moments)
        trunk, layers = jax.tree.map(lambda parameter, change: parameter - rate * change, network, direction)
        parts = trunk, layers, moments
        is_none = lambda leaf: leaf is None  # noqa: E731
        return eqx.tree_at(lambda c: (c.trunk, c.layers, c.moments), critic, parts, is_leaf=is_none), error

    critic, errors = jax.lax.scan(fit, critic, (order, weights))
    return critic, jnp.mean(errors)


def _orthogonal_critic_layer(
    inputs: int, outputs: int, gain: float, biases: bool, *, key: PRNGKeyArray
) -> eqx.nn.Linear:
    layer = eqx.nn.Linear(inputs, outputs, key=key)  # its biases are uniform
    longer, shorter = max(inputs, outputs), min(inputs, outputs)
    columns = orthonormal(jax.random.normal(key, (longer, shorter)))
    weight = gain * (columns if outputs == longer else columns.T)
    bias = layer.bias if biases else jnp.zeros(outputs)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (weight, bias))
