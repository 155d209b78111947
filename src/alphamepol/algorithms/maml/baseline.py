"""The linear feature baseline, which predicts returns from what the policy perceives and from the time."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from alphamepol.compute.orthonormal import orthonormal


def maml_linear_baseline(
    perceived: Shaped[Array, "trajectories time inputs"],
    returns: Float[Array, "trajectories time"],
    valid: Bool[Array, "trajectories time"],
) -> Float[Array, "trajectories time"]:
    """Predict the return of every step with the baseline (A1).

    The baseline is the least-squares fit of the returns. Its features are what the policy perceives, the squares of
    these numbers, the time, its square and its cube, and a constant.
    """
    perceived = perceived.astype(returns.dtype)
    # Subtracting the mean changes nothing but the rounding of the fit.
    perceived -= jnp.nan_to_num(jnp.mean(perceived, axis=(0, 1), where=valid[..., None]))
    time = jnp.broadcast_to(jnp.arange(returns.shape[1])[:, None] / 100, (*returns.shape, 1))
    features = jnp.concatenate([jnp.ones_like(time), perceived, perceived**2, time, time**2, time**3], axis=-1)
    features = jnp.where(valid[..., None], features, 0.0).reshape(-1, features.shape[-1])
    return project_for_maml_baseline(features, jnp.where(valid, returns, 0.0).ravel()).reshape(returns.shape)


def project_for_maml_baseline(
    columns: Float[Array, "rows columns"], target: Float[Array, " rows"]
) -> Float[Array, " rows"]:
    """Return the projection of the target onto the span of the columns, which may be linearly dependent.

    The projection uses orthonormal columns. The normal equations for powers of the time are too ill-conditioned for
    float32.
    """
    with jax.default_matmul_precision("highest"):
        basis = orthonormal(columns)
        return basis @ (basis.T @ target)
