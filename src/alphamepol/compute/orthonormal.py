"""The orthonormalisation of the columns of a matrix."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from alphamepol.compute.squares import exponent_for_squares

DEPENDENT = 1e-5
"""The smallest share of a column's length that must remain once its components along earlier columns are removed."""


def orthonormal(matrix: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """Make the columns orthonormal one after the other, by the Gram–Schmidt process.

    Each column is orthogonalised twice, because of rounding. A column that depends on earlier columns becomes zero.

    `jax.numpy.linalg.qr` gives the same result, but it can deadlock on a CPU. Two calls at the same time, with many
    matrices each, can wait for each other for ever, because their parts are queued behind themselves in XLA's thread
    pool (seen with jaxlib 0.10.2).
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

    # The lengths of columns do not matter, but their squares must be numbers.
    matrix = jnp.ldexp(matrix, -exponent_for_squares(jnp.max(jnp.abs(matrix), axis=0)))
    with jax.default_matmul_precision("highest"):
        return jax.lax.fori_loop(0, matrix.shape[1], settle, matrix)
