"""Policies, and the files that hold them."""

import zipfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from alphamepol.distributions import Categorical, Distribution, Normal
from alphamepol.errors import InputError
from alphamepol.files import fill, pack, unpack, write_atomically

FORMAT = "alphamepol-policy-1"


class Policy(eqx.Module):
    """What acts: a distribution over actions for one observation; use `jax.vmap` for many."""

    layers: eqx.AbstractVar[tuple[eqx.nn.Linear, ...]]
    """The network from the observation to what `head` takes."""

    @abstractmethod
    def head(self, outputs: Float[Array, " outputs"]) -> Distribution:
        """The distribution that outputs of the network stand for."""

    @abstractmethod
    def distribution(self, observation: Float[Array | np.ndarray, " observation"]) -> Distribution:
        """The distribution that the action is drawn from."""

    @abstractmethod
    def sample(self, observation: Float[Array, " observation"], *, key: PRNGKeyArray) -> Shaped[Array, "..."]:
        """Draw an action."""

    @abstractmethod
    def log_prob(self, observation: Float[Array, " observation"], action: Shaped[Array, "..."]) -> Float[Array, ""]:
        """ln π(action | observation), of the action before the environment clips it."""

    @property
    @abstractmethod
    def architecture(self) -> dict[str, Any]:
        """What is needed to build a policy of this shape again."""


class GaussianPolicy(Policy):
    """A normal distribution: its mean a ReLU network of the observation, its σ one number per action component."""

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
        self.layers = xavier_layers([observation_size, *hidden, action_size], key=key)
        self.log_std = jnp.zeros(action_size) + initial_log_std

    def mean(self, observation: Float[Array | np.ndarray, " observation"]) -> Float[Array, " action"]:
        """The deterministic action."""
        return feed_forward(self.layers, jnp.asarray(observation))

    def head(self, outputs: Float[Array, " action"]) -> Normal:
        return Normal(outputs, self.log_std)

    def distribution(self, observation: Float[Array | np.ndarray, " observation"]) -> Normal:
        return self.head(self.mean(observation))

    def sample(self, observation: Float[Array, " observation"], *, key: PRNGKeyArray) -> Float[Array, " action"]:
        return self.distribution(observation).sample(key=key)

    def log_prob(self, observation: Float[Array, " observation"], action: Float[Array, " action"]) -> Float[Array, ""]:
        return self.distribution(observation).log_prob(action)

    @property
    def architecture(self) -> dict[str, Any]:
        return {"kind": "gaussian"} | _sizes(self.layers)


class CategoricalPolicy(Policy):
    """A choice among finitely many actions: its logits a ReLU network of the observation."""

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, observation_size: int, actions: int, hidden: Sequence[int] = (300, 300), *, key: PRNGKeyArray):
        self.layers = xavier_layers([observation_size, *hidden, actions], key=key)

    def head(self, outputs: Float[Array, " actions"]) -> Categorical:
        return Categorical(outputs)

    def distribution(self, observation: Float[Array | np.ndarray, " observation"]) -> Categorical:
        return self.head(feed_forward(self.layers, jnp.asarray(observation)))

    def sample(self, observation: Float[Array, " observation"], *, key: PRNGKeyArray) -> Int[Array, ""]:
        return self.distribution(observation).sample(key=key)

    def log_prob(self, observation: Float[Array, " observation"], action: Int[Array, ""]) -> Float[Array, ""]:
        return self.distribution(observation).log_prob(action)

    @property
    def architecture(self) -> dict[str, Any]:
        return {"kind": "categorical"} | _sizes(self.layers)


class PolicyShape(NamedTuple):
    """What the spaces of a class ask of a policy."""

    kind: str
    observation_size: int
    action_size: int

    @classmethod
    def of_spaces(cls, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> "PolicyShape":
        """Gaussian for vectors of actions, categorical for a finite choice."""
        if not isinstance(observation_space, gymnasium.spaces.Box) or len(observation_space.shape) != 1:
            raise InputError(f"observation_space: {observation_space} is not possible, only vectors (Box)")
        (inputs,) = observation_space.shape
        if isinstance(action_space, gymnasium.spaces.Discrete) and action_space.start == 0:
            return cls("categorical", inputs, int(action_space.n))
        if isinstance(action_space, gymnasium.spaces.Box) and len(action_space.shape) == 1:
            return cls("gaussian", inputs, action_space.shape[0])
        raise InputError(f"action_space: {action_space} is not possible, only vectors (Box) and Discrete from 0 on")


def fresh_policy(shape: PolicyShape, hidden: Sequence[int], initial_log_std: float, *, key: PRNGKeyArray) -> Policy:
    """An untrained policy."""
    if shape.kind == "categorical":
        return CategoricalPolicy(shape.observation_size, shape.action_size, hidden, key=key)
    return GaussianPolicy(shape.observation_size, shape.action_size, hidden, initial_log_std, key=key)


def feed_forward(layers: Sequence[eqx.nn.Linear], inputs: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
    """A network with ReLU between its layers."""
    for layer in layers[:-1]:
        inputs = jax.nn.relu(layer(inputs))
    return layers[-1](inputs)


def xavier_layers(sizes: Sequence[int], *, key: PRNGKeyArray) -> tuple[eqx.nn.Linear, ...]:
    """Layers of these widths, input first: Xavier-uniform weights, biases uniform in ±1/√inputs."""

    def layer(inputs: int, outputs: int, key: PRNGKeyArray) -> eqx.nn.Linear:
        weight_key, layer_key = jax.random.split(key)
        bound = (6 / (inputs + outputs)) ** 0.5
        weight = jax.random.uniform(weight_key, (outputs, inputs), minval=-bound, maxval=bound)
        return eqx.tree_at(lambda layer: layer.weight, eqx.nn.Linear(inputs, outputs, key=layer_key), weight)

    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(layer(*widths, key) for widths, key in zip(pairwise(sizes), keys, strict=True))


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


def save_policy(policy: Policy, path: str | Path) -> None:
    """Write a policy as safetensors, its architecture in the metadata; equal policies give equal files."""
    write_atomically(Path(path), pack(policy, {"format": FORMAT, "architecture": policy.architecture}))


def load_policy(path: str | Path) -> Policy:
    """Read a policy that `save_policy`, a run or `export` wrote; the file is all it takes, and nothing in it runs."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"policy: there is no file {path}")
    try:
        if zipfile.is_zipfile(path):
            from alphamepol.sb3 import read_sb3_zip

            return read_sb3_zip(path)
        header, arrays = unpack(path)
        if header.get("format") != FORMAT:
            raise ValueError("it holds something else")
        return fill(_template(**header["architecture"]), arrays)
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, OSError, AttributeError) as error:
        raise InputError(f"policy: {path} cannot be read as a policy ({error})") from error


def _template(kind: str, observation_size: int, action_size: int, hidden: Sequence[int]) -> Policy:
    """The shapes of a policy, nothing allocated."""
    kinds: dict[str, Callable[..., Policy]] = {"gaussian": GaussianPolicy, "categorical": CategoricalPolicy}
    if kind not in kinds:
        raise ValueError(f"its kind is {kind!r}, only {' and '.join(kinds)} are known")
    return eqx.filter_eval_shape(lambda: kinds[kind](observation_size, action_size, hidden, key=jax.random.key(0)))


def _sizes(layers: Sequence[eqx.nn.Linear]) -> dict[str, Any]:
    return {
        "observation_size": layers[0].in_features,
        "action_size": layers[-1].out_features,
        "hidden": [layer.out_features for layer in layers[:-1]],
    }
