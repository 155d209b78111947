"""Policies, and the files that hold them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from alphamepol.errors import InputError
from alphamepol.files import fill, pack, unpack, write_atomically

FORMAT = "alphamepol-policy-1"


class GaussianPolicy(eqx.Module):
    """A normal distribution over actions: its mean a ReLU network of the observation, its σ one number per component.

    All methods work on one observation; use `jax.vmap` for many.
    """

    layers: tuple[eqx.nn.Linear, ...]
    log_std: Float[Array, " action"]

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int] = (300, 300),
        initial_log_std: float = -1.5,
        *,
        key: PRNGKeyArray,
    ):
        """Xavier-uniform weights; biases uniform in ±1/√inputs.

        The biases matter: were they zero, every unit of the first layer would bend at the origin, and a policy could
        hardly do one thing in one room and another in the next.
        """
        sizes = [observation_size, *hidden, action_size]
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            _linear(inputs, outputs, key=layer_key)
            for inputs, outputs, layer_key in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.log_std = jnp.zeros(action_size) + initial_log_std

    def mean(self, observation: Float[Array | np.ndarray, " observation"]) -> Float[Array, " action"]:
        """The deterministic action."""
        hidden = jnp.asarray(observation)
        for layer in self.layers[:-1]:
            hidden = jax.nn.relu(layer(hidden))
        return self.layers[-1](hidden)

    def sample(self, observation: Float[Array, " observation"], *, key: PRNGKeyArray) -> Float[Array, " action"]:
        """Draw an action."""
        return self.mean(observation) + jnp.exp(self.log_std) * jax.random.normal(key, self.log_std.shape)

    def log_prob(self, observation: Float[Array, " observation"], action: Float[Array, " action"]) -> Float[Array, ""]:
        """ln π(action | observation), of the action before the environment clips it."""
        standardised = (action - self.mean(observation)) * jnp.exp(-self.log_std)
        normaliser = jnp.sum(self.log_std) + 0.5 * len(self.log_std) * jnp.log(2 * jnp.pi)
        return -0.5 * jnp.sum(standardised**2) - normaliser

    def trajectory_log_prob(
        self, observations: Float[Array, "time observation"], actions: Float[Array, "time action"]
    ) -> Float[Array, " time"]:
        """ln π of each action of one trajectory."""
        return jax.vmap(self.log_prob)(observations, actions)

    @property
    def architecture(self) -> dict[str, Any]:
        """What is needed to build a policy of this shape again."""
        return {
            "kind": "gaussian",
            "observation_size": self.layers[0].in_features,
            "action_size": self.layers[-1].out_features,
            "hidden": [layer.out_features for layer in self.layers[:-1]],
        }


def regress_mean(
    policy: GaussianPolicy,
    target: Float[Array, " action"],
    low: Float[Array, " observation"],
    high: Float[Array, " observation"],
    *,
    key: PRNGKeyArray,
) -> GaussianPolicy:
    """Fit the mean to a constant action: 50 Adam steps of 2.5e-4 on 5000 uniform observations each.

    So every run starts from the same, badly exploring policy (docs/method.md, "The start").
    """
    optimiser = optax.adam(2.5e-4)

    def loss(policy: GaussianPolicy, observations: Float[Array, "samples observation"]) -> Float[Array, ""]:
        return jnp.mean((jax.vmap(policy.mean)(observations) - target) ** 2)

    def fit(carry, step_key):
        policy, moments = carry
        observations = jax.random.uniform(step_key, (5000, low.size), minval=low, maxval=high)
        updates, moments = optimiser.update(jax.grad(loss)(policy, observations), moments)
        return (eqx.apply_updates(policy, updates), moments), None

    start = policy, optimiser.init(policy)  # pyright: ignore[reportArgumentType] (Optax does not know modules)
    (policy, _), _ = jax.lax.scan(fit, start, jax.random.split(key, 50))
    return policy


def save_policy(policy: GaussianPolicy, path: str | Path) -> None:
    """Write a policy as safetensors, its architecture in the metadata; equal policies give equal files."""
    write_atomically(Path(path), pack(policy, {"format": FORMAT, "architecture": policy.architecture}))


def load_policy(path: str | Path) -> GaussianPolicy:
    """Read a policy that `save_policy` or a run wrote; nothing but the file is needed."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"policy: there is no file {path}")
    try:
        header, arrays = unpack(path)
        if header.get("format") != FORMAT:
            raise ValueError("it holds something else")
        return fill(_template(**header["architecture"]), arrays)
    except (KeyError, TypeError, ValueError, ArithmeticError, OSError) as error:
        raise InputError(f"policy: {path} cannot be read as a policy ({error})") from error


def _template(kind: str, observation_size: int, action_size: int, hidden: Sequence[int]) -> GaussianPolicy:
    """The shapes of a policy, nothing allocated."""
    if kind != "gaussian":
        raise ValueError(f"its kind is {kind!r}, only 'gaussian' is known")
    return eqx.filter_eval_shape(lambda: GaussianPolicy(observation_size, action_size, hidden, key=jax.random.key(0)))


def _linear(inputs: int, outputs: int, *, key: PRNGKeyArray) -> eqx.nn.Linear:
    weight_key, layer_key = jax.random.split(key)
    bound = (6 / (inputs + outputs)) ** 0.5
    weight = jax.random.uniform(weight_key, (outputs, inputs), minval=-bound, maxval=bound)
    return eqx.tree_at(lambda layer: layer.weight, eqx.nn.Linear(inputs, outputs, key=layer_key), weight)
