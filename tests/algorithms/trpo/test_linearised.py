"""Test products with the Jacobian against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol.algorithms.trpo.linearised import linearise
from alphamepol.policies.networks import feed_network, feed_network_rows, xavier_network_layers


@pytest.mark.parametrize("sizes", [(2, 16, 16, 2), (5, 7, 3), (3, 9, 8, 7, 4), (4, 2), (2, 300, 300, 2)])
@pytest.mark.parametrize("rows", [1, 37, 3201])
def test_products_are_those_of_automatic_differentiation(sizes, rows) -> None:
    """On a CPU, 3201 rows are cut into three pieces. The last piece is padded."""
    keys = jax.random.split(jax.random.key(rows), 4)
    layers, tangent = xavier_network_layers(sizes, key=keys[0]), xavier_network_layers(sizes, key=keys[1])
    inputs = jax.random.normal(keys[2], (rows, sizes[0]))
    cotangent = jax.random.normal(keys[3], (rows, sizes[-1]))

    @jax.jit  # compiling all operations together takes less time than one by one
    def automatic(layers, tangent, cotangent):
        def outputs_of(layers):
            return jax.vmap(lambda one: feed_network(layers, one))(inputs)

        outputs, pull = jax.vjp(outputs_of, layers)
        return outputs, jax.jvp(outputs_of, (layers,), (tangent,))[1], pull(cotangent)[0]

    outputs, pushed, pulled_back = automatic(layers, tangent, cotangent)
    network = jax.jit(linearise)(layers, inputs)
    np.testing.assert_allclose(network.outputs, outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(feed_network_rows(layers, inputs), outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda network: network.push(tangent))(network), pushed, rtol=1e-3, atol=1e-4)
    pulled = jax.jit(lambda network: network.pull(cotangent))(network)
    for ours, expected in zip(jax.tree.leaves(pulled), jax.tree.leaves(pulled_back), strict=True):
        scale = float(jnp.abs(expected).max()) + 1e-6
        np.testing.assert_allclose(ours / scale, expected / scale, atol=2e-5)
