"""Networks for images: the convolutional trunk of policies and critics, and the random encoder."""

from itertools import pairwise
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from alphamepol.environments.image_spaces import Shape, image_space_has_channels_first

CHANNELS = (16, 32, 64)
"""The numbers of output channels of the three convolutions."""


ENCODED = 64
"""The number of outputs of the random encoder."""


NOISE = 1e-3
"""The largest noise on each output of the random encoder."""


class Trunk(eqx.Module):
    """A convolutional network that turns an image into a vector.

    It has three 2 × 2 convolutions, to 16, 32 and 64 channels, each followed by ReLU. A 2 × 2 max-pool follows the
    first. An image of 7 × 7 gives 64 numbers, and larger images give more.

    Each convolution is a matrix product with the 2 × 2 patches of the image. The gradient of XLA's own convolutions
    takes six times as long on a CPU.
    """

    filters: tuple[eqx.nn.Linear, ...]
    """The linear map of each convolution, from a patch (its four corners one after the other) to channels."""
    shape: Shape = eqx.field(static=True)
    """The shape of the image, with the channels last or first."""

    def __init__(self, shape: Shape, *, biases: Literal["zero", "uniform"] = "zero", key: PRNGKeyArray):
        """Draw Xavier-uniform weights. Biases are zero, or uniform in ±1/√inputs of a filter, as PyTorch draws them."""
        channels = shape[0] if image_space_has_channels_first(shape) else shape[2]
        keys = jax.random.split(key, len(CHANNELS))
        pairs = zip(pairwise([channels, *CHANNELS]), keys, strict=True)
        self.filters = tuple(_image_network_filters(*widths, biases, key=key) for widths, key in pairs)
        self.shape = shape

    @property
    def pixels(self) -> int:
        """The number of values of an image."""
        return int(np.prod(self.shape))

    @property
    def size(self) -> int:
        """The number of outputs."""
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
    """A fixed random network that turns an image into 64 features. It is never trained.

    If the particles of a class are images, their entropy is that of these features (see the setting `encoder`). The
    network consists of three convolutions. If they give more than 64 numbers, a random linear projection follows.

    **Arguments**

    - `shape`: the shape of an image, with the channels last or first. Height and width must be at least 7. The channels
      are last unless the first axis is shorter than the last.
    - `key`: the random key that decides all weights. Runs use the key of the setting `encoder_seed`.

    **Example**

    ```python
    import alphamepol as am
    import jax
    import jax.numpy as jnp

    encoder = am.RandomEncoder((7, 7, 3), key=jax.random.key(0))
    images = jnp.zeros((5, 7 * 7 * 3), jnp.uint8)
    print(encoder(images[0]).shape)  # (64,)
    print(jax.vmap(encoder)(images).shape)  # (5, 64)
    ```
    """

    trunk: Trunk
    """The convolutions."""
    projection: eqx.nn.Linear | None
    """The projection to 64 features; None if the trunk gives 64 numbers."""

    def __init__(self, shape: Shape, *, key: PRNGKeyArray):
        trunk_key, projection_key = jax.random.split(key)
        self.trunk = Trunk(shape, key=trunk_key)
        wide = self.trunk.size > ENCODED
        self.projection = xavier_image_layer(self.trunk.size, ENCODED, key=projection_key) if wide else None

    def __call__(self, pixels: Shaped[Array, " pixels"]) -> Float[Array, "64"]:
        """Return the features, of shape (64,), of one image, which is flattened to a vector."""
        numbers = self.trunk(pixels)
        return numbers if self.projection is None else self.projection(numbers)


def image_encoder_noise(shape: tuple[int, ...], *, key: PRNGKeyArray) -> Float[Array, "..."]:
    """Draw noise for encoded images, so that the particles of equal images do not coincide.

    The noise is normal with mean and standard deviation 0.001, truncated to [0, 0.001].
    """
    return NOISE * (1 + jax.random.truncated_normal(key, -1.0, 0.0, shape))


def xavier_image_layer(inputs: int, outputs: int, *, key: PRNGKeyArray) -> eqx.nn.Linear:
    """Build a linear layer with Xavier-uniform weights and biases of zero."""
    weight = xavier_weight(inputs, outputs, key=key)
    blank: Any = eqx.nn.Linear(inputs, outputs, key=key)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), blank, (weight, jnp.zeros(outputs)))


def xavier_weight(
    inputs: int, outputs: int, positions: int = 1, *, key: PRNGKeyArray
) -> Float[Array, "outputs inputs"]:
    """Draw weights uniformly within ±√(6 / (inputs + positions · outputs)).

    `positions` is the number of patches of an image that an input belongs to; it is 1 for layers without patches.
    """
    bound = (6 / (inputs + positions * outputs)) ** 0.5
    return jax.random.uniform(key, (outputs, inputs), minval=-bound, maxval=bound)


def _image_network_filters(
    channels: int, outputs: int, biases: Literal["zero", "uniform"], *, key: PRNGKeyArray
) -> eqx.nn.Linear:
    weight = xavier_weight(4 * channels, outputs, positions=4, key=key)
    drawn: Any = eqx.nn.Linear(4 * channels, outputs, key=key)  # Equinox draws biases as PyTorch does
    bias = drawn.bias if biases == "uniform" else jnp.zeros(outputs)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), drawn, (weight, bias))


def _convolve_image(
    filters: eqx.nn.Linear, image: Float[Array, "height width channels"]
) -> Float[Array, "shorter narrower filters"]:
    corners = image[:-1, :-1], image[:-1, 1:], image[1:, :-1], image[1:, 1:]
    return jax.nn.relu(jnp.concatenate(corners, axis=-1) @ filters.weight.T + filters.bias)  # pyright: ignore[reportOperatorIssue] (it has a bias)


def _pool_image(image: Float[Array, "height width channels"]) -> Float[Array, "half_height half_width channels"]:
    even = image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2]
    upper, lower = even[::2], even[1::2]
    return jnp.maximum(jnp.maximum(upper[:, ::2], upper[:, 1::2]), jnp.maximum(lower[:, ::2], lower[:, 1::2]))
