"""Finite Markov chains, whose distributions can be enumerated."""

from typing import NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import alphamepol as am


class Place(NamedTuple):
    """A state: its number, and the offset of the particle within the state."""

    number: jax.Array
    offset: jax.Array


class Chain(am.CMP):
    """A chain of states 0, 1, 2, … on a line. An action chooses the probabilities with which the next state is drawn.

    With `spread`, the particle is drawn anew at every step, anywhere in the unit interval of its state. The
    differential entropy of particles is then the entropy of the states. Without `spread`, the particle is the number
    of its state.
    """

    transition: jax.Array
    start: jax.Array
    spread: bool = eqx.field(static=True)

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0.0, 100.0, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    @property
    def entropy_ceiling(self):
        return float(np.log(self.start.shape[-1]))

    def reset(self, *, key):
        return self._draw(self.start, key)

    def step(self, state, action, *, key):
        return self._draw(self.transition[action, state.number], key)

    def observe(self, state):
        return state.number.astype(float)[None]

    def features(self, state):
        return (state.number + state.offset)[None]

    def ended(self, state):
        return jnp.array(False)

    def _draw(self, probabilities, key):
        """Draw a state with the inverse of the distribution function.

        With a common random number, the draws of two chains are then as close on the line as possible.
        """
        number_key, offset_key = jax.random.split(key)
        steps = jnp.cumsum(probabilities)[:-1]
        number = jnp.sum(jax.random.uniform(number_key) >= steps)
        return Place(number, jax.random.uniform(offset_key) if self.spread else jnp.array(0.0))


class Exact(NamedTuple):
    """A chain under a policy that chooses action 1 in state i with probability `chooses[i]`."""

    transition: np.ndarray
    start: np.ndarray
    chooses: np.ndarray

    @property
    def under_policy(self):
        """The transition probabilities if the policy draws the actions."""
        return self.transition[0] * (1 - self.chooses)[:, None] + self.transition[1] * self.chooses[:, None]

    def distributions(self, horizon):
        """Return the distribution of the state at every time from 0 to the horizon."""
        found = [self.start]
        for _ in range(horizon):
            found.append(found[-1] @ self.under_policy)
        return np.stack(found)

    def reached(self, horizon):
        """Return the distribution of the states that are reached, with equal weight for all times."""
        return self.distributions(horizon)[1:].mean(axis=0)

    def acted_in(self, horizon):
        """Return the distribution of the states in which the policy acts."""
        return self.distributions(horizon)[:-1].mean(axis=0)

    def weights(self):
        """Return the probability of each action in each state, of shape (actions, states)."""
        return np.stack([1 - self.chooses, self.chooses])


def random_chain(random, states, *, near=None, share=1.0):
    """Return random transitions. If `near` is given, return a mixture in which `share` is the weight of random ones."""
    transition = random.dirichlet(np.ones(states), (2, states))
    return transition if near is None else (1 - share) * near + share * transition


def distance(first, second):
    """Return W_1 of distributions over 0, 1, 2, …: the area between their distribution functions."""
    return np.abs(np.cumsum(first - second, axis=-1)).sum(axis=-1)


def parting(first, second):
    """Return the probability that the draws of `Chain._draw` from two distributions differ.

    Both draws use the same random number.
    """
    high = [np.cumsum(one, axis=-1) for one in (first, second)]
    low = [top - one for top, one in zip(high, (first, second), strict=True)]
    return 1 - np.clip(np.minimum(*high) - np.maximum(*low), 0, None).sum(axis=-1)


def chain_class(exact, *, spread):
    """Return a class of such chains."""
    members = {
        f"chain-{i}": Chain(jnp.asarray(one.transition, jnp.float32), jnp.asarray(one.start, jnp.float32), spread)
        for i, one in enumerate(exact)
    }
    return am.EnvironmentClass(members, name="chains")
