"""Finite Markov chains, of which everything can be enumerated."""

from typing import NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import alphamepol as am


class Place(NamedTuple):
    """A state: one of finitely many, and where in it the particle is."""

    number: jax.Array
    offset: jax.Array


class Chain(am.CMP):
    """States 0, 1, 2, … on a line; an action chooses the row of probabilities that the next one is drawn with.

    With `spread`, the particle is anywhere in the unit interval of its state, drawn anew at every step: then the
    differential entropy of particles is the entropy of the states. Without, it is the number itself.
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
        """By the inverse of the distribution function: of all ways to join two draws, the closest on a line."""
        number_key, offset_key = jax.random.split(key)
        steps = jnp.cumsum(probabilities)[:-1]
        number = jnp.sum(jax.random.uniform(number_key) >= steps)
        return Place(number, jax.random.uniform(offset_key) if self.spread else jnp.array(0.0))


class Exact(NamedTuple):
    """A chain under a policy that chooses action 1 with a probability of its own in each state."""

    transition: np.ndarray
    start: np.ndarray
    chooses: np.ndarray

    @property
    def under_policy(self):
        """The probabilities of a step, actions drawn by the policy."""
        return self.transition[0] * (1 - self.chooses)[:, None] + self.transition[1] * self.chooses[:, None]

    def distributions(self, horizon):
        """Of the state at every time, from 0 to the horizon."""
        found = [self.start]
        for _ in range(horizon):
            found.append(found[-1] @ self.under_policy)
        return np.stack(found)

    def reached(self, horizon):
        """The distribution of the states reached, all times alike."""
        return self.distributions(horizon)[1:].mean(axis=0)

    def acted_in(self, horizon):
        """The distribution of the states acted in."""
        return self.distributions(horizon)[:-1].mean(axis=0)

    def weights(self):
        """The probability of each action in each state."""
        return np.stack([1 - self.chooses, self.chooses])


def random_chain(random, states, *, near=None, share=1.0):
    """Transitions at random; those of `near` mixed with them, if given, by `share` of the new ones."""
    transition = random.dirichlet(np.ones(states), (2, states))
    return transition if near is None else (1 - share) * near + share * transition


def distance(first, second):
    """W_1 of distributions over 0, 1, 2, …: the area between their distribution functions."""
    return np.abs(np.cumsum(first - second, axis=-1)).sum(axis=-1)


def parting(first, second):
    """The probability that draws by the inverse of the distribution function, from the same number, differ."""
    high = [np.cumsum(one, axis=-1) for one in (first, second)]
    low = [top - one for top, one in zip(high, (first, second), strict=True)]
    return 1 - np.clip(np.minimum(*high) - np.maximum(*low), 0, None).sum(axis=-1)


def chain_class(exact, *, spread):
    """A class of such chains."""
    members = {
        f"chain-{i}": Chain(jnp.asarray(one.transition, jnp.float32), jnp.asarray(one.start, jnp.float32), spread)
        for i, one in enumerate(exact)
    }
    return am.EnvironmentClass(members, name="chains")
