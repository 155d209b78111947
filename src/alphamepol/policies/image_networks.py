"""Networks that look at images: the convolutional trunk of policies and critics, and the random encoder."""

from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from alphamepol.environments.image_spaces import Shape, image_space_has_channels_first

CHANNELS = (16, 32, 64)
"""Of the three convolutions."""


ENCODED = 64
"""How many numbers the random encoder gives."""


NOISE = 1e-3
"""The largest noise on each of them."""


class Trunk(eqx.Module):
    """2 × 2 convolutions to 16, 32 and 64 channels, each with ReLU; after the first a 2 × 2 max-pool.

    A view of 7 × 7 becomes 64 numbers, larger images more. Convolutions are products with 2 × 2 patches laid side by
    side: the gradient of XLA's own convolutions takes six times as long on a CPU.
    """

    filters: tuple[eqx.nn.Linear, ...]
    """From patches (their four corners one after the other) to channels."""
    shape: Shape = eqx.field(static=True)
    """Of the image, channels last or first."""

    def __init__(self, shape: Shape, *, key: PRNGKeyArray):
        """Xavier-uniform weights, biases of zero."""
        channels = shape[0] if image_space_has_channels_first(shape) else shape[2]
        keys = jax.random.split(key, len(CHANNELS))
        pairs = zip(pairwise([channels, *CHANNELS]), keys, strict=True)
        self.filters = tuple(_image_network_filters(*widths, key=key) for widths, key in pairs)
        self.shape = shape

    @property
    def pixels(self) -> int:
        """How many numbers an image has."""
        return int(np.prod(self.shape))

    @property
    def size(self) -> int:
        """How many numbers come out."""
        shape = self.shape[1:] if image_space_has_channels_first(self.shape) else self.shape[:2]
        return int(np.prod([(length - 1) // 2 - 2 for length in shape])) * CHANNELS[-1]

    def __call__(self, pixels: Shaped[Array, " pixels"]) -> Float[Array, " numbers"]:
        image = pixels.reshape(self.shape).astype(float)
        if image_space_has_channels_first(self.shape):
            image = jnp.moveaxis(image, 0, -1)
        first, *others = self.filters
        image = _pool_image(_convolve_image(first, image))
        for filters in others:
            image = _convolve_image(filters, image)
        return image.ravel()


class RandomEncoder(eqx.Module):
    """A fixed random network of images, never trained, whose 64 outputs are what entropy is taken of.

    It is a `Trunk`; where that gives more than 64 numbers, a random projection of them.
    """

    trunk: Trunk
    projection: eqx.nn.Linear | None

    def __init__(self, shape: Shape, *, key: PRNGKeyArray):
        trunk_key, projection_key = jax.random.split(key)
        self.trunk = Trunk(shape, key=trunk_key)
        wide = self.trunk.size > ENCODED
        self.projection = xavier_image_layer(self.trunk.size, ENCODED, key=projection_key) if wide else None

    def __call__(self, pixels: Shaped[Array, " pixels"]) -> Float[Array, "64"]:
        numbers = self.trunk(pixels)
        return numbers if self.projection is None else self.projection(numbers)


def image_encoder_noise(shape: tuple[int, ...], *, key: PRNGKeyArray) -> Float[Array, "..."]:
    """What keeps the particles of equal images from coinciding: normal with mean and deviation 0.001, in [0, 0.001]."""
    return NOISE * (1 + jax.random.truncated_normal(key, -1.0, 0.0, shape))


def xavier_image_layer(inputs: int, outputs: int, positions: int = 1, *, key: PRNGKeyArray) -> eqx.nn.Linear:
    """Xavier-uniform weights and biases of zero."""
    weight = xavier_weight(inputs, outputs, positions, key=key)
    blank: Any = eqx.nn.Linear(inputs, outputs, key=key)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), blank, (weight, jnp.zeros(outputs)))


def xavier_weight(
    inputs: int, outputs: int, positions: int = 1, *, key: PRNGKeyArray
) -> Float[Array, "outputs inputs"]:
    """Uniform within √(6 / (inputs + outputs)); `positions`: how many places of an image each input is seen from."""
    bound = (6 / (inputs + positions * outputs)) ** 0.5
    return jax.random.uniform(key, (outputs, inputs), minval=-bound, maxval=bound)


def _image_network_filters(channels: int, outputs: int, *, key: PRNGKeyArray) -> eqx.nn.Linear:
    return xavier_image_layer(4 * channels, outputs, positions=4, key=key)


def _convolve_image(
    filters: eqx.nn.Linear, image: Float[Array, "height width channels"]
) -> Float[Array, "shorter narrower filters"]:
    corners = image[:-1, :-1], image[:-1, 1:], image[1:, :-1], image[1:, 1:]
    return jax.nn.relu(jnp.concatenate(corners, axis=-1) @ filters.weight.T + filters.bias)  # pyright: ignore[reportOperatorIssue] (it has one)


def _pool_image(image: Float[Array, "height width channels"]) -> Float[Array, "half_height half_width channels"]:
    even = image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2]
    upper, lower = even[::2], even[1::2]
    return jnp.maximum(jnp.maximum(upper[:, ::2], upper[:, 1::2]), jnp.maximum(lower[:, ::2], lower[:, 1::2]))
