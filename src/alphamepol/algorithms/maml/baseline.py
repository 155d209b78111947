"""The linear feature baseline: returns expected of what is perceived and of the time, fitted to those that came."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from alphamepol.compute.orthonormal import orthonormal


def maml_linear_baseline(
    perceived: Shaped[Array, "trajectories time inputs"],
    returns: Float[Array, "trajectories time"],
    valid: Bool[Array, "trajectories time"],
) -> Float[Array, "trajectories time"]:
    """(A1): the least-squares fit by what is perceived, its squares, the time to the third power, and a constant."""
    perceived = perceived.astype(returns.dtype)
    # Around its mean, which changes nothing but rounding.
    perceived -= jnp.nan_to_num(jnp.mean(perceived, axis=(0, 1), where=valid[..., None]))
    time = jnp.broadcast_to(jnp.arange(returns.shape[1])[:, None] / 100, (*returns.shape, 1))
    features = jnp.concatenate([jnp.ones_like(time), perceived, perceived**2, time, time**2, time**3], axis=-1)
    features = jnp.where(valid[..., None], features, 0.0).reshape(-1, features.shape[-1])
    return project_for_maml_baseline(features, jnp.where(valid, returns, 0.0).ravel()).reshape(returns.shape)


def project_for_maml_baseline(
    columns: Float[Array, "rows columns"], target: Float[Array, " rows"]
) -> Float[Array, " rows"]:
    """What of the target lies in the span of the columns. Some of them may depend on others.

    Through orthonormal columns, not normal equations: those of powers of the time are beyond float32.
    """
    with jax.default_matmul_precision("highest"):
        basis = orthonormal(columns)
        return basis @ (basis.T @ target)
