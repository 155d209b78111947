"""How a function of one thing is mapped over many: seeds, mini-batches, rows."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from alphamepol.compute.devices import several, share


def rows_per_product(pixels: int = 0) -> int:
    """Rows that a network is fed at once: on a CPU what stays in its cache, on an accelerator what fills it.

    Fewer where rows are large images, of which convolutions keep many times their size.
    """
    rows = 1600 if jax.default_backend() == "cpu" else 100_000
    return max(1, min(rows, 300 * rows // max(1, pixels)))


def steps_per_turn() -> int:
    """Steps of a recurrence per turn of its loop: on an accelerator turns cost more than what is done in them."""
    return 1 if jax.default_backend() == "cpu" else 8


def device_for_little() -> Any:
    """Where little at a time is quickest: the CPU, whatever accelerator there is, unless JAX is kept from it."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return jax.local_devices()[0]


def map_leading_axis(function: Callable[..., Any], **common: Any) -> Callable[..., Any]:
    """Map over the leading axis of all arguments: at once on accelerators, one after the other on a CPU.

    A CPU is full with one seed, or one mini-batch, whose work then stays in its cache; and in a loop no seed waits
    for another. Several devices share what is mapped over; if they cannot do so equally, they share every one of it.
    Arrays that are the same for all are to be `common`, keyword arguments of the function, and not closed over.
    """

    def mapped(common: dict[str, Any], *arguments: Any) -> Any:
        if jax.default_backend() == "cpu" or several():
            return jax.lax.map(lambda one: function(*one, **common), arguments)
        return jax.vmap(lambda *one: function(*one, **common))(*arguments)

    return lambda *arguments: share(mapped, common, *arguments)


def largest_divisor(number: int, most: int) -> int:
    """The largest number up to `most` that divides another, at least 1."""
    return max(size for size in range(1, max(1, min(number, most)) + 1) if number % size == 0)


def map_rows(function: Callable[..., Any], rows: Any, most: int) -> Any:
    """A function of many rows applied to the pieces of `cut_rows`.

    With `jax.checkpoint` of the function, a gradient needs the memory of one piece.
    """
    count = len(jax.tree.leaves(rows)[0])
    pieces = jax.tree.map(lambda leaf: cut_rows(leaf, most), rows)
    results = jax.lax.map(lambda piece: function(*piece), pieces)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], results)


def cut_rows(rows: Shaped[Array, "rows ..."], most: int) -> Shaped[Array, "pieces size ..."]:
    """Equally large pieces of at most so many rows, the last filled with zeros."""
    pieces = -(-len(rows) // most)
    size = -(-len(rows) // pieces)
    padded = jnp.pad(rows, [(0, pieces * size - len(rows))] + [(0, 0)] * (rows.ndim - 1))
    return padded.reshape(pieces, size, *rows.shape[1:])


@jax.jit
def take(tree: Any, number: int | Int[Array, ""]) -> Any:
    """One of what is stacked along the leading axis, as one program for all leaves and numbers."""
    return jax.tree.map(lambda leaf: leaf[number], tree)


@jax.jit
def stack(trees: Sequence[Any]) -> Any:
    """Trees of one structure as one, whose arrays have a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def traced(number: float) -> Float[Array, ""]:
    """A number as an array, which a compiled program takes as it comes: another value compiles nothing anew."""
    return jnp.array(number, jnp.float32)
