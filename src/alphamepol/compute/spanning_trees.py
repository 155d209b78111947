"""Random spanning trees of small graphs, which generators of mazes and rooms use."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray


def draw_spanning_tree(edges: Int[np.ndarray, "edges 2"], nodes: int, *, key: PRNGKeyArray) -> Bool[Array, " edges"]:
    """Draw a spanning tree of a connected graph by Kruskal's algorithm with random weights.

    `edges` are pairs of nodes, which are counted from 0. Returns which edges belong to the tree.
    """
    order, ends = jax.random.permutation(key, len(edges)), jnp.asarray(edges)

    def add(
        number: Int[Array, ""], state: tuple[Int[Array, " nodes"], Bool[Array, " edges"]]
    ) -> tuple[Int[Array, " nodes"], Bool[Array, " edges"]]:
        """Keep the next edge if it joins two parts. A part is named after one of its nodes."""
        parts, kept = state
        edge = order[number]
        one, other = parts[ends[edge, 0]], parts[ends[edge, 1]]
        return jnp.where(parts == other, one, parts), kept.at[edge].set(one != other)

    start = jnp.arange(nodes), jnp.zeros(len(edges), bool)
    return jax.lax.fori_loop(0, len(edges), add, start)[1]
