"""Steps in every member with the same random numbers, to measure how far apart the dynamics of the members are.

A coupling is a joint distribution of two random states. Under every coupling, the probability that the states differ is
at least the total variation distance of their distributions. Their mean distance is at least the Wasserstein distance.
Common random numbers are a coupling that keeps the states close to each other.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.policies.policy import Policy
from alphamepol.sampling.rollout import rollout_states


class Visited(eqx.Module):
    """The states in which a policy acted, with its actions. Arrays are stacked over members unless mapped over."""

    states: PyTree[Array]
    actions: Shaped[Array, "..."]
    particles: Float[Array, "*members count features"]
    """The particles of these states."""
    valid: Bool[Array, "*members count"]


class Started(eqx.Module):
    """The initial states of all members, drawn with the same random numbers."""

    differ: Float[Array, "members members"]
    """The share of draws in which two members start differently."""
    particles: Float[Array, "members draws features"]


@partial(jax.jit, static_argnames="draws")
def start_coupled_members(environment_class: EnvironmentClass, *, draws: int, key: PRNGKeyArray) -> Started:
    """Reset every member `draws` times, with the same random numbers in all members."""

    def one_draw(key: PRNGKeyArray) -> tuple[Bool[Array, "members members"], Float[Array, "members features"]]:
        states = jax.vmap(lambda member: member.reset(key=key))(environment_class.members)
        return _coupled_states_differ(environment_class, states), _features_of_coupled_states(environment_class, states)

    differ, particles = jax.vmap(one_draw)(jax.random.split(key, draws))
    return Started(jnp.mean(differ, axis=0, dtype=float), jnp.swapaxes(particles, 0, 1))


@partial(jax.jit, static_argnames=("horizon", "trajectories"))
def visit_for_coupled_steps(
    policy: Policy, environment_class: EnvironmentClass, *, horizon: int, trajectories: int, key: PRNGKeyArray
) -> Visited:
    """Collect `trajectories` trajectories in each member, and return all their steps."""

    def one_member(member: CMP, key: PRNGKeyArray) -> Visited:
        keys = jax.random.split(key, trajectories)
        steps = jax.vmap(lambda key: rollout_states(policy, member, horizon, key=key))(keys)
        # A part of a state may be empty, so that a size cannot be inferred.
        states, actions, valid = jax.tree.map(
            lambda leaf: leaf.reshape(trajectories * horizon, *leaf.shape[2:]),
            (steps.states, steps.actions, steps.valid),
        )
        return Visited(states, actions, jax.vmap(member.features)(states), valid)

    return jax.vmap(one_member)(environment_class.members, jax.random.split(key, len(environment_class)))


@partial(jax.jit, static_argnames="count")
def choose_coupled_steps(visited: Visited, *, count: int, key: PRNGKeyArray) -> Visited:
    """Draw `count` of the valid steps of each member, with replacement."""

    def one_member(of: Visited, key: PRNGKeyArray) -> Visited:
        chosen = jax.random.categorical(key, jnp.where(of.valid, 0.0, -jnp.inf), shape=(count,))
        return jax.tree.map(lambda leaf: leaf[chosen], of)

    return jax.vmap(one_member)(visited, jax.random.split(key, len(visited.valid)))


@jax.jit
def difference_of_coupled_steps(
    visited: Visited, environment_class: EnvironmentClass, *, key: PRNGKeyArray
) -> Float[Array, "members members"]:
    """Return the share of steps after which two members differ, for each pair of members.

    The steps of the row's member are taken again in all members with the same random numbers. A step counts if the
    column's member then differs from the row's member in its state, observation, particle or end.
    """

    def one_member(number: Array, of: Visited, key: PRNGKeyArray) -> Float[Array, " members"]:
        def one_state(state: PyTree, action: Array, key: PRNGKeyArray) -> Bool[Array, " members"]:
            reached = jax.vmap(lambda member: member.step(state, action, key=key))(environment_class.members)
            return _coupled_states_differ(environment_class, reached)[number]

        differ = jax.vmap(one_state)(of.states, of.actions, jax.random.split(key, len(of.valid)))
        return jnp.sum(differ & of.valid[:, None], axis=0) / jnp.maximum(jnp.sum(of.valid), 1)

    keys = jax.random.split(key, len(environment_class))
    return jax.lax.map(lambda one: one_member(*one), (jnp.arange(len(keys)), visited, keys))


@partial(jax.jit, static_argnames="draws")
def step_coupled_members(
    visited: Visited, environment_class: EnvironmentClass, *, draws: int, key: PRNGKeyArray
) -> Float[Array, "members members count draws features"]:
    """Take each visited state's action in every member, `draws` times, with the same random numbers in all members.

    The entry [i, j] holds the particles that member j reaches from the states visited in member i.
    """

    def one_state(state: PyTree, action: Array, key: PRNGKeyArray) -> Float[Array, "members draws features"]:
        def one_draw(key: PRNGKeyArray) -> Float[Array, "members features"]:
            reached = jax.vmap(lambda member: member.step(state, action, key=key))(environment_class.members)
            return _features_of_coupled_states(environment_class, reached)

        return jnp.swapaxes(jax.vmap(one_draw)(jax.random.split(key, draws)), 0, 1)

    keys = jax.random.split(key, visited.valid.shape)
    particles = jax.lax.map(lambda of: jax.vmap(one_state)(*of), (visited.states, visited.actions, keys))
    return jnp.swapaxes(particles, 1, 2)


@partial(jax.jit, static_argnames="draws")
def act_with_coupled_draws(
    policy: Policy, visited: Visited, environment_class: EnvironmentClass, *, draws: int, key: PRNGKeyArray
) -> Float[Array, "members count draws features"]:
    """Return the particles that the policy reaches by one step from each visited state, `draws` times.

    Each step is taken in the member in which the state was visited. The random numbers are the same for all states, so
    that states that are close stay close as far as the dynamics allow it. A policy with memory starts a new episode in
    every state.
    """

    def one_state(member: CMP, state: PyTree, key: PRNGKeyArray) -> Float[Array, " features"]:
        action_key, environment_key = jax.random.split(key)
        action, _ = policy.act(member.observe(state), policy.begin(), key=action_key)
        return member.features(member.step(state, action, key=environment_key))

    keys = jax.random.split(key, draws)
    of_draws = jax.vmap(one_state, in_axes=(None, None, 0))
    of_states = jax.vmap(of_draws, in_axes=(None, 0, None))
    return jax.vmap(of_states, in_axes=(0, 0, None))(environment_class.members, visited.states, keys)


def _features_of_coupled_states(
    environment_class: EnvironmentClass, states: PyTree[Shaped[Array, "members ..."]]
) -> Float[Array, "members features"]:
    return jax.vmap(lambda member, state: member.features(state))(environment_class.members, states)


def _coupled_states_differ(
    environment_class: EnvironmentClass, states: PyTree[Shaped[Array, "members ..."]]
) -> Bool[Array, "members members"]:
    """Tell for each pair of members whether their states, observations, particles or ends differ."""

    def of_leaf(leaf: Shaped[Array, "members ..."]) -> Bool[Array, "members members"]:
        pairs = leaf[:, None] != leaf[None]
        return jnp.any(pairs.reshape(*pairs.shape[:2], -1), axis=-1)

    def shown(member: CMP, state: PyTree) -> tuple[Array, ...]:
        return member.observe(state), member.features(state), member.ended(state)

    leaves = jax.tree.leaves((states, jax.vmap(shown)(environment_class.members, states)))
    return jnp.any(jnp.stack([of_leaf(leaf) for leaf in leaves]), axis=0)
