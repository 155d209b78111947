"""Settings and networks for the tests of SAC and DIAYN."""

import jax
import jax.numpy as jnp
import numpy as np

from alphamepol.algorithms.diayn.sac import Networks, SacSettings
from alphamepol.algorithms.diayn.update import fresh_diayn_networks
from alphamepol.policies.shape import PolicyShape


def settings(**others: float) -> SacSettings:
    numbers = {"learning_rate": 1e-3, "discount": 0.95, "target_rate": 0.01, "target_entropy": -2.0} | others
    batch = int(numbers.pop("batch", 64))
    return SacSettings(**{name: jnp.array(value, jnp.float32) for name, value in numbers.items()}, batch=batch)


def random_networks(shape: PolicyShape, skills: int, hidden: tuple[int, ...], seed: int = 0) -> Networks:
    """Return networks of random numbers, with the shapes of fresh ones.

    Compiling the drawing of fresh networks takes longer than most tests.
    """
    empty = jax.eval_shape(lambda: fresh_diayn_networks(shape, skills, hidden, key=jax.random.key(0)))
    random = np.random.default_rng(seed)

    def fill(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        return jnp.array(random.normal(0, (leaf.shape or (1,))[-1] ** -0.5, leaf.shape), leaf.dtype)

    return jax.tree.map(fill, empty)
