"""Distributions over actions: what a policy gives for an observation."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Normal(eqx.Module):
    """Independent normal distributions of the action's components."""

    mean: Float[Array, " action"]
    log_std: Float[Array, " action"]

    def sample(self, *, key: PRNGKeyArray) -> Float[Array, " action"]:
        return self.mean + jnp.exp(self.log_std) * jax.random.normal(key, self.log_std.shape)

    def log_prob(self, action: Float[Array, " action"]) -> Float[Array, ""]:
        standardised = (action - self.mean) * jnp.exp(-self.log_std)
        normaliser = jnp.sum(self.log_std) + 0.5 * len(self.log_std) * jnp.log(2 * jnp.pi)
        return -0.5 * jnp.sum(standardised**2) - normaliser

    def kl(self, other: "Normal") -> Float[Array, ""]:
        """KL(self ‖ other)."""
        ratio = jnp.exp(2 * (self.log_std - other.log_std))
        distance = ((self.mean - other.mean) * jnp.exp(-other.log_std)) ** 2
        return jnp.sum(other.log_std - self.log_std + 0.5 * (ratio + distance - 1.0))


class Categorical(eqx.Module):
    """One of finitely many actions."""

    logits: Float[Array, " actions"]

    def sample(self, *, key: PRNGKeyArray) -> Int[Array, ""]:
        return jax.random.categorical(key, self.logits)

    def log_prob(self, action: Int[Array, ""]) -> Float[Array, ""]:
        return jax.nn.log_softmax(self.logits)[action]

    def kl(self, other: "Categorical") -> Float[Array, ""]:
        """KL(self ‖ other)."""
        log_p, log_q = jax.nn.log_softmax(self.logits), jax.nn.log_softmax(other.logits)
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))


Distribution = Normal | Categorical
