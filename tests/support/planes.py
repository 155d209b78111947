"""Classes of walks in the plane with one problem each. Try `alphamepol check tests/support/planes.py:wild`."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import alphamepol as am


class Plane(am.CMP):
    """A walk in the plane. The second direction has a unit of its own, and places can be rounded to whole numbers."""

    unit: jax.Array
    whole: jax.Array
    wind: jax.Array

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    @property
    def entropy_ceiling(self):
        return float("inf")

    def reset(self, *, key):
        return self._round(jax.random.uniform(key, (2,)))

    def step(self, state, action, *, key):
        return self._round(jnp.clip(state + jnp.clip(action, -1, 1) * 0.3 + self.wind, -2, 2))

    def _round(self, place):
        return jnp.where(self.whole, jnp.round(place), place)

    def observe(self, state):
        return self.features(state)

    def features(self, state):
        return state * jnp.stack([jnp.ones(()), self.unit])

    def ended(self, state):
        return jnp.array(False)


def planes(unit=1.0, whole=(False, False), winds=(0.0, 0.2)):
    members = {
        f"plane-{i}": Plane(jnp.array(unit), jnp.array(one), jnp.array(wind))
        for i, (one, wind) in enumerate(zip(whole, winds, strict=True))
    }
    return am.EnvironmentClass(members, name="planes")


def aliased():
    """Return a class in which the places of one member are whole numbers."""
    return planes(whole=(False, True))


def stuck():
    """Return a class in which the wind blows the agent into a corner, which it cannot leave."""
    return planes(whole=(True, True), winds=(9.0, 9.0))


def wild():
    """Return a class in which one direction has a unit of its own."""
    return planes(unit=3e4)


def same():
    """Return a class of two equal members."""
    return planes(winds=(0.1, 0.1))
