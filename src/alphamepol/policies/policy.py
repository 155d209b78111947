"""Policies: a distribution over actions for an observation and what is remembered of the steps before."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from alphamepol.compute.trees import stack_trees
from alphamepol.errors import InputError
from alphamepol.policies.distributions import Categorical, Distribution, Normal, SquashedNormal
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import ActionRange, Memory, Recollection
from alphamepol.policies.networks import feed_network_rows, run_network, see_by_network, xavier_network_layers
from alphamepol.policies.scaling import Scaling

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
    def action_size(self) -> int:
        """How many numbers an action has, or how many choices there are."""
        return self.layers[-1].weight.shape[-2]

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
            return feed_network_rows(self.layers, rows)
        return feed_network_rows(self.layers, jax.vmap(lambda row: see_by_network(self.trunk, row))(rows), jnp.tanh)

    def network_inputs(
        self, perceived: Shaped[Array, "time inputs"], starts: Bool[Array, " time"] | None = None
    ) -> Shaped[Array, "time network_inputs"]:
        """What `network` takes at every step of a trajectory, from what was perceived; `starts`: where episodes are."""
        if self.memory is None or self.memory.recurrence is None:
            return perceived
        return jnp.concatenate([perceived, self.memory.listen_along(perceived, starts)], axis=-1)

    @property
    def acts_on_rows(self) -> bool:
        """Whether the layers take what was perceived as it is, row by row: there is no recurrence and no image."""
        return self.trunk is None and (self.memory is None or self.memory.recurrence is None)

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
        self.layers = xavier_network_layers(
            [_policy_input_size(observation_size, memory, trunk), *hidden, action_size], key=key
        )
        self.log_std = jnp.zeros(action_size) + initial_log_std
        self.memory = memory
        self.scaling = scaling
        self.trunk = trunk

    @property
    def kind(self) -> str:
        return "gaussian"

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
        self.layers = xavier_network_layers(
            [_policy_input_size(observation_size, None, trunk), *hidden, 2 * actions.size], key=key
        )
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
        self.layers = xavier_network_layers(
            [_policy_input_size(observation_size, memory, trunk), *hidden, actions], key=key
        )
        self.memory = memory
        self.scaling = scaling
        self.trunk = trunk

    @property
    def kind(self) -> str:
        return "categorical"

    def head(self, outputs: Float[Array, " actions"]) -> Categorical:
        return Categorical(outputs)


def stack_policies(policies: Sequence[Policy]) -> Policy:
    """Policies of one architecture as one, whose arrays have a leading axis."""
    first = policies[0].architecture
    for policy in policies:
        if policy.architecture != first:
            raise InputError(f"policies: they differ in architecture: {first} and {policy.architecture}")
    return stack_trees(list(policies))


def _policy_input_size(observation_size: int, memory: Memory | None, trunk: Trunk | None) -> int:
    """Of the first layer: what is perceived, an image by its trunk, and hidden values."""
    added = 0 if memory is None else memory.inputs - observation_size + memory.units
    return observation_size + (0 if trunk is None else trunk.size - trunk.pixels) + added
