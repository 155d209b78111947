"""A natural-gradient step within a trust region, (T3) and (T4), whatever lies between parameters and behaviour."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from alphamepol.compute.mapping import traced_number
from alphamepol.policies.policy import Policy
from alphamepol.settings.trust_region import TrustRegionSettings


class TrustRegion(eqx.Module):
    """Numbers that only scale something are traced: changing them compiles nothing anew."""

    max_kl: Float[Array, ""]
    damping: Float[Array, ""]
    conjugate_gradient_iterations: int = eqx.field(static=True, default=10)
    line_search_tries: int = eqx.field(static=True, default=10)


class Stepped(NamedTuple):
    """What a step did, by the samples it was made of."""

    kl: Float[Array, ""]
    improvement: Float[Array, ""]
    """Of the surrogate objective."""
    fraction: Float[Array, ""]
    """Of the full step: 1, ½, ¼ … or 0 if none was acceptable."""


def trust_region_step(
    policy: Policy,
    gradient: Policy,
    fisher_product: Callable[[Policy], Policy],
    judge: Callable[[Policy], tuple[Float[Array, ""], Float[Array, ""]]],
    region: TrustRegion,
) -> tuple[Policy, Stepped]:
    """Go along (F + damping)⁻¹ g as far as the region allows, then half as far, until the step is acceptable.

    **Arguments**

    - `gradient`: of the surrogate objective by the parameters.
    - `fisher_product`: F v for a change v of the parameters.
    - `judge`: the KL divergence from `policy` to another, and how much better the surrogate objective is there.
    """
    parameters, as_policy = ravel_pytree(policy)

    def product(vector: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        return ravel_pytree(fisher_product(as_policy(vector)))[0] + region.damping * vector

    iterations = region.conjugate_gradient_iterations
    direction, along = trust_region_conjugate_gradient(product, ravel_pytree(gradient)[0], iterations)
    curvature = jnp.maximum(direction @ along, jnp.finfo(direction.dtype).tiny)
    full_step = jnp.sqrt(2 * region.max_kl / curvature) * direction

    def attempt(search: LineSearch) -> LineSearch:
        fraction = jnp.where(search.tries == 0, 1.0, search.fraction / 2)
        kl, gained = judge(as_policy(parameters + fraction * full_step))
        return LineSearch(fraction, kl, gained, search.tries + 1, (gained > 0) & (kl < region.max_kl))

    nothing = jnp.zeros((), parameters.dtype)
    end = jax.lax.while_loop(
        lambda search: ~search.accepted & (search.tries < region.line_search_tries),
        attempt,
        LineSearch(nothing, nothing, nothing, jnp.array(0), jnp.array(False)),
    )
    stepped = Stepped(*(jnp.where(end.accepted, number, 0.0) for number in (end.kl, end.gained, end.fraction)))
    return as_policy(parameters + jnp.where(end.accepted, stepped.fraction * full_step, 0.0)), stepped


class LineSearch(eqx.Module):
    """The fraction of the full step tried last, and what it would do."""

    fraction: Float[Array, ""]
    kl: Float[Array, ""]
    gained: Float[Array, ""]
    tries: Int[Array, ""]
    accepted: Bool[Array, ""]


def trust_region_conjugate_gradient(product, target: Float[Array, " n"], iterations: int):
    """(T3): x with A x ≈ target from `product(v) = A v`, A positive definite; returns x and A x.

    `jax.scipy.sparse.linalg.cg` takes one product more and does not give A x, which would take another.
    """

    def iterate(_, carry):
        x, residual, direction, square = carry
        along = product(direction)
        length = square / jnp.maximum(direction @ along, jnp.finfo(square.dtype).tiny)
        x, residual = x + length * direction, residual - length * along
        new_square = residual @ residual
        direction = residual + new_square / jnp.maximum(square, jnp.finfo(square.dtype).tiny) * direction
        return x, residual, direction, new_square

    start = jnp.zeros_like(target), target, target, target @ target
    x, residual, _, _ = jax.lax.fori_loop(0, iterations, iterate, start)
    return x, target - residual


def trust_region_from_settings(settings: TrustRegionSettings) -> TrustRegion:
    """The trust region that settings ask for."""
    whole = settings.conjugate_gradient_iterations, settings.line_search_tries
    return TrustRegion(traced_number(settings.max_kl), traced_number(settings.damping), *whole)
