"""Policies."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from alphamepol.distributions import Categorical, Distribution, Normal, SquashedNormal
from alphamepol.errors import InputError
from alphamepol.images import Shape, Trunk, image_shape
from alphamepol.mapping import stack
from alphamepol.memory import ActionRange, Memory, Recollection
from alphamepol.networks import feed_forward, feed_rows, run_network, see, xavier_layers
from alphamepol.scaling import Scaling

MEMORY_KEY, TRUNK_KEY = 1 << 30, (1 << 30) + 1
"""Far from the keys of the layers, which `split` makes as `fold_in` of small numbers does."""
LOG_STD_RANGE = -5.0, 2.0
"""Of what is squashed: wider, and it is at the ends of the range only; narrower is as good as none."""


class Policy(eqx.Module):
    """What acts: a distribution over actions for an observation and what is remembered of the steps before.

    Its methods are of one step; use `jax.vmap` for many. Acting along an episode:

        recollection = policy.begin()
        for …:
            action, recollection = policy.act(observation, recollection, key=key)
    """

    layers: eqx.AbstractVar[tuple[eqx.nn.Linear, ...]]
    """The network from what is perceived, and the hidden values of a recurrent memory, to what `head` takes."""
    memory: eqx.AbstractVar[Memory | None]
    scaling: eqx.AbstractVar[Scaling | None]
    trunk: eqx.AbstractVar[Trunk | None]
    """What sees observations that are images, before `layers`."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """What files and sentences call it."""

    @property
    @abstractmethod
    def action_size(self) -> int:
        """How many numbers an action has, or how many choices there are."""

    @abstractmethod
    def head(self, outputs: Float[Array, " outputs"]) -> Distribution:
        """The distribution that outputs of the network stand for."""

    def begin(self) -> Recollection | None:
        """What is remembered before the first step of an episode; None without memory."""
        return None if self.memory is None else self.memory.begin()

    def perceive(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Shaped[Array, " inputs"]:
        """The scaled observation as a vector, and what memory adds; without a recollection, at the first step of an
        episode."""
        observation = self._scaled(observation)
        if self.memory is None:
            return jnp.asarray(observation)
        return self.memory.perceive(observation, self.memory.begin() if recollection is None else recollection)

    def distribution(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Distribution:
        """The distribution that the action is drawn from; without a recollection, at the first step of an episode."""
        return self.head(self._run(observation, recollection)[0])

    def act(
        self,
        observation: Shaped[Array | np.ndarray, "..."],
        recollection: Recollection | None = None,
        *,
        key: PRNGKeyArray,
    ) -> tuple[Shaped[Array, "..."], Recollection | None]:
        """Draw an action; returns what is remembered after it, too."""
        outputs, hidden = self._run(observation, recollection)
        action = self.head(outputs).sample(key=key)
        return action, self.memory and self.memory.remember(self._scaled(observation), action, hidden)

    def network(self, inputs: Shaped[Array, " network_inputs"]) -> Float[Array, " outputs"]:
        """What `head` takes, from what is perceived and the hidden values of a recurrent memory."""
        return run_network(self.trunk, self.layers, inputs, jnp.tanh)

    def network_of_rows(self, rows: Shaped[Array, "rows network_inputs"]) -> Float[Array, "rows outputs"]:
        """`network` of many rows, as products of matrices."""
        if self.trunk is None:
            return feed_rows(self.layers, rows)
        return feed_rows(self.layers, jax.vmap(lambda row: see(self.trunk, row))(rows), jnp.tanh)

    def network_inputs(
        self, perceived: Shaped[Array, "time inputs"], starts: Bool[Array, " time"] | None = None
    ) -> Shaped[Array, "time network_inputs"]:
        """What `network` takes at every step of a trajectory, from what was perceived; `starts`: where episodes are."""
        if self.memory is None or self.memory.recurrence is None:
            return perceived
        return jnp.concatenate([perceived, self.memory.listen_along(perceived, starts)], axis=-1)

    @property
    def observation_size(self) -> int:
        """How many numbers an observation has."""
        if self.trunk is not None:
            return self.trunk.pixels
        return self.layers[0].weight.shape[-1] if self.memory is None else self.memory.change_scale.shape[-1]

    @property
    def perceived_size(self) -> int:
        """How many numbers `perceive` gives."""
        return self.observation_size if self.memory is None else self.memory.inputs

    @property
    def architecture(self) -> dict[str, Any]:
        """What is needed to build a policy of this shape again."""
        memory = self.memory and {
            "actions": self.memory.actions.describe(),
            "recurrent_units": self.memory.units,
        }
        scaling = self.scaling and {
            "actions": self.scaling.actions.describe(),
            "features": self.scaling.particle_deviation.shape[-1],
        }
        actions = self.actions.describe() if isinstance(self, SquashedPolicy) else None
        image = self.trunk and list(self.trunk.shape)
        more = {"memory": memory, "scaling": scaling, "image": image, "actions": actions}
        return {
            "kind": self.kind,
            "observation_size": self.observation_size,
            "action_size": self.action_size,
            "hidden": [layer.out_features for layer in self.layers[:-1]],
        } | {name: part for name, part in more.items() if part}

    def _scaled(self, observation: Shaped[Array | np.ndarray, "..."]) -> Shaped[Array | np.ndarray, " observation"]:
        observation = jnp.asarray(observation)
        if self.trunk is not None and observation.shape not in (self.trunk.shape, (self.trunk.pixels,)):
            raise ValueError(
                f"observation: its shape is {observation.shape}; this policy sees images {self.trunk.shape}"
            )
        return observation.ravel() if self.scaling is None else self.scaling.observation(observation.ravel())

    def _run(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None
    ) -> tuple[Float[Array, " outputs"], Float[Array, " units"]]:
        """The outputs of the network, and the hidden values of the memory."""
        recollection = self.begin() if recollection is None else recollection
        perceived = self.perceive(observation, recollection)
        hidden = self.memory.listen(perceived, recollection.hidden) if self.memory and recollection else jnp.zeros(0)
        return self.network(jnp.concatenate([perceived, hidden])), hidden


class GaussianPolicy(Policy):
    """A normal distribution: its mean a network of what is perceived, its σ one number per action component."""

    layers: tuple[eqx.nn.Linear, ...]
    log_std: Float[Array, " action"]
    memory: Memory | None
    scaling: Scaling | None
    trunk: Trunk | None

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int] = (300, 300),
        initial_log_std: float = -1.5,
        memory: Memory | None = None,
        scaling: Scaling | None = None,
        trunk: Trunk | None = None,
        *,
        key: PRNGKeyArray,
    ):
        """Xavier-uniform weights; biases uniform in ±1/√inputs.

        The biases matter: were they zero, every unit of the first layer would bend at the origin, and a policy could
        hardly do one thing in one room and another in the next.
        """
        self.layers = xavier_layers([_input_size(observation_size, memory, trunk), *hidden, action_size], key=key)
        self.log_std = jnp.zeros(action_size) + initial_log_std
        self.memory = memory
        self.scaling = scaling
        self.trunk = trunk

    @property
    def kind(self) -> str:
        return "gaussian"

    @property
    def action_size(self) -> int:
        return self.layers[-1].weight.shape[-2]

    def head(self, outputs: Float[Array, " action"]) -> Normal:
        if self.scaling is None:
            return Normal(outputs, self.log_std)
        middle, half = (jnp.array(part) for part in (self.scaling.actions.middles, self.scaling.actions.half_ranges))
        return Normal(middle + half * outputs, self.log_std + jnp.log(half))

    def mean(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Float[Array, " action"]:
        """The deterministic action; without a recollection, at the first step of an episode."""
        return self.head(self._run(observation, recollection)[0]).mean


class SquashedPolicy(Policy):
    """A normal distribution squashed into the range of actions, both its mean and its σ by a network: SAC's policy."""

    layers: tuple[eqx.nn.Linear, ...]
    memory: Memory | None
    scaling: Scaling | None
    trunk: Trunk | None
    actions: ActionRange = eqx.field(static=True)

    def __init__(
        self,
        observation_size: int,
        actions: ActionRange,
        hidden: Sequence[int] = (300, 300),
        trunk: Trunk | None = None,
        *,
        key: PRNGKeyArray,
    ):
        self.layers = xavier_layers([_input_size(observation_size, None, trunk), *hidden, 2 * actions.size], key=key)
        self.memory, self.scaling = None, None
        self.trunk = trunk
        self.actions = actions

    @property
    def kind(self) -> str:
        return "squashed"

    @property
    def action_size(self) -> int:
        return self.actions.size

    def head(self, outputs: Float[Array, " twice_action"]) -> SquashedNormal:
        mean, spread = jnp.split(outputs, 2)
        lowest, highest = LOG_STD_RANGE
        log_std = lowest + (highest - lowest) * (jnp.tanh(spread) + 1) / 2
        return SquashedNormal(Normal(mean, log_std), self.actions)


class CategoricalPolicy(Policy):
    """A choice among finitely many actions: its logits a network of what is perceived."""

    layers: tuple[eqx.nn.Linear, ...]
    memory: Memory | None
    scaling: Scaling | None
    trunk: Trunk | None

    def __init__(
        self,
        observation_size: int,
        actions: int,
        hidden: Sequence[int] = (300, 300),
        memory: Memory | None = None,
        scaling: Scaling | None = None,
        trunk: Trunk | None = None,
        *,
        key: PRNGKeyArray,
    ):
        self.layers = xavier_layers([_input_size(observation_size, memory, trunk), *hidden, actions], key=key)
        self.memory = memory
        self.scaling = scaling
        self.trunk = trunk

    @property
    def kind(self) -> str:
        return "categorical"

    @property
    def action_size(self) -> int:
        return self.layers[-1].weight.shape[-2]

    def head(self, outputs: Float[Array, " actions"]) -> Categorical:
        return Categorical(outputs)


class PolicyShape(NamedTuple):
    """What the spaces of a class ask of a policy."""

    kind: str
    observation_size: int
    action_size: int
    actions: ActionRange
    image: Shape | None = None
    """The shape of observations, if they are images."""

    @classmethod
    def of_spaces(cls, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> "PolicyShape":
        """Gaussian for vectors of actions, categorical for a finite choice; convolutional for images."""
        image = image_shape(observation_space)
        if image is None and (
            not isinstance(observation_space, gymnasium.spaces.Box) or len(observation_space.shape) != 1
        ):
            raise InputError(
                f"observation_space: {observation_space} is not possible, only vectors (Box) and images (uint8, "
                f"height x width x channels, at least 7 x 7)"
            )
        inputs = math.prod(observation_space.shape or ())
        if isinstance(action_space, gymnasium.spaces.Discrete) and action_space.start == 0:
            choices = int(action_space.n)
            return cls("categorical", inputs, choices, ActionRange(choices), image)
        if isinstance(action_space, gymnasium.spaces.Box) and len(action_space.shape) == 1:
            actions = ActionRange(0, tuple(action_space.low.tolist()), tuple(action_space.high.tolist()))
            return cls("gaussian", inputs, actions.size, actions, image)
        raise InputError(f"action_space: {action_space} is not possible, only vectors (Box) and Discrete from 0 on")


class PolicySettings(NamedTuple):
    """What a user decides of a fresh policy."""

    hidden: tuple[int, ...] = (300, 300)
    initial_log_std: float = -1.5
    memory: str = "none"
    """none, last or recurrent."""
    recurrent_units: int = 64
    scaled_features: int = 0
    """How many numbers a particle has, if observations, actions and particles are to be scaled."""


def fresh_policy(shape: PolicyShape, settings: PolicySettings, *, key: PRNGKeyArray) -> Policy:
    """An untrained policy."""
    memory = None
    if settings.memory != "none":
        units = settings.recurrent_units if settings.memory == "recurrent" else 0
        memory = Memory(shape.observation_size, shape.actions, units, key=jax.random.fold_in(key, MEMORY_KEY))
    features = settings.scaled_features
    scaling = Scaling(shape.observation_size, features, shape.actions) if features else None
    trunk = shape.image and Trunk(shape.image, key=jax.random.fold_in(key, TRUNK_KEY))
    sizes = shape.observation_size, shape.action_size, settings.hidden
    if shape.kind == "categorical":
        return CategoricalPolicy(*sizes, memory, scaling, trunk, key=key)
    return GaussianPolicy(*sizes, settings.initial_log_std, memory, scaling, trunk, key=key)


def stack_policies(policies: Sequence[Policy]) -> Policy:
    """Policies of one architecture as one, whose arrays have a leading axis."""
    first = policies[0].architecture
    for policy in policies:
        if policy.architecture != first:
            raise InputError(f"policies: they differ in architecture: {first} and {policy.architecture}")
    return stack(list(policies))


def regress_mean(
    policy: GaussianPolicy,
    target: Float[Array, " action"],
    low: Float[Array, " observation"],
    high: Float[Array, " observation"],
    *,
    key: PRNGKeyArray,
) -> GaussianPolicy:
    """Fit the mean to a constant action: 50 Adam steps of 2.5e-4 on 5000 uniform observations each.

    So every run starts from the same, badly exploring policy (docs/method.md, "The start"). What memory adds to an
    observation is drawn from [−1, 1].
    """
    if policy.scaling is not None:
        actions = policy.scaling.actions
        target = (target - jnp.array(actions.middles)) / jnp.array(actions.half_ranges)
        low, high = policy.scaling.observation(low), policy.scaling.observation(high)
    optimiser = optax.adam(2.5e-4)
    remembered = policy.layers[0].weight.shape[-1] - low.size
    low, high = jnp.pad(low, (0, remembered), constant_values=-1), jnp.pad(high, (0, remembered), constant_values=1)

    def loss(layers: tuple[eqx.nn.Linear, ...], inputs: Float[Array, "samples inputs"]) -> Float[Array, ""]:
        return jnp.mean((jax.vmap(lambda one: feed_forward(layers, one))(inputs) - target) ** 2)

    def fit(carry, step_key):
        layers, moments = carry
        inputs = jax.random.uniform(step_key, (5000, low.size), minval=low, maxval=high)
        updates, moments = optimiser.update(jax.grad(loss)(layers, inputs), moments)
        return (eqx.apply_updates(layers, updates), moments), None

    start = policy.layers, optimiser.init(policy.layers)  # pyright: ignore[reportArgumentType] (not modules)
    (layers, _), _ = jax.lax.scan(fit, start, jax.random.split(key, 50))
    return eqx.tree_at(lambda policy: policy.layers, policy, layers)


def _input_size(observation_size: int, memory: Memory | None, trunk: Trunk | None) -> int:
    """Of the first layer: what is perceived, an image by its trunk, and hidden values."""
    added = 0 if memory is None else memory.inputs - observation_size + memory.units
    return observation_size + (0 if trunk is None else trunk.size - trunk.pixels) + added
