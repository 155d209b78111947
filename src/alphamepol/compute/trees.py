"""Functions on trees of arrays that are stacked along a leading axis."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int


@jax.jit
def take_from_trees(tree: Any, number: int | Int[Array, ""]) -> Any:
    """Return element `number` along the leading axis of every array. One compiled program serves all numbers."""
    return jax.tree.map(lambda leaf: leaf[number], tree)


@jax.jit
def stack_trees(trees: Sequence[Any]) -> Any:
    """Stack trees of equal structure into one tree whose arrays have a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
