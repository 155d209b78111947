"""Trees of arrays that are stacked along a leading axis."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int


@jax.jit
def take_from_trees(tree: Any, number: int | Int[Array, ""]) -> Any:
    """One of what is stacked along the leading axis, as one program for all leaves and numbers."""
    return jax.tree.map(lambda leaf: leaf[number], tree)


@jax.jit
def stack_trees(trees: Sequence[Any]) -> Any:
    """Trees of one structure as one, whose arrays have a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
