"""One trajectory in a compiled environment."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from alphamepol.environments.cmp import CMP
from alphamepol.policies import GaussianPolicy


class Rollout(eqx.Module):
    """What was seen, done and reached: at one step, or with a leading axis at each step of a trajectory."""

    observations: Shaped[Array, "*time observation"]
    actions: Shaped[Array, "*time action"]
    particles: Float[Array, "*time features"]
    valid: Bool[Array, "*time"]


def rollout(policy: GaussianPolicy, member: CMP, horizon: int, *, key: PRNGKeyArray) -> Rollout:
    """Act for `horizon` steps in one member; after an early end the state stands still and steps are not valid."""
    reset_key, steps_key = jax.random.split(key)

    def act(carry, step_key):
        state, alive = carry
        action_key, environment_key = jax.random.split(step_key)
        observation = member.observe(state)
        action = policy.sample(observation, key=action_key)
        moved = member.step(state, action, key=environment_key)
        reached = jax.tree.map(lambda new, old: jnp.where(alive, new, old), moved, state)
        step = Rollout(observation, action, member.features(reached), alive)
        return (reached, alive & ~member.ended(reached)), step

    start = member.reset(key=reset_key)
    _, steps = jax.lax.scan(act, (start, ~member.ended(start)), jax.random.split(steps_key, horizon))
    return steps
