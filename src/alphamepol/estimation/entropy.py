"""State entropy and divergence from nearest neighbours (E3)–(E6)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln, logsumexp
from jaxtyping import Array, Float, Shaped

from alphamepol.estimation.knn import Neighbourhood, nearest_neighbours


def knn_entropy(points: Shaped[Array | np.ndarray, "particles dimension"], k: int) -> Float[Array, ""]:
    """Differential entropy of the distribution that the points were drawn from (E3)."""
    return particle_entropy(nearest_neighbours(points, k))


def importance_weighted_entropy(
    points: Shaped[Array | np.ndarray, "particles dimension"],
    log_weights: Float[Array | np.ndarray, " particles"],
    k: int,
) -> Float[Array, ""]:
    """The entropy had the points been drawn with other probabilities (E5).

    `log_weights` are the logarithms of ŵ (E4), each point's probability under the new distribution over that under
    the old; a common factor does not matter.
    """
    return weighted_entropy(nearest_neighbours(points, k), jnp.asarray(log_weights))


def knn_kl(
    points: Shaped[Array | np.ndarray, "*sets particles dimension"],
    log_weights: Float[Array | np.ndarray, "*sets particles"],
    k: int,
) -> Float[Array, ""]:
    """KL divergence of the distribution that the points were drawn from, to the re-weighted one (E6).

    Several sets of points are taken as one sample, each point's neighbours being of its own set.
    """
    points = jnp.asarray(points)
    particles, dimension = points.shape[-2:]
    neighbourhood = nearest_neighbours(points.reshape(-1, particles, dimension), k)
    log_weights = jnp.asarray(log_weights).reshape(-1, particles)
    return kl_of_masses(neighbourhood, log_weights, jax.vmap(neighbour_masses_for_entropy)(neighbourhood, log_weights))


def particle_entropy(neighbourhood: Neighbourhood) -> Float[Array, ""]:
    """(E3) of one particle set; there Σ ln k cancels, which leaves mean ln V + ln n − ψ(k)."""
    count = jnp.sum(neighbourhood.valid)
    mean_log_volume = jnp.sum(jnp.where(neighbourhood.valid, log_volumes_for_entropy(neighbourhood), 0.0)) / count
    return mean_log_volume + jnp.log(count) - digamma(jnp.asarray(neighbourhood.k, mean_log_volume.dtype))


def weighted_entropy(neighbourhood: Neighbourhood, log_weights: Float[Array, " particles"]) -> Float[Array, ""]:
    """(E5) of one particle set; `log_weights` are ln ŵ of its particles."""
    return entropy_of_masses(neighbourhood, neighbour_masses_for_entropy(neighbourhood, log_weights))


def entropy_of_masses(neighbourhood: Neighbourhood, masses: Float[Array, " particles"]) -> Float[Array, ""]:
    """(E5) of one particle set from its W_t."""
    k = jnp.asarray(neighbourhood.k, masses.dtype)
    terms = masses / k * (jnp.log(masses) - log_volumes_for_entropy(neighbourhood))
    return -jnp.sum(jnp.where(neighbourhood.valid, terms, 0.0)) + jnp.log(k) - digamma(k)


def kl_of_masses(
    neighbourhood: Neighbourhood, log_weights: Float[Array, "sets particles"], masses: Float[Array, "sets particles"]
) -> Float[Array, ""]:
    """(E6) over stacked particle sets, from their ln ŵ (−∞ where invalid) and W_t.

    U_t is W_t times the share of its set in the epoch's weight, so that one sum over neighbours serves (E5) and (E6).
    """
    count = jnp.sum(neighbourhood.valid)
    log_shares = logsumexp(log_weights, axis=-1, keepdims=True) - logsumexp(log_weights)
    mean_log_mass = jnp.sum(jnp.where(neighbourhood.valid, jnp.log(masses) + log_shares, 0.0)) / count
    return jnp.maximum(jnp.log(neighbourhood.k / count) - mean_log_mass, 0.0)


def neighbour_masses_for_entropy(
    neighbourhood: Neighbourhood, log_weights: Float[Array, " particles"]
) -> Float[Array, " particles"]:
    """W_t of (E5): the normalised weight of each particle's neighbours; 1 for invalid particles."""
    weights = jax.nn.softmax(jnp.where(neighbourhood.valid, log_weights, -jnp.inf))
    masses = neighbourhood.sums(weights)
    # A weight can underflow; the floor keeps logarithm and gradient finite and changes nothing else.
    floor = jnp.finfo(masses.dtype).tiny
    return jnp.where(neighbourhood.valid, jnp.maximum(masses, floor), 1.0)


def log_volumes_for_entropy(neighbourhood: Neighbourhood) -> Float[Array, " particles"]:
    """ln of the volume of the ball around each particle that reaches its k-th neighbour."""
    dimension = neighbourhood.dimension
    unit_ball = 0.5 * dimension * jnp.log(jnp.pi) - gammaln(0.5 * dimension + 1)
    return dimension * jnp.log(neighbourhood.radii) + unit_ball
