"""Products with the Jacobian, against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol.learning.linearised import linearise
from alphamepol.networks import feed_forward, feed_rows, xavier_layers


@pytest.mark.parametrize("sizes", [(2, 16, 16, 2), (5, 7, 3), (3, 9, 8, 7, 4), (4, 2), (2, 300, 300, 2)])
@pytest.mark.parametrize("rows", [1, 37, 3201])
def test_products_are_those_of_automatic_differentiation(sizes, rows) -> None:
    """3201 rows are three pieces on a CPU, the last filled up."""
    keys = jax.random.split(jax.random.key(rows), 4)
    layers, tangent = xavier_layers(sizes, key=keys[0]), xavier_layers(sizes, key=keys[1])
    inputs = jax.random.normal(keys[2], (rows, sizes[0]))
    cotangent = jax.random.normal(keys[3], (rows, sizes[-1]))
    outputs, pull = jax.vjp(lambda layers: jax.vmap(lambda one: feed_forward(layers, one))(inputs), layers)
    _, pushed = jax.jvp(lambda layers: jax.vmap(lambda one: feed_forward(layers, one))(inputs), (layers,), (tangent,))

    network = jax.jit(linearise)(layers, inputs)
    np.testing.assert_allclose(network.outputs, outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(feed_rows(layers, inputs), outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda network: network.push(tangent))(network), pushed, rtol=1e-3, atol=1e-4)
    pulled = jax.jit(lambda network: network.pull(cotangent))(network)
    for ours, expected in zip(jax.tree.leaves(pulled), jax.tree.leaves(pull(cotangent)[0]), strict=True):
        scale = float(jnp.abs(expected).max()) + 1e-6
        np.testing.assert_allclose(ours / scale, expected / scale, atol=2e-5)
