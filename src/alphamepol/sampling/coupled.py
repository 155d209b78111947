"""The same step in every member, with the same random numbers: how far apart their dynamics are.

Whatever joins two random states, the probability that they differ is at least the total variation of their
distributions, and their mean distance at least the Wasserstein distance. Common random numbers join them closely.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.policies import Policy
from alphamepol.sampling.rollout import rollout_states


class Visited(eqx.Module):
    """States that a policy acted in, drawn from whole trajectories in each member, and what it did there."""

    states: PyTree[Array]
    actions: Shaped[Array, "members count ..."]
    particles: Float[Array, "members count features"]
    """Of these states."""


class Stepped(eqx.Module):
    """What every member makes of the same states, actions and random numbers."""

    differ: Float[Array, "members members members"]
    """At [i, j, l] the share of steps from states visited in member i after which j and l are in different states."""
    particles: Float[Array, "members members count draws features"]
    """At [i, j] those reached in member j from states visited in member i."""


class Started(eqx.Module):
    """Where every member starts with the same random numbers."""

    differ: Float[Array, "members members"]
    """The share of starts that differ."""
    particles: Float[Array, "members draws features"]


@partial(jax.jit, static_argnames="draws")
def start_everywhere(environment_class: EnvironmentClass, *, draws: int, key: PRNGKeyArray) -> Started:
    """Reset every member, `draws` times."""

    def one_draw(key: PRNGKeyArray) -> tuple[Bool[Array, "members members"], Float[Array, "members features"]]:
        states = jax.vmap(lambda member: member.reset(key=key))(environment_class.members)
        return _different(states), _features(environment_class, states)

    differ, particles = jax.vmap(one_draw)(jax.random.split(key, draws))
    return Started(jnp.mean(differ, axis=0, dtype=float), jnp.swapaxes(particles, 0, 1))


@partial(jax.jit, static_argnames=("horizon", "trajectories", "count"))
def visit(
    policy: Policy,
    environment_class: EnvironmentClass,
    *,
    horizon: int,
    trajectories: int,
    count: int,
    key: PRNGKeyArray,
) -> Visited:
    """`count` states of each member, every step of some trajectories being as likely."""

    def one_member(member: CMP, key: PRNGKeyArray) -> tuple[PyTree, Array, Array]:
        keys = jax.random.split(key, trajectories + 1)
        steps = jax.vmap(lambda key: rollout_states(policy, member, horizon, key=key))(keys[1:])
        chosen = jax.random.categorical(keys[0], jnp.where(steps.valid.ravel(), 0.0, -jnp.inf), shape=(count,))
        states, actions = jax.tree.map(
            lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[chosen], (steps.states, steps.actions)
        )
        return states, actions, jax.vmap(member.features)(states)

    keys = jax.random.split(key, len(environment_class))
    return Visited(*jax.vmap(one_member)(environment_class.members, keys))


@partial(jax.jit, static_argnames="draws")
def step_everywhere(visited: Visited, environment_class: EnvironmentClass, *, draws: int, key: PRNGKeyArray) -> Stepped:
    """Take each visited state's action in every member, `draws` times with the same random numbers in all."""

    def one_state(state: PyTree, action: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        """Which members differ, and where each is."""

        def one_draw(key: PRNGKeyArray) -> tuple[Bool[Array, "members members"], Float[Array, "members features"]]:
            reached = jax.vmap(lambda member: member.step(state, action, key=key))(environment_class.members)
            return _different(reached), _features(environment_class, reached)

        differ, particles = jax.vmap(one_draw)(jax.random.split(key, draws))
        return jnp.mean(differ, axis=0, dtype=float), jnp.moveaxis(particles, 0, 1)

    keys = jax.random.split(key, visited.particles.shape[:2])
    differ, particles = jax.lax.map(lambda of: jax.vmap(one_state)(*of), (visited.states, visited.actions, keys))
    return Stepped(jnp.mean(differ, axis=1), jnp.swapaxes(particles, 1, 2))


@partial(jax.jit, static_argnames="draws")
def act_everywhere(
    policy: Policy, visited: Visited, environment_class: EnvironmentClass, *, draws: int, key: PRNGKeyArray
) -> Float[Array, "members count draws features"]:
    """The particles that the policy reaches from each visited state in its own member, `draws` times.

    Random numbers are the same for all states, so that what is near stays near as far as the dynamics allow it. A
    policy with memory begins anew in every state.
    """

    def one_state(member: CMP, state: PyTree, key: PRNGKeyArray) -> Float[Array, " features"]:
        action_key, environment_key = jax.random.split(key)
        action, _ = policy.act(member.observe(state), policy.begin(), key=action_key)
        return member.features(member.step(state, action, key=environment_key))

    keys = jax.random.split(key, draws)
    of_draws = jax.vmap(one_state, in_axes=(None, None, 0))
    of_states = jax.vmap(of_draws, in_axes=(None, 0, None))
    return jax.vmap(of_states, in_axes=(0, 0, None))(environment_class.members, visited.states, keys)


def _features(
    environment_class: EnvironmentClass, states: PyTree[Shaped[Array, "members ..."]]
) -> Float[Array, "members features"]:
    return jax.vmap(lambda member, state: member.features(state))(environment_class.members, states)


def _different(states: PyTree[Shaped[Array, "members ..."]]) -> Bool[Array, "members members"]:
    def of_leaf(leaf: Shaped[Array, "members ..."]) -> Bool[Array, "members members"]:
        pairs = leaf[:, None] != leaf[None]
        return jnp.any(pairs.reshape(*pairs.shape[:2], -1), axis=-1)

    return jnp.any(jnp.stack([of_leaf(leaf) for leaf in jax.tree.leaves(states)]), axis=0)
