"""A natural-gradient step within a trust region, (T3) and (T4). TRPO and the outer step of MAML use it."""

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
    """The settings of a step. Numbers that only scale are traced, so that other values compile nothing anew."""

    max_kl: Float[Array, ""]
    damping: Float[Array, ""]
    conjugate_gradient_iterations: int = eqx.field(static=True, default=10)
    line_search_tries: int = eqx.field(static=True, default=10)


class Stepped(NamedTuple):
    """The effect of a step, estimated from the samples that the step was computed from."""

    kl: Float[Array, ""]
    improvement: Float[Array, ""]
    """The improvement of the surrogate objective."""
    fraction: Float[Array, ""]
    """The fraction of the full step that was taken: 1, ½, ¼ …, or 0 if no fraction was acceptable."""


def trust_region_step(
    policy: Policy,
    gradient: Policy,
    fisher_product: Callable[[Policy], Policy],
    judge: Callable[[Policy], tuple[Float[Array, ""], Float[Array, ""]]],
    region: TrustRegion,
) -> tuple[Policy, Stepped]:
    """Take a step along (F + damping)⁻¹ g, as far as the trust region allows. Halve it until it is acceptable.

    A step is acceptable if it improves the surrogate objective and its KL divergence is below the limit.

    **Arguments**

    - `gradient`: the gradient g of the surrogate objective with respect to the parameters.
    - `fisher_product`: a function that returns F v for a change v of the parameters.
    - `judge`: a function of another policy. It returns the KL divergence from `policy` to that policy, and by how much
      the surrogate objective improves.

    **Returns**

    The new policy, which is the old one if no step was acceptable, and the effect of the step.
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
    """The fraction of the full step that was tried last, and the effect that it would have."""

    fraction: Float[Array, ""]
    kl: Float[Array, ""]
    gained: Float[Array, ""]
    tries: Int[Array, ""]
    accepted: Bool[Array, ""]


def trust_region_conjugate_gradient(product, target: Float[Array, " n"], iterations: int):
    """Solve A x = target approximately by conjugate gradient (T3), and return x and A x.

    `product(v)` returns A v. A must be positive definite. `jax.scipy.sparse.linalg.cg` computes one more product, and
    does not return A x, which would take a further product.
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
    """Return the trust region of some settings."""
    whole = settings.conjugate_gradient_iterations, settings.line_search_tries
    return TrustRegion(traced_number(settings.max_kl), traced_number(settings.damping), *whole)
