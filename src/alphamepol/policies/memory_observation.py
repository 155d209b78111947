"""A wrapper that shows a Gymnasium environment as a policy with memory sees it."""

from typing import Any, SupportsFloat

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from alphamepol.compute.devices import device_for_little_work
from alphamepol.errors import InputError
from alphamepol.policies.memory import LARGEST, Memory, Recollection
from alphamepol.policies.policy import Policy
from alphamepol.policies.shape import PolicyShape
from alphamepol.policies.unscaled import unscaled_policy


class MemoryObservation(
    gymnasium.ObservationWrapper[np.ndarray, np.ndarray, np.ndarray], gymnasium.utils.RecordConstructorArgs
):
    """A Gymnasium wrapper that shows an environment as a policy with memory sees it (M1).

    Its observation is a vector of the original observation, the last change of the observation, and the last action.
    Change and action are scaled as in the policy's memory, and are zero at the first step of an episode. With this
    wrapper, other libraries such as Stable-Baselines3 can train an exported policy with memory.

    The hidden values of a recurrent memory are not part of the observation. The wrapper does not scale the original
    observation, even if the policy does: an export to Stable-Baselines3 moves the scaling into the layers.

    **Arguments**

    - `env`: a Gymnasium environment whose observations are vectors or images. Images become vectors.
    - `policy`: the policy with memory; or its memory (`policy.memory`).

    **Raises**

    - `InputError`: if the policy has no memory, or if it scales images.
    - `InputError`: if the memory does not fit the spaces of the environment, or if no policy can act in these spaces.

    **Example**

    ```python
    import alphamepol as am
    import gymnasium
    import jax
    from alphamepol.policies.memory import ActionRange, Memory

    memory = Memory(4, ActionRange(choices=2), key=jax.random.key(0))
    policy = am.CategoricalPolicy(4, 2, hidden=(8, 8), memory=memory, key=jax.random.key(1))
    env = am.MemoryObservation(gymnasium.make("CartPole-v1"), policy)
    observation, _ = env.reset(seed=0)
    print(observation.shape)  # (10,): the observation (4), its last change (4), the last action (2)
    observation, *_ = env.step(1)
    print(observation[-2:])  # [0. 1.], the last action as a one-hot vector
    ```
    """

    def __init__(self, env: gymnasium.Env[np.ndarray, np.ndarray], policy: Policy | Memory):
        gymnasium.utils.RecordConstructorArgs.__init__(self, policy=policy)
        gymnasium.ObservationWrapper.__init__(self, env)
        # The environment shows unscaled observations. A policy with scaling acts in it once it is exported, because the
        # export makes the scaling part of the layers and of the memory.
        memory = unscaled_policy(policy).memory if isinstance(policy, Policy) else policy
        if memory is None:
            raise InputError("policy: it has no memory; it can act in the environment without a wrapper")
        shape = PolicyShape.of_spaces(env.observation_space, env.action_space)
        if (shape.observation_size, shape.actions) != (memory.change_scale.shape[-1], memory.actions):
            raise InputError(
                f"policy: it remembers {memory.change_scale.shape[-1]} observation numbers and actions within "
                f"{memory.actions.describe()}, but the environment has {shape.observation_size} and "
                f"{shape.actions.describe()}"
            )
        self._memory = jax.device_put(memory, device_for_little_work())
        self._recollection = memory.begin()
        self._over = False
        self.observation_space = memory_observation_space(env.observation_space, memory)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._begin()
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        if self._over:
            self._begin()  # the environment has reset itself
        else:
            self._recollection = _remember_memory_observation(self._memory, self._recollection, np.asarray(action))
        observation, reward, terminated, truncated, info = super().step(action)
        self._over = terminated or truncated
        return observation, reward, terminated, truncated, info

    def observation(self, observation: np.ndarray) -> np.ndarray:
        perceived, self._recollection = _perceive_memory_observation(
            self._memory, self._recollection, np.asarray(observation).ravel()
        )
        return np.array(perceived)

    def _begin(self) -> None:
        self._recollection = jax.device_put(self._memory.begin(), device_for_little_work())
        self._over = False


def memory_observation_space(observation_space: gymnasium.Space, memory: Memory) -> gymnasium.spaces.Box:
    """Return the space of what a policy with this memory perceives, without the hidden values of a recurrent memory."""
    assert isinstance(observation_space, gymnasium.spaces.Box)
    low, high = (part.ravel().astype(np.float32) for part in (observation_space.low, observation_space.high))
    remembered = np.full(memory.inputs - low.size, LARGEST, np.float32)
    low, high = np.concatenate([low, -remembered]), np.concatenate([high, remembered])
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


@jax.jit
def _perceive_memory_observation(memory: Memory, recollection: Recollection, observation):
    """Return what is perceived, and a recollection that keeps the observation for the next step."""
    kept = eqx.tree_at(lambda recollection: recollection.observation, recollection, jnp.asarray(observation, float))
    return memory.perceive(observation, recollection), kept


@jax.jit
def _remember_memory_observation(memory: Memory, recollection: Recollection, action):
    return memory.remember(recollection.observation, action, recollection.hidden)
