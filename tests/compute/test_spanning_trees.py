"""Test that spanning trees are trees, and that every tree of a small graph is drawn."""

import jax
import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from alphamepol.compute.spanning_trees import draw_spanning_tree

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("nodes", [2, 5, 12])
def test_it_connects_all_nodes_with_one_edge_less(nodes: int) -> None:
    edges = np.array([(i, j) for i in range(nodes) for j in range(i)])
    for key in jax.random.split(jax.random.key(0), 5):
        kept = edges[np.asarray(draw_spanning_tree(edges, nodes, key=key))]
        assert len(kept) == nodes - 1
        graph = coo_array((np.ones(len(kept)), tuple(kept.T)), shape=(nodes, nodes))
        assert connected_components(graph, directed=False)[0] == 1


def test_every_tree_of_a_square_is_drawn_equally_often() -> None:
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 0)])  # a cycle: each tree leaves out one edge
    draw = jax.jit(jax.vmap(lambda key: draw_spanning_tree(edges, 4, key=key)))
    kept = np.asarray(draw(jax.random.split(jax.random.key(1), 2000)))
    assert (kept.sum(axis=1) == 3).all()
    np.testing.assert_allclose((~kept).mean(axis=0), 0.25, atol=0.04)
