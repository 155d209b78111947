"""Feed-forward networks: of vectors, and of what begins with an image."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from alphamepol.images import Trunk, xavier_weight


def feed_forward(
    layers: Sequence[eqx.nn.Linear],
    inputs: Float[Array, " inputs"],
    activation: Callable[[Array], Array] = jax.nn.relu,
) -> Float[Array, " outputs"]:
    """A network with ReLU, or another activation, between its layers."""
    for layer in layers[:-1]:
        inputs = activation(layer(inputs))
    return layers[-1](inputs)


def run_network(
    trunk: Trunk | None,
    layers: Sequence[eqx.nn.Linear],
    inputs: Shaped[Array, " inputs"],
    after_trunk: Callable[[Array], Array] = jax.nn.relu,
) -> Float[Array, " outputs"]:
    """A network of vectors, or one that sees the image which its inputs begin with, then with another activation."""
    if trunk is None:
        return feed_forward(layers, inputs)
    seen = jnp.concatenate([trunk(inputs[: trunk.pixels]), inputs[trunk.pixels :]])
    return feed_forward(layers, seen, after_trunk)


def xavier_layers(sizes: Sequence[int], *, key: PRNGKeyArray) -> tuple[eqx.nn.Linear, ...]:
    """Layers of these widths, input first: Xavier-uniform weights, biases uniform in ±1/√inputs."""

    def layer(inputs: int, outputs: int, key: PRNGKeyArray) -> eqx.nn.Linear:
        weight_key, layer_key = jax.random.split(key)
        weight = xavier_weight(inputs, outputs, key=weight_key)
        return eqx.tree_at(lambda layer: layer.weight, eqx.nn.Linear(inputs, outputs, key=layer_key), weight)

    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(layer(*widths, key) for widths, key in zip(pairwise(sizes), keys, strict=True))
