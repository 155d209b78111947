"""Ways to map a function of one seed, mini-batch or row over many."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from alphamepol.compute.devices import has_several_devices, share_among_devices


def mapped_rows_per_product(pixels: int = 0) -> int:
    """Return the number of rows that a network processes at once.

    On a CPU the rows fit into its cache; on an accelerator there are enough of them to keep it busy. The number is
    smaller if rows are large images, because convolutions store many times the size of an image.
    """
    rows = 1600 if jax.default_backend() == "cpu" else 100_000
    return max(1, min(rows, 300 * rows // max(1, pixels)))


def map_leading_axis(function: Callable[..., Any], **common: Any) -> Callable[..., Any]:
    """Map a function over the leading axis of all arguments: all items at once on an accelerator, in a loop on a CPU.

    One seed or one mini-batch is enough work for a CPU, and its data then stays in the cache. In a loop, no seed waits
    for another one to converge. Several devices share the items equally. If that is not possible, they loop over the
    items and share the work of each item.

    Arrays that are the same for all items must be given as `common`, the keyword arguments of the function. The
    function must not close over them.
    """

    def mapped(common: dict[str, Any], *arguments: Any) -> Any:
        if jax.default_backend() == "cpu" or has_several_devices():
            return jax.lax.map(lambda one: function(*one, **common), arguments)
        return jax.vmap(lambda *one: function(*one, **common))(*arguments)

    return lambda *arguments: share_among_devices(mapped, common, *arguments)


def largest_divisor_for_mapping(number: int, most: int) -> int:
    """Return the largest divisor of `number` that is not above `most`; it is at least 1."""
    return max(size for size in range(1, max(1, min(number, most)) + 1) if number % size == 0)


def map_rows(function: Callable[..., Any], rows: Any, most: int) -> Any:
    """Apply a function of many rows to the pieces that `cut_rows_for_mapping` gives, one piece after the other.

    If the function is wrapped in `jax.checkpoint`, a gradient needs the memory of one piece only.
    """
    count = len(jax.tree.leaves(rows)[0])
    pieces = jax.tree.map(lambda leaf: cut_rows_for_mapping(leaf, most), rows)
    results = jax.lax.map(lambda piece: function(*piece), pieces)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], results)


def cut_rows_for_mapping(rows: Shaped[Array, "rows ..."], most: int) -> Shaped[Array, "pieces size ..."]:
    """Cut rows into pieces of equal size, with at most `most` rows each. The last piece is padded with zeros."""
    pieces = -(-len(rows) // most)
    size = -(-len(rows) // pieces)
    padded = jnp.pad(rows, [(0, pieces * size - len(rows))] + [(0, 0)] * (rows.ndim - 1))
    return padded.reshape(pieces, size, *rows.shape[1:])


def traced_number(number: float) -> Float[Array, ""]:
    """Return a number as an array, so that it is an input of a compiled program.

    Another value of the number then needs no new compilation.
    """
    return jnp.array(number, jnp.float32)
