"""The linearisation of a ReLU network around its parameters: its outputs, and products with its Jacobian J.

TRPO needs J·v and Jᵀ·u for ten vectors with the same network and inputs. Values that do not depend on the vector are
computed once: the hidden values, and the derivatives of the few outputs by each layer's sums (before ReLU). A product
then takes one matrix product per layer. A Jacobian-vector or vector-Jacobian product of automatic differentiation takes
two.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from alphamepol.compute.mapping import cut_rows_for_mapping, map_rows, mapped_rows_per_product
from alphamepol.policies.networks import times_network_layer
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Episodes

Layers = tuple[eqx.nn.Linear, ...]


class Piece(eqx.Module):
    """The stored values for a piece of the inputs. Inputs are columns, because a weight times a column is fastest on a
    CPU."""

    values: tuple[Float[Array, "*pieces _ rows"], ...]
    """The inputs, then the values of each hidden layer."""
    sensitivities: tuple[Float[Array, "*pieces outputs _ rows"], ...]
    """The derivatives of the outputs by the sums of each hidden layer except the last."""


class Linearised(eqx.Module):
    """A network that is linearised at given parameters and inputs."""

    layers: Layers
    outputs: Float[Array, "rows outputs"]
    pieces: Piece

    def push(self, tangent: Layers) -> Float[Array, "rows outputs"]:
        """Return J·v: the change of the outputs along a change of the parameters."""
        changes = jax.lax.map(lambda piece: _push_through_linearised(self.layers, piece, tangent), self.pieces)
        return _to_linearised_rows(changes)[: len(self.outputs)]

    def pull(self, cotangent: Float[Array, "rows outputs"]) -> Layers:
        """Return Jᵀ·u: the gradient of Σ u · outputs by the parameters."""

        def add(total: Layers, part: tuple[Piece, Float[Array, "outputs rows"]]) -> tuple[Layers, None]:
            return jax.tree.map(jnp.add, total, _pull_through_linearised(self.layers, *part)), None

        cotangents = _to_linearised_columns(cotangent)
        return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, self.layers), (self.pieces, cotangents))[0]


def linearise(layers: Layers, inputs: Float[Array, "rows inputs"]) -> Linearised:
    """Linearise a network at `layers` on all inputs."""
    outputs, pieces = jax.lax.map(lambda columns: _prepare_linearised(layers, columns), _to_linearised_columns(inputs))
    return Linearised(layers, _to_linearised_rows(outputs)[: len(inputs)], pieces)


def _prepare_linearised(
    layers: Layers, inputs: Float[Array, "inputs rows"]
) -> tuple[Float[Array, "outputs rows"], Piece]:
    *hidden, last = layers
    values = [inputs]
    for layer in hidden:
        values.append(jax.nn.relu(times_network_layer(layer, values[-1])))
    outputs = times_network_layer(last, values[-1])
    sensitivity = last.weight[:, :, None] * (values[-1] > 0)
    sensitivities: list[Float[Array, "outputs _ rows"]] = []
    for layer, below in zip(hidden[:0:-1], values[-2:0:-1], strict=True):
        sensitivity = jnp.stack([layer.weight.T @ of_output for of_output in sensitivity]) * (below > 0)
        sensitivities.insert(0, sensitivity)
    return outputs, Piece(tuple(values), tuple(sensitivities))


def _push_through_linearised(layers: Layers, piece: Piece, tangent: Layers) -> Float[Array, "outputs rows"]:
    change = times_network_layer(tangent[-1], piece.values[-1])
    if len(layers) > 1:
        change += layers[-1].weight @ jnp.where(
            piece.values[-1] > 0, times_network_layer(tangent[-2], piece.values[-2]), 0.0
        )
    for layer, below, sensitivity in zip(tangent, piece.values, piece.sensitivities, strict=False):
        sums = times_network_layer(layer, below)
        # The product with ones is a sum. XLA's own sums over this axis are ten times slower on a CPU.
        change += jnp.stack([jnp.ones(len(sums)) @ (of_output * sums) for of_output in sensitivity])
    return change


def _pull_through_linearised(layers: Layers, piece: Piece, cotangent: Float[Array, "outputs rows"]) -> Layers:
    by_sums: list[Float[Array, "_ rows"]] = []
    for sensitivity in piece.sensitivities:
        weighted = [u * of_output for u, of_output in zip(cotangent, sensitivity, strict=True)]
        by_sums.append(reduce(jnp.add, weighted))
    if len(layers) > 1:
        by_sums.append(jnp.where(piece.values[-1] > 0, layers[-1].weight.T @ cotangent, 0.0))
    by_sums.append(cotangent)
    ones = jnp.ones(cotangent.shape[-1])
    gradients = [(delta @ below.T, delta @ ones) for delta, below in zip(by_sums, piece.values, strict=True)]
    return tuple(
        eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, gradient)
        for layer, gradient in zip(layers, gradients, strict=True)
    )


def _to_linearised_columns(rows: Float[Array, "rows width"]) -> Float[Array, "pieces width columns"]:
    return jnp.moveaxis(cut_rows_for_mapping(rows, mapped_rows_per_product()), 1, 2)


def _to_linearised_rows(columns: Float[Array, "pieces width columns"]) -> Float[Array, "rows width"]:
    return jnp.moveaxis(columns, 1, 2).reshape(-1, columns.shape[1])


class LinearisedPolicy(NamedTuple):
    """The network of a policy on all steps of some episodes, linearised around its parameters."""

    outputs: Float[Array, "rows outputs"]
    push: Callable[[Policy], Float[Array, "rows outputs"]]
    """The function v ↦ J·v: the change of the outputs along a change of the policy."""
    pull: Callable[[Float[Array, "rows outputs"]], Policy]
    """The function u ↦ Jᵀ·u: the gradient of Σ u · outputs by the policy."""


def linearise_policy(policy: Policy, episodes: Episodes) -> LinearisedPolicy:
    """Linearise the network of a policy on all steps of some episodes.

    `linearise` is used where it applies. Policies with recurrence or images use automatic differentiation.
    """
    if not policy.acts_on_rows:
        outputs, push = jax.linearize(lambda policy: network_outputs_to_linearise(policy, episodes), policy)
        transposed = jax.linear_transpose(push, policy)
        return LinearisedPolicy(outputs, push, lambda cotangent: transposed(cotangent)[0])
    network = linearise(policy.layers, flatten_steps_to_linearise(episodes.perceived))
    nothing = jax.tree.map(jnp.zeros_like, policy)
    return LinearisedPolicy(
        network.outputs,
        lambda tangent: network.push(tangent.layers),
        lambda cotangent: eqx.tree_at(lambda policy: policy.layers, nothing, network.pull(cotangent)),
    )


def network_outputs_to_linearise(policy: Policy, episodes: Episodes) -> Float[Array, "rows outputs"]:
    """Return the outputs of the policy's network at every step, one trajectory after the other."""
    inputs = flatten_steps_to_linearise(jax.vmap(policy.network_inputs)(episodes.perceived, episodes.starts))
    return map_rows(
        policy.network_of_rows, (inputs,), mapped_rows_per_product(policy.trunk.pixels if policy.trunk else 0)
    )


def flatten_steps_to_linearise(leaf: Shaped[Array, "trajectories time ..."]) -> Shaped[Array, "rows ..."]:
    """Merge the axes of trajectories and time: the steps of one trajectory follow those of the one before."""
    return leaf.reshape(-1, *leaf.shape[2:])
