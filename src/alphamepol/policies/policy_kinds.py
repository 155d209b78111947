"""The kinds of policies: normally distributed actions, squashed ones, and choices."""

from collections.abc import Sequence
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from alphamepol.errors import InputError
from alphamepol.policies.distributions import Categorical, Normal, SquashedNormal, Uniform
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import ActionRange, Memory, Recollection
from alphamepol.policies.networks import xavier_network_layers
from alphamepol.policies.policy import Policy
from alphamepol.policies.scaling import Scaling

LOG_STD_RANGE = -5.0, 2.0
"""The smallest and the largest log standard deviation of a squashed policy, before squashing.

A larger one would put almost all actions at the ends of the range. A smaller one would leave almost no noise.
"""


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

    @property
    def architecture(self) -> dict[str, Any]:
        return super().architecture | {"actions": self.actions.describe()}

    def head(self, outputs: Float[Array, " twice_action"]) -> SquashedNormal:
        mean, spread = jnp.split(outputs, 2)
        lowest, highest = LOG_STD_RANGE
        log_std = lowest + (highest - lowest) * (jnp.tanh(spread) + 1) / 2
        return SquashedNormal(Normal(mean, log_std), self.actions)

    def median(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Float[Array, " action"]:
        """Return the median of the distribution, as a deterministic action. The arguments are those of `perceive`."""
        distribution = self.head(self._run(observation, recollection)[0])
        return distribution.stretch(jnp.tanh(distribution.normal.mean))

    def mean(self, observation: Any, recollection: Any = None) -> NoReturn:
        raise InputError("mean: a squashed policy has no mean in closed form; call median(observation) instead")


class CategoricalPolicy(Policy):
    """A policy that chooses one of finitely many actions. A network gives the logits of their probabilities.

    **Arguments**

    - `observation_size`: the number of values of an observation.
    - `actions`: the number of actions.
    - `hidden`: the widths of the hidden layers.
    - `memory`, `scaling`, `trunk`, `key`: as for a `GaussianPolicy`.

    **Example**

    ```python
    import alphamepol as am
    import jax
    import numpy as np

    policy = am.CategoricalPolicy(4, 2, hidden=(8, 8), key=jax.random.key(0))
    action, _ = policy.act(np.zeros(4), key=jax.random.key(1))
    print(action, policy.probabilities(np.zeros(4)))  # a choice, and the probabilities of both
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

    def probabilities(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Float[Array, " actions"]:
        """Return the probability of each action. The arguments are those of `perceive`.

        The most likely action, `probabilities(…).argmax()`, serves as a deterministic action.
        """
        return jax.nn.softmax(self.head(self._run(observation, recollection)[0]).logits)

    def mean(self, observation: Any, recollection: Any = None) -> NoReturn:
        raise InputError(
            "mean: a categorical policy chooses one of finitely many actions, which have no mean; call "
            "probabilities(observation), or its argmax() for the most likely action"
        )


class UniformPolicy(Policy):
    """A policy that draws every action with the same probability, whatever it observes. It has no network to train.

    The units of a class are measured with it, because it depends on the spaces of the class only.
    """

    layers: tuple[eqx.nn.Linear, ...]
    memory: Memory | None
    scaling: Scaling | None
    trunk: Trunk | None
    actions: ActionRange = eqx.field(static=True)
    _observation_size: int = eqx.field(static=True)

    def __init__(self, observation_size: int, actions: ActionRange):
        self.layers, self.memory, self.scaling, self.trunk = (), None, None, None
        self.actions, self._observation_size = actions, observation_size

    @property
    def kind(self) -> str:
        return "uniform"

    @property
    def observation_size(self) -> int:
        return self._observation_size

    @property
    def action_size(self) -> int:
        return self.actions.size

    def mean(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Float[Array, " action"]:
        return jnp.array(self.actions.middles)

    def network(self, inputs: Shaped[Array, " network_inputs"]) -> Float[Array, " outputs"]:
        return jnp.zeros(self.action_size)

    def head(self, outputs: Float[Array, " outputs"]) -> Categorical | Uniform:
        return Categorical(outputs) if self.actions.choices else Uniform(self.actions)


def _policy_input_size(observation_size: int, memory: Memory | None, trunk: Trunk | None) -> int:
    """Return the number of inputs of the first layer.

    The inputs are what is perceived and the hidden values of the memory. The outputs of a trunk replace an image.
    """
    added = 0 if memory is None else memory.inputs - observation_size + memory.units
    return observation_size + (0 if trunk is None else trunk.size - trunk.pixels) + added
