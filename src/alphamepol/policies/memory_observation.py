"""Gymnasium environments as a policy with memory sees them."""

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
    """Any environment, seen as a policy with memory sees it: the observation, its last change, the last action.

    **Arguments**

    - `env`: a Gymnasium environment with vectors or images as observations; images become vectors.
    - `policy`: the policy whose memory it is; or that memory.
    """

    def __init__(self, env: gymnasium.Env[np.ndarray, np.ndarray], policy: Policy | Memory):
        gymnasium.utils.RecordConstructorArgs.__init__(self, policy=policy)
        gymnasium.ObservationWrapper.__init__(self, env)
        # The environment shows what it shows; a scaled policy acts in it once that is part of its layers, as exported.
        memory = unscaled_policy(policy).memory if isinstance(policy, Policy) else policy
        if memory is None:
            raise InputError("policy: it has no memory, and acts in the environment as it is")
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

    def step(self, action: np.ndarray) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        if self._over:
            self._begin()  # an environment that resets itself
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
    """What a policy with this memory perceives of an observation space, the hidden values of a recurrent one aside."""
    assert isinstance(observation_space, gymnasium.spaces.Box)
    low, high = (part.ravel().astype(np.float32) for part in (observation_space.low, observation_space.high))
    remembered = np.full(memory.inputs - low.size, LARGEST, np.float32)
    low, high = np.concatenate([low, -remembered]), np.concatenate([high, remembered])
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


@jax.jit
def _perceive_memory_observation(memory: Memory, recollection: Recollection, observation):
    """What is perceived; the observation is kept for the next step."""
    kept = eqx.tree_at(lambda recollection: recollection.observation, recollection, jnp.asarray(observation, float))
    return memory.perceive(observation, recollection), kept


@jax.jit
def _remember_memory_observation(memory: Memory, recollection: Recollection, action):
    return memory.remember(recollection.observation, action, recollection.hidden)
