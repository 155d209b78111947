"""Orthonormal columns."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

DEPENDENT = 1e-5
"""The part of a column that must be left over when what is along earlier ones is taken away."""


def orthonormal(matrix: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """The columns made orthonormal one after the other (Gram and Schmidt's way, twice, which rounding asks for).

    A column that depends on earlier ones becomes zero.

    Not `jax.numpy.linalg.qr`, which gives the same: on a CPU two of those at once, of many matrices each, can wait for
    each other for ever. Their parts are queued behind themselves in XLA's pool of threads (seen with jaxlib 0.10.2).
    """

    def settle(j: Int[Array, ""], done: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
        earlier = jnp.where(jnp.arange(done.shape[1]) < j, done, 0.0)
        column = done[:, j]
        least = DEPENDENT * jnp.linalg.norm(column)
        for _ in range(2):
            column = column - earlier @ (earlier.T @ column)
        length = jnp.linalg.norm(column)
        left = length > least
        return done.at[:, j].set(jnp.where(left, column / jnp.where(left, length, 1.0), 0.0))

    with jax.default_matmul_precision("highest"):
        return jax.lax.fori_loop(0, matrix.shape[1], settle, matrix)
