"""Distributions over actions. A policy gives one of them for each observation."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from alphamepol.policies.memory import ActionRange

EDGE = 1 - 1e-6
"""The limit to which a squashed action, in −1 … 1, is clipped before arctanh, which is infinite at ±1."""


class Normal(eqx.Module):
    """Independent normal distributions of the components of an action."""

    mean: Float[Array, " action"]
    log_std: Float[Array, " action"]

    def sample(self, *, key: PRNGKeyArray) -> Float[Array, " action"]:
        return self.mean + jnp.exp(self.log_std) * jax.random.normal(key, self.log_std.shape)

    def log_prob(self, action: Float[Array, " action"]) -> Float[Array, ""]:
        standardised = (action - self.mean) * jnp.exp(-self.log_std)
        normaliser = jnp.sum(self.log_std) + 0.5 * len(self.log_std) * jnp.log(2 * jnp.pi)
        return -0.5 * jnp.sum(standardised**2) - normaliser

    def kl(self, other: "Normal") -> Float[Array, ""]:
        """Return KL(self ‖ other)."""
        ratio = jnp.exp(2 * (self.log_std - other.log_std))
        distance = ((self.mean - other.mean) * jnp.exp(-other.log_std)) ** 2
        return jnp.sum(other.log_std - self.log_std + 0.5 * (ratio + distance - 1.0))


class Categorical(eqx.Module):
    """A categorical distribution over finitely many actions."""

    logits: Float[Array, " actions"]

    def sample(self, *, key: PRNGKeyArray) -> Int[Array, ""]:
        return jax.random.categorical(key, self.logits)

    def log_prob(self, action: Int[Array, ""]) -> Float[Array, ""]:
        return jax.nn.log_softmax(self.logits)[action]

    def kl(self, other: "Categorical") -> Float[Array, ""]:
        """Return KL(self ‖ other)."""
        log_p, log_q = jax.nn.log_softmax(self.logits), jax.nn.log_softmax(other.logits)
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))


class SquashedNormal(eqx.Module):
    """A normal distribution that tanh squashes to −1 … 1, stretched to the range of actions. No action leaves it."""

    normal: Normal
    actions: ActionRange = eqx.field(static=True)

    def sample(self, *, key: PRNGKeyArray) -> Float[Array, " action"]:
        return self.stretch(jnp.tanh(self.normal.sample(key=key)))

    def sample_within(self, *, key: PRNGKeyArray) -> tuple[Float[Array, " action"], Float[Array, ""]]:
        """Draw an action in units of half its range, from −1 to 1.

        Returns the action, and its log-probability in these units.
        """
        before = self.normal.sample(key=key)
        return jnp.tanh(before), self.normal.log_prob(before) - jnp.sum(_distribution_log_slope(before))

    def stretch(self, within: Float[Array, " action"]) -> Float[Array, " action"]:
        """Map numbers from −1 … 1 to the range of actions."""
        stretched = jnp.array(self.actions.middles) + jnp.array(self.actions.half_ranges) * within
        # By rounding, the sum may be slightly outside the range.
        return jnp.clip(stretched, jnp.array(self.actions.low), jnp.array(self.actions.high))

    def log_prob(self, action: Float[Array, " action"]) -> Float[Array, ""]:
        half_ranges = jnp.array(self.actions.half_ranges)
        within = (action - jnp.array(self.actions.middles)) / half_ranges
        before = jnp.arctanh(jnp.clip(within, -EDGE, EDGE))
        return self.normal.log_prob(before) - jnp.sum(_distribution_log_slope(before) + jnp.log(half_ranges))

    def kl(self, other: "SquashedNormal") -> Float[Array, ""]:
        """Return KL(self ‖ other). Squashing is invertible, so this is the KL of the normal distributions."""
        return self.normal.kl(other.normal)


class Uniform(eqx.Module):
    """A uniform distribution over the range of actions. A component with an infinite range is within −1 … 1."""

    actions: ActionRange = eqx.field(static=True)

    def sample(self, *, key: PRNGKeyArray) -> Float[Array, " action"]:
        within = jax.random.uniform(key, (self.actions.size,), minval=-1.0, maxval=1.0)
        return jnp.array(self.actions.middles) + jnp.array(self.actions.half_ranges) * within

    def log_prob(self, action: Float[Array, " action"]) -> Float[Array, ""]:
        return -jnp.sum(jnp.log(2 * jnp.array(self.actions.half_ranges)))

    def kl(self, other: "Uniform") -> Float[Array, ""]:
        """Return KL(self ‖ other), which is 0, because both have the same range."""
        return jnp.array(0.0)


def _distribution_log_slope(before: Float[Array, " action"]) -> Float[Array, " action"]:
    """Return ln(1 − tanh²(before)). The formula stays accurate where tanh rounds to ±1."""
    return 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))


Distribution = Normal | SquashedNormal | Categorical | Uniform
