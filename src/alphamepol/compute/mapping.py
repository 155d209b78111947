"""How a function of one thing is mapped over many: seeds, mini-batches, rows."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from alphamepol.compute.devices import has_several_devices, share_among_devices


def mapped_rows_per_product(pixels: int = 0) -> int:
    """Rows that a network is fed at once: on a CPU what stays in its cache, on an accelerator what fills it.

    Fewer where rows are large images, of which convolutions keep many times their size.
    """
    rows = 1600 if jax.default_backend() == "cpu" else 100_000
    return max(1, min(rows, 300 * rows // max(1, pixels)))


def map_leading_axis(function: Callable[..., Any], **common: Any) -> Callable[..., Any]:
    """Map over the leading axis of all arguments: at once on accelerators, one after the other on a CPU.

    A CPU is full with one seed, or one mini-batch, whose work then stays in its cache; and in a loop no seed waits
    for another. Several devices share what is mapped over; if they cannot do so equally, they share every one of it.
    Arrays that are the same for all are to be `common`, keyword arguments of the function, and not closed over.
    """

    def mapped(common: dict[str, Any], *arguments: Any) -> Any:
        if jax.default_backend() == "cpu" or has_several_devices():
            return jax.lax.map(lambda one: function(*one, **common), arguments)
        return jax.vmap(lambda *one: function(*one, **common))(*arguments)

    return lambda *arguments: share_among_devices(mapped, common, *arguments)


def largest_divisor_for_mapping(number: int, most: int) -> int:
    """The largest number up to `most` that divides another, at least 1."""
    return max(size for size in range(1, max(1, min(number, most)) + 1) if number % size == 0)


def map_rows(function: Callable[..., Any], rows: Any, most: int) -> Any:
    """A function of many rows applied to the pieces of `cut_rows_for_mapping`.

    With `jax.checkpoint` of the function, a gradient needs the memory of one piece.
    """
    count = len(jax.tree.leaves(rows)[0])
    pieces = jax.tree.map(lambda leaf: cut_rows_for_mapping(leaf, most), rows)
    results = jax.lax.map(lambda piece: function(*piece), pieces)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], results)


def cut_rows_for_mapping(rows: Shaped[Array, "rows ..."], most: int) -> Shaped[Array, "pieces size ..."]:
    """Equally large pieces of at most so many rows, the last filled with zeros."""
    pieces = -(-len(rows) // most)
    size = -(-len(rows) // pieces)
    padded = jnp.pad(rows, [(0, pieces * size - len(rows))] + [(0, 0)] * (rows.ndim - 1))
    return padded.reshape(pieces, size, *rows.shape[1:])


def traced_number(number: float) -> Float[Array, ""]:
    """A number as an array, which a compiled program takes as it comes: another value compiles nothing anew."""
    return jnp.array(number, jnp.float32)
