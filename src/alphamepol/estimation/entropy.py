"""The estimators of entropy and KL divergence from nearest neighbours, (E3)–(E6)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln, logsumexp
from jaxtyping import Array, Float, Shaped

from alphamepol.compute.devices import share_among_devices
from alphamepol.errors import InputError
from alphamepol.estimation.knn import Neighbourhood, nearest_neighbours

SMALL_MASSES_AT_ONCE = 512
"""The number of particles for which `log_masses_for_kl` computes ln W_t at once."""


def knn_entropy(points: Shaped[Array | np.ndarray, "particles dimension"], k: int) -> Float[Array, ""]:
    """Estimate the differential entropy of the distribution that the points were drawn from (E3).

    The estimate is −∞ if more than `k` points coincide.

    **Arguments**

    - `points`: the particles, of shape (particles, dimension).
    - `k`: the number of neighbours; at least 1 and less than the number of particles.

    **Returns**

    The entropy in nats, a scalar.

    **Raises**

    - `InputError`: if `k` is out of its range, if `points` has fewer than two axes, or if it holds NaN or infinity.

    **Example**

    ```python
    import alphamepol as am
    import numpy as np

    points = np.random.default_rng(0).normal(size=(1000, 2))
    print(am.knn_entropy(points, k=10))  # about 2.83; the exact entropy is ln(2πe) = 2.84
    ```
    """
    return particle_entropy(nearest_neighbours(points, k))


def importance_weighted_entropy(
    points: Shaped[Array | np.ndarray, "particles dimension"],
    log_weights: Float[Array | np.ndarray, " particles"],
    k: int,
) -> Float[Array, ""]:
    """Estimate the entropy of another distribution than the one that the points were drawn from (E5).

    Importance weights lead from the old distribution, which the points were drawn from, to the new one. With equal
    weights the estimate is that of `knn_entropy`.

    **Arguments**

    - `points`: the particles, of shape (particles, dimension).
    - `log_weights`: ln ŵ (E4) of each particle, of shape (particles,). The weight ŵ is the probability under the new
      distribution divided by the probability under the old one. A factor common to all weights does not matter.
    - `k`: the number of neighbours; at least 1 and less than the number of particles.

    **Returns**

    The entropy in nats, a scalar. It can be differentiated with respect to `log_weights`.

    **Raises**

    - `InputError`: if `k` is out of its range, if `points` has fewer than two axes, or if `points` or `log_weights`
      hold NaN or infinity. A weight of 0 may be given as −infinity.

    **Example**

    ```python
    import alphamepol as am
    import numpy as np

    # The points are drawn with standard deviation 1; the new distribution has standard deviation 0.5.
    points = np.random.default_rng(0).normal(size=(2000, 1))
    log_weights = np.log(2) - 1.5 * points[:, 0] ** 2
    print(am.importance_weighted_entropy(points, log_weights, k=30))  # about 0.72; the exact entropy is 0.73
    ```
    """
    return weighted_entropy(nearest_neighbours(points, k), _largest_log_weight_at_zero(log_weights))


def knn_kl(
    points: Shaped[Array | np.ndarray, "*sets particles dimension"],
    log_weights: Float[Array | np.ndarray, "*sets particles"],
    k: int,
) -> Float[Array, ""]:
    """Estimate the KL divergence from the distribution of the points to the re-weighted distribution (E6).

    Several sets of points count as one sample. The neighbours of a point are taken from its own set.

    **Arguments**

    - `points`: the particles, of shape (particles, dimension); axes for several sets may stand in front.
    - `log_weights`: ln ŵ (E4) of each particle, of shape (particles,) with the same axes in front. The weight ŵ is
      the probability under the new distribution divided by the probability under the old one.
    - `k`: the number of neighbours; at least 1 and less than the number of particles of a set.

    **Returns**

    The divergence in nats, a scalar that is never below 0. It is right for weights of any size. It is infinite if all
    neighbours of a particle have a weight of 0.

    **Raises**

    - `InputError`: if `k` is out of its range, or if `points` or `log_weights` hold NaN or infinity. A weight of 0 may
      be given as −infinity.

    **Example**

    ```python
    import alphamepol as am
    import numpy as np

    # The points are drawn from a normal distribution with mean 0; the new distribution has mean 0.5.
    points = np.random.default_rng(0).normal(size=(2000, 1))
    log_weights = 0.5 * points[:, 0] - 0.125
    print(am.knn_kl(points, log_weights, k=30))  # about 0.123; the exact divergence is 0.125
    ```
    """
    points = points if isinstance(points, Array) else np.asarray(points)
    particles, dimension = points.shape[-2:]
    neighbourhood = nearest_neighbours(points.reshape(-1, particles, dimension), k)
    log_weights = _largest_log_weight_at_zero(log_weights).reshape(-1, particles)
    return kl_of_masses(neighbourhood, log_weights, jax.vmap(neighbour_masses_for_entropy)(neighbourhood, log_weights))


def _largest_log_weight_at_zero(log_weights: Float[Array | np.ndarray, "*sets particles"]) -> Float[Array, "..."]:
    """Return ln ŵ as an array of JAX. A common constant does not matter, so it is removed before float64 is rounded."""
    if isinstance(log_weights, Array):
        return log_weights
    given = np.asarray(log_weights, np.float64)
    if np.any(np.isnan(given) | (given == np.inf)):
        raise InputError("log_weights: they hold NaN or +infinity; they must be finite, or −infinity for a weight of 0")
    if np.any(np.all(np.isinf(given), axis=-1)):
        raise InputError("log_weights: all are −infinity; at least one weight must be above 0")
    return jnp.asarray(given - given.max())


def particle_entropy(neighbourhood: Neighbourhood) -> Float[Array, ""]:
    """Return the entropy (E3) of one particle set.

    The terms ln k of (E3) cancel, which leaves mean ln V + ln n − ψ(k).
    """
    count = jnp.sum(neighbourhood.valid)
    mean_log_volume = jnp.sum(jnp.where(neighbourhood.valid, log_volumes_for_entropy(neighbourhood), 0.0)) / count
    return mean_log_volume + jnp.log(count) - digamma(jnp.asarray(neighbourhood.k, mean_log_volume.dtype))


def weighted_entropy(neighbourhood: Neighbourhood, log_weights: Float[Array, " particles"]) -> Float[Array, ""]:
    """Return the entropy (E5) of one particle set; `log_weights` are ln ŵ of its particles."""
    return entropy_of_masses(neighbourhood, neighbour_masses_for_entropy(neighbourhood, log_weights))


def entropy_of_masses(neighbourhood: Neighbourhood, masses: Float[Array, " particles"]) -> Float[Array, ""]:
    """Return the entropy (E5) of one particle set; `masses` are W_t of its particles."""
    k = jnp.asarray(neighbourhood.k, masses.dtype)
    terms = masses / k * (jnp.log(masses) - log_volumes_for_entropy(neighbourhood))
    return -jnp.sum(jnp.where(neighbourhood.valid, terms, 0.0)) + jnp.log(k) - digamma(k)


def kl_of_masses(
    neighbourhood: Neighbourhood, log_weights: Float[Array, "sets particles"], masses: Float[Array, "sets particles"]
) -> Float[Array, ""]:
    """Return the KL divergence (E6) over stacked particle sets.

    `log_weights` are ln ŵ, −∞ for invalid particles; `masses` are W_t. U_t is W_t times the share of the particle's
    set in the total weight of the epoch. One sum over neighbours therefore serves both (E5) and (E6).
    """
    count = jnp.sum(neighbourhood.valid)
    log_shares = logsumexp(log_weights, axis=-1, keepdims=True) - logsumexp(log_weights)
    log_masses = share_among_devices(
        lambda _, *some: log_masses_for_kl(*some), None, neighbourhood, log_weights, masses
    )
    mean_log_mass = jnp.sum(jnp.where(neighbourhood.valid, log_masses + log_shares, 0.0)) / count
    return jnp.maximum(jnp.log(neighbourhood.k / count) - mean_log_mass, 0.0)


def neighbour_masses_for_entropy(
    neighbourhood: Neighbourhood, log_weights: Float[Array, " particles"]
) -> Float[Array, " particles"]:
    """Return W_t of (E5): the sum of the normalised weights of each particle's neighbours; 1 for invalid particles."""
    weights = jax.nn.softmax(jnp.where(neighbourhood.valid, log_weights, -jnp.inf))
    masses = neighbourhood.sums(weights)
    # A weight can underflow to 0. The floor keeps the logarithm in (E5) and its gradient finite. It changes no
    # entropy, because (E5) multiplies the logarithm by W_t. (E6) does not; `log_masses_for_kl` serves it.
    floor = jnp.finfo(masses.dtype).tiny
    return jnp.where(neighbourhood.valid, jnp.maximum(masses, floor), 1.0)


def log_masses_for_kl(
    neighbourhood: Neighbourhood, log_weights: Float[Array, "sets particles"], masses: Float[Array, "sets particles"]
) -> Float[Array, "sets particles"]:
    """Return ln W_t of (E6) over stacked particle sets, also where W_t is too small for a number of its type.

    Weights below 2⁻¹²⁶ (in float32) count as 0 in `masses`. Even a thousand of them change a mass of 2⁻⁹⁶ or more by
    less than a millionth. For smaller masses, ln W_t is computed again from ln ŵ of the neighbours. It then has no
    gradient.
    """
    small = masses < jnp.finfo(masses.dtype).tiny * 2.0**30
    log_weights, frozen = jax.lax.stop_gradient((log_weights, masses))
    log_weights = jnp.where(neighbourhood.valid, log_weights, -jnp.inf)
    log_weights -= logsumexp(log_weights, axis=-1, keepdims=True)
    particles = masses.shape[-1]

    def compute_some(state):
        """Compute ln W_t of the next particles of the first set in which some are missing."""
        counts, missing, log_masses = state
        first = jnp.argmax(counts > 0)
        some = jnp.nonzero(missing[first], size=SMALL_MASSES_AT_ONCE, fill_value=particles)[0]
        if neighbourhood.indices is not None:
            terms = log_weights[first][neighbourhood.indices[first, some]]
        else:
            assert neighbourhood.among is not None
            terms = jnp.where(neighbourhood.among[first, some], log_weights[first], -jnp.inf)
        return (
            counts.at[first].add(-SMALL_MASSES_AT_ONCE),
            missing.at[first, some].set(False, mode="drop"),
            log_masses.at[first, some].set(logsumexp(terms, axis=-1), mode="drop"),
        )

    # Usually no mass is small, and the loop costs nothing. `jax.lax.cond` would compute both cases if it were mapped.
    start = jnp.sum(small, axis=-1), small, jnp.log(frozen)
    *_, log_masses = jax.lax.while_loop(lambda state: jnp.any(state[0] > 0), compute_some, start)
    return jnp.where(small, log_masses, jnp.log(masses))


def log_volumes_for_entropy(neighbourhood: Neighbourhood) -> Float[Array, " particles"]:
    """Return ln of the volume of the ball around each particle that reaches to its k-th neighbour."""
    dimension = neighbourhood.dimension
    unit_ball = 0.5 * dimension * jnp.log(jnp.pi) - gammaln(0.5 * dimension + 1)
    return dimension * jnp.log(neighbourhood.radii) + unit_ball
