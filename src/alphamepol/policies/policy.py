"""The base class of policies. A policy gives a distribution over actions for an observation and its memory."""

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
from alphamepol.policies.distributions import Distribution
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import Memory, Recollection
from alphamepol.policies.networks import feed_network_rows, run_network, see_by_network
from alphamepol.policies.scaling import Scaling


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

    @abstractmethod
    def mean(
        self, observation: Shaped[Array | np.ndarray, "..."], recollection: Recollection | None = None
    ) -> Float[Array, " action"]:
        """Return the mean of the distribution, as a deterministic action. The arguments are those of `perceive`.

        **Raises**

        - `InputError`: if the policy is not Gaussian. The message names the method to call instead.
        """

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
        image = self.trunk and list(self.trunk.shape)
        more = {"memory": memory, "scaling": scaling, "image": image}
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


def stack_policies(policies: Sequence[Policy]) -> Policy:
    """Stack policies of equal architecture into one policy whose arrays have a leading axis.

    Raises an `InputError` if the architectures differ.
    """
    first = policies[0].architecture
    for policy in policies:
        if policy.architecture != first:
            raise InputError(f"policies: they differ in architecture: {first} and {policy.architecture}")
    return stack_trees(list(policies))


def unstack_policies(policies: Policy, names: Sequence[str]) -> dict[str, Policy]:
    """Return the policies along the leading axis by name, with their arrays in the memory of the host."""
    on_host = jax.device_get(policies)
    return {name: jax.tree.map(lambda leaf, at=row: leaf[at], on_host) for row, name in enumerate(names)}
