"""Policies. A policy gives a distribution over actions for an observation and the memory of earlier steps."""

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
"""The smallest and the largest log standard deviation of a squashed policy, before squashing.

A larger one would put almost all actions at the ends of the range. A smaller one would leave almost no noise.
"""


class Policy(eqx.Module):
    """The base class of policies. A policy gives a distribution over actions for an observation.

    If the policy has a memory, the distribution also depends on earlier steps of the episode. The content of the memory
    is a *recollection*: `begin` returns the first one, and `act` returns the next one. Without memory the recollection
    is None.

    `load_policy` and `pretrain` return policies. The constructors of `GaussianPolicy`, `CategoricalPolicy` and
    `SquashedPolicy` build untrained ones. `perceive`, `distribution` and `act` work on one step; use `jax.vmap` for
    many.

    **Example**

    ```python
    import alphamepol as am
    import gymnasium
    import jax

    policy = am.load_policy("gridworld-slope/alpha-0.2")
    env = gymnasium.make("alphamepol/GWN-v0")
    observation, _ = env.reset(seed=0)
    recollection = policy.begin()
    for step in range(5):
        action, recollection = policy.act(observation, recollection, key=jax.random.key(step))
        observation, *_ = env.step(jax.device_get(action))
    print(observation)  # the place of the agent after five steps
    ```
    """

    layers: eqx.AbstractVar[tuple[eqx.nn.Linear, ...]]
    """The layers of the network, with ReLU between them, or tanh if observations are images.

    Their inputs are what is perceived, and the hidden values of a recurrent memory.
    """
    memory: eqx.AbstractVar[Memory | None]
    """The memory; None if the policy sees only the current observation."""
    scaling: eqx.AbstractVar[Scaling | None]
    """The scaling of observations, actions and particles; None if nothing is scaled."""
    trunk: eqx.AbstractVar[Trunk | None]
    """The convolutions for observations that are images, before `layers`; None for vectors."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name of this kind of policy in files and messages: gaussian, categorical or squashed."""

    @property
    def action_size(self) -> int:
        """The number of components of an action, or the number of choices."""
        return self.layers[-1].weight.shape[-2]

    @abstractmethod
    def head(self, outputs: Float[Array, " outputs"]) -> Distribution:
        """Return the distribution over actions for outputs of the network."""

    def begin(self) -> Recollection | None:
        """Return the recollection before the first step of an episode; None without memory."""
        return None if self.memory is None else self.memory.begin()

    def perceive(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Shaped[Array, " inputs"]:
        """Return what the policy perceives: the scaled observation as a vector, and what the memory adds to it.

        **Arguments**

        - `observation`: a vector or an image.
        - `recollection`: the recollection that `begin` or `act` returned. If it is None, the step is the first of an
          episode.

        **Returns**

        A vector of `perceived_size` numbers.

        **Raises**

        - `ValueError`: if the policy sees images and the observation has another shape.
        """
        observation = self._scaled(observation)
        if self.memory is None:
            return jnp.asarray(observation)
        return self.memory.perceive(observation, self.memory.begin() if recollection is None else recollection)

    def distribution(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Distribution:
        """Return the distribution over actions. The arguments are those of `perceive`.

        It is an `alphamepol.policies.distributions.Normal`, `Categorical` or `SquashedNormal`, with the methods
        `sample`, `log_prob` and `kl`.
        """
        return self.head(self._run(observation, recollection)[0])

    def act(
        self,
        observation: Shaped[Array | np.ndarray, "..."],
        recollection: Recollection | None = None,
        *,
        key: PRNGKeyArray,
    ) -> tuple[Shaped[Array, "..."], Recollection | None]:
        """Draw an action.

        **Arguments**

        - `observation`: a vector or an image.
        - `recollection`: the recollection that `begin` or the last `act` returned. If it is None, the step is the first
          of an episode.
        - `key`: the random key of the draw.

        **Returns**

        The action, and the recollection for the next step (None without memory). An action is a vector; of a
        categorical policy it is the number of a choice.
        """
        outputs, hidden = self._run(observation, recollection)
        action = self.head(outputs).sample(key=key)
        return action, self.memory and self.memory.remember(self._scaled(observation), action, hidden)

    def network(self, inputs: Shaped[Array, " network_inputs"]) -> Float[Array, " outputs"]:
        """Return the outputs of the network, from which `head` makes a distribution.

        The inputs are what is perceived, and the hidden values of a recurrent memory.
        """
        return run_network(self.trunk, self.layers, inputs, jnp.tanh)

    def network_of_rows(self, rows: Shaped[Array, "rows network_inputs"]) -> Float[Array, "rows outputs"]:
        """Apply `network` to many rows at once, by matrix products."""
        if self.trunk is None:
            return feed_network_rows(self.layers, rows)
        return feed_network_rows(self.layers, jax.vmap(lambda row: see_by_network(self.trunk, row))(rows), jnp.tanh)

    def network_inputs(
        self, perceived: Shaped[Array, "time inputs"], starts: Bool[Array, " time"] | None = None
    ) -> Shaped[Array, "time network_inputs"]:
        """Return the inputs of `network` at every step of a trajectory.

        `perceived` is what the policy perceived at every step. `starts` is True at the first step of each episode; if
        it is None, the trajectory is one episode.
        """
        if self.memory is None or self.memory.recurrence is None:
            return perceived
        return jnp.concatenate([perceived, self.memory.listen_along(perceived, starts)], axis=-1)

    @property
    def acts_on_rows(self) -> bool:
        """True if what is perceived is directly the input of the layers.

        This is so if the policy has no recurrent memory and sees no images.
        """
        return self.trunk is None and (self.memory is None or self.memory.recurrence is None)

    @property
    def observation_size(self) -> int:
        """The number of values of an observation."""
        if self.trunk is not None:
            return self.trunk.pixels
        return self.layers[0].weight.shape[-1] if self.memory is None else self.memory.change_scale.shape[-1]

    @property
    def perceived_size(self) -> int:
        """The size of the vector that `perceive` returns."""
        return self.observation_size if self.memory is None else self.memory.inputs

    @property
    def architecture(self) -> dict[str, Any]:
        """The description from which a policy of the same shape can be built. `save_policy` writes it to the file."""
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
        """Return the outputs of the network, and the hidden values of the memory."""
        recollection = self.begin() if recollection is None else recollection
        perceived = self.perceive(observation, recollection)
        hidden = self.memory.listen(perceived, recollection.hidden) if self.memory and recollection else jnp.zeros(0)
        return self.network(jnp.concatenate([perceived, hidden])), hidden


class GaussianPolicy(Policy):
    """A policy with normally distributed actions, for actions that are vectors.

    A network gives the mean. The standard deviation σ is one parameter per action component, and does not depend on the
    observation. With scaling, the network's outputs and σ are in units of half the action range.

    **Arguments**

    - `observation_size`: the number of values of an observation.
    - `action_size`: the number of components of an action.
    - `hidden`: the widths of the hidden layers.
    - `initial_log_std`: ln σ at the start.
    - `memory`: the memory, an `alphamepol.policies.memory.Memory`. By default the policy has none.
    - `scaling`: the scaling of observations, actions and particles, an `alphamepol.policies.scaling.Scaling`. By
      default nothing is scaled.
    - `trunk`: the convolutions for observations that are images, an `alphamepol.policies.image_networks.Trunk`. By
      default observations are vectors.
    - `key`: the random key of the initial parameters.

    **Example**

    ```python
    import alphamepol as am
    import jax
    import numpy as np

    policy = am.GaussianPolicy(2, 2, hidden=(8, 8), key=jax.random.key(0))
    observation = np.zeros(2)
    action, _ = policy.act(observation, key=jax.random.key(1))
    print(action, policy.mean(observation), policy.distribution(observation).log_prob(action))
    ```
    """

    layers: tuple[eqx.nn.Linear, ...]
    log_std: Float[Array, " action"]
    """The logarithm of σ of each action component."""
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
        """Draw Xavier-uniform weights, and biases uniform in ±1/√inputs.

        The biases matter. If they were zero, every unit of the first layer would bend at the origin, and a policy could
        hardly act differently in two neighbouring rooms.
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
        """Return the mean of the distribution, as a deterministic action. The arguments are those of `perceive`."""
        return self.head(self._run(observation, recollection)[0]).mean


class SquashedPolicy(Policy):
    """A policy whose actions never leave their range: a normal distribution that is squashed by tanh. SAC uses it.

    A network gives both the mean and the standard deviation of the normal distribution. The policy has neither memory
    nor scaling.

    **Arguments**

    - `observation_size`: the number of values of an observation.
    - `actions`: the range of actions, an `alphamepol.policies.memory.ActionRange` with finite bounds.
    - `hidden`: the widths of the hidden layers.
    - `trunk`: the convolutions for observations that are images, an `alphamepol.policies.image_networks.Trunk`. By
      default observations are vectors.
    - `key`: the random key of the initial parameters.

    **Example**

    ```python
    import alphamepol as am
    import jax
    import numpy as np
    from alphamepol.policies.memory import ActionRange

    actions = ActionRange(low=(-2.0,), high=(2.0,))
    policy = am.SquashedPolicy(3, actions, hidden=(8, 8), key=jax.random.key(0))
    action, _ = policy.act(np.zeros(3), key=jax.random.key(1))
    assert -2 <= action[0] <= 2
    ```
    """

    layers: tuple[eqx.nn.Linear, ...]
    memory: Memory | None
    scaling: Scaling | None
    trunk: Trunk | None
    actions: ActionRange = eqx.field(static=True)
    """The range of actions."""

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
    """A policy that chooses one of finitely many actions. A network gives the logits of their probabilities.

    **Arguments**

    - `observation_size`: the number of values of an observation.
    - `actions`: the number of actions.
    - `hidden`: the widths of the hidden layers.
    - `memory`: the memory, an `alphamepol.policies.memory.Memory`. By default the policy has none.
    - `scaling`: the scaling of observations, actions and particles, an `alphamepol.policies.scaling.Scaling`. By
      default nothing is scaled.
    - `trunk`: the convolutions for observations that are images, an `alphamepol.policies.image_networks.Trunk`. By
      default observations are vectors.
    - `key`: the random key of the initial parameters.

    **Example**

    ```python
    import alphamepol as am
    import jax
    import numpy as np

    policy = am.CategoricalPolicy(4, 2, hidden=(8, 8), key=jax.random.key(0))
    action, _ = policy.act(np.zeros(4), key=jax.random.key(1))
    print(action, jax.nn.softmax(policy.distribution(np.zeros(4)).logits))  # a choice, and the probabilities of both
    ```
    """

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
    """Stack policies of equal architecture into one policy whose arrays have a leading axis.

    Raises an `InputError` if the architectures differ.
    """
    first = policies[0].architecture
    for policy in policies:
        if policy.architecture != first:
            raise InputError(f"policies: they differ in architecture: {first} and {policy.architecture}")
    return stack_trees(list(policies))


def _policy_input_size(observation_size: int, memory: Memory | None, trunk: Trunk | None) -> int:
    """Return the number of inputs of the first layer.

    The inputs are what is perceived and the hidden values of the memory. The outputs of a trunk replace an image.
    """
    added = 0 if memory is None else memory.inputs - observation_size + memory.units
    return observation_size + (0 if trunk is None else trunk.size - trunk.pixels) + added
