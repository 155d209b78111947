"""Feed-forward networks whose input is a vector, or a vector that begins with an image."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from alphamepol.compute.keys import NETWORK_TRUNK
from alphamepol.environments.image_spaces import Shape
from alphamepol.policies.image_networks import Trunk, xavier_weight


class Network(eqx.Module):
    """A ReLU network whose input is a vector, or a vector that begins with an image."""

    trunk: Trunk | None
    """The convolutions for the image; None if there is no image."""
    layers: tuple[eqx.nn.Linear, ...]

    def __init__(
        self, inputs: int, hidden: Sequence[int], outputs: int, image: Shape | None = None, *, key: PRNGKeyArray
    ):
        self.trunk = image and Trunk(image, key=jax.random.fold_in(key, NETWORK_TRUNK))
        seen = 0 if self.trunk is None else self.trunk.size - self.trunk.pixels
        self.layers = xavier_network_layers([inputs + seen, *hidden, outputs], key=key)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.layers[-1].weight.shape[-2]

    def __call__(self, inputs: Shaped[Array, " inputs"]) -> Float[Array, " outputs"]:
        return run_network(self.trunk, self.layers, inputs)

    def see(self, inputs: Shaped[Array, " inputs"]) -> Shaped[Array, " seen"]:
        """Return the inputs of the layers: the trunk turns the image into a vector, and the rest stays as it is."""
        return see_by_network(self.trunk, inputs)


def feed_network(
    layers: Sequence[eqx.nn.Linear],
    inputs: Float[Array, " inputs"],
    activation: Callable[[Array], Array] = jax.nn.relu,
) -> Float[Array, " outputs"]:
    """Apply linear layers, with ReLU or another activation between them."""
    for layer in layers[:-1]:
        inputs = activation(layer(inputs))
    return layers[-1](inputs)


def feed_network_rows(
    layers: Sequence[eqx.nn.Linear],
    rows: Float[Array, "rows inputs"],
    activation: Callable[[Array], Array] = jax.nn.relu,
) -> Float[Array, "rows outputs"]:
    """Apply `feed_network` to many rows at once, by matrix products.

    The derivatives of matrix products are faster than those of a mapped `feed_network`. Rows become columns, because a
    weight matrix times columns is fastest on a CPU.
    """
    columns = rows.T
    for layer in layers[:-1]:
        columns = activation(times_network_layer(layer, columns))
    return times_network_layer(layers[-1], columns).T


def times_network_layer(layer: eqx.nn.Linear, columns: Float[Array, "inputs rows"]) -> Float[Array, "outputs rows"]:
    """Apply a linear layer to many inputs, which are the columns of a matrix."""
    return layer.weight @ columns + layer.bias[:, None]  # pyright: ignore[reportOptionalSubscript] (it has a bias)


def run_network(
    trunk: Trunk | None,
    layers: Sequence[eqx.nn.Linear],
    inputs: Shaped[Array, " inputs"],
    after_trunk: Callable[[Array], Array] = jax.nn.relu,
) -> Float[Array, " outputs"]:
    """Apply a network to a vector. With a trunk, the vector begins with an image.

    The activation between the layers is ReLU; with a trunk it is `after_trunk`.
    """
    return feed_network(layers, see_by_network(trunk, inputs), jax.nn.relu if trunk is None else after_trunk)


def see_by_network(trunk: Trunk | None, inputs: Shaped[Array, " inputs"]) -> Shaped[Array, " seen"]:
    """Replace the image at the beginning of the inputs by the outputs of the trunk. Without a trunk nothing changes."""
    if trunk is None:
        return inputs
    return jnp.concatenate([trunk(inputs[: trunk.pixels]), inputs[trunk.pixels :]])


def xavier_network_layers(sizes: Sequence[int], *, key: PRNGKeyArray) -> tuple[eqx.nn.Linear, ...]:
    """Build linear layers. `sizes` are the number of inputs, and the widths of all layers.

    Weights are Xavier-uniform, and biases are uniform in ±1/√inputs.
    """

    def layer(inputs: int, outputs: int, key: PRNGKeyArray) -> eqx.nn.Linear:
        weight_key, layer_key = jax.random.split(key)
        weight = xavier_weight(inputs, outputs, key=weight_key)
        return eqx.tree_at(lambda layer: layer.weight, eqx.nn.Linear(inputs, outputs, key=layer_key), weight)

    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(layer(*widths, key) for widths, key in zip(pairwise(sizes), keys, strict=True))


def network_operations_per_row(hidden: Sequence[int], image_multiplications: int = 0) -> float:
    """Return the approximate number of floating-point operations of a network for one observation.

    `image_multiplications` is the number of multiplications in the convolutions.
    """
    return 2.0 * (sum(a * b for a, b in pairwise(hidden)) + 4 * sum(hidden) + image_multiplications)
