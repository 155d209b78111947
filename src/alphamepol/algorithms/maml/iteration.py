"""One iteration of MAML for all seeds in one program: sample the tasks, adapt to each, sample again, improve."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from alphamepol.algorithms.maml import update as maml
from alphamepol.algorithms.maml.config import MamlConfig
from alphamepol.algorithms.maml.update import Experience, MamlSettings
from alphamepol.algorithms.trust_region import Stepped, trust_region_from_settings
from alphamepol.compute.devices import wait_for_devices
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.compute.mapping import map_leading_axis, traced_number
from alphamepol.compute.stopwatch import LEARNING, SAMPLING, Stopwatch
from alphamepol.environments.environment_class import EnvironmentClass, draw_members_of_class
from alphamepol.policies.policy import Policy
from alphamepol.runs.loop import LoopState
from alphamepol.runs.untrained import FirstLook, untrained_policies_for_class


class MetaReport(eqx.Module):
    """The results of an iteration for each seed."""

    return_before: Float[Array, "*seeds"]
    """The return of the meta-policy, as a mean over the tasks."""
    return_after: Float[Array, "*seeds"]
    """The return of the policies that one inner step adapted to each task, as a mean over the tasks."""
    stepped: Stepped
    finite: Bool[Array, "*seeds"]
    """True if all parameters of the policy and all samples are finite."""


def start_maml_iterations(environment_class: EnvironmentClass, config: MamlConfig, *, look: bool = True) -> LoopState:
    """Return the state before the first iteration, with an untrained policy for each seed.

    If `look` is false, nothing is sampled from the class, and the state only has the right shapes.
    """
    purposes = split_keys_by_purpose(seed_keys(config.seed_list))
    members = jnp.tile(jnp.arange(len(environment_class)), (config.seeds, 1))
    first = FirstLook(members, config.trajectories, config.horizon) if look else None
    policies = untrained_policies_for_class(purposes.policy, environment_class, config.policy, first)
    return LoopState(policies, purposes.epochs)


def run_maml_iteration(
    state: LoopState,
    iteration: int,
    environment_class: EnvironmentClass,
    drawing: Any,
    config: MamlConfig,
    stopwatch: Stopwatch,
) -> tuple[LoopState, MetaReport]:
    """Improve the policy of every seed by one iteration.

    `drawing` is the callable that draws tasks, stacked over seeds.
    """
    policies: Policy = state.learners
    settings, amount = maml_iteration_settings(config), Amount(config.trajectories, config.horizon)
    with stopwatch.phase(SAMPLING):
        draw_keys, before_keys, after_keys = _maml_iteration_keys(state.keys, jnp.array(iteration))
        drawn = Drawn(*_draw_for_maml_iteration(draw_keys, environment_class.probabilities, config.tasks), drawing)
        before = wait_for_devices(
            _try_tasks_in_maml_iteration(policies, False, environment_class, drawn, settings, amount, before_keys)
        )
    with stopwatch.phase(LEARNING):
        adapted = wait_for_devices(_adapt_in_maml_iteration(policies, before, settings))
    with stopwatch.phase(SAMPLING):
        after = wait_for_devices(
            _try_tasks_in_maml_iteration(adapted, True, environment_class, drawn, settings, amount, after_keys)
        )
    with stopwatch.phase(LEARNING):
        policies, report = wait_for_devices(_improve_in_maml_iteration(policies, before, after, settings))
    return LoopState(policies, state.keys), report


def maml_iteration_settings(config: MamlConfig) -> MamlSettings:
    """Return the part of the settings that the update uses."""
    numbers = traced_number(config.inner_rate), traced_number(config.discount)
    return MamlSettings(*numbers, trust_region_from_settings(config), config.first_order)


class Drawn(eqx.Module):
    """The members and random keys by which the tasks of an iteration are drawn."""

    members: Int[Array, "*seeds tasks"]
    keys: Key[Array, "*seeds tasks"]
    """The random key with which each task is drawn."""
    drawing: Any
    """The callable that draws a task in a member, stacked over seeds."""


class Amount(NamedTuple):
    """The number and the length of the episodes that are sampled for a task."""

    trajectories: int
    horizon: int


@eqx.filter_jit
def _draw_for_maml_iteration(
    keys: Key[Array, " seeds"], probabilities: tuple[float, ...], tasks: int
) -> tuple[Int[Array, "seeds tasks"], Key[Array, "seeds tasks"]]:
    """Draw the member of each task and the random key with which the task is drawn."""

    def one_seed(key: PRNGKeyArray) -> tuple[Int[Array, " tasks"], Key[Array, " tasks"]]:
        member_key, task_key = jax.random.split(key)
        return draw_members_of_class(probabilities, tasks, key=member_key), jax.random.split(task_key, tasks)

    return jax.vmap(one_seed)(keys)


@eqx.filter_jit
def _try_tasks_in_maml_iteration(
    policies: Policy,
    adapted: bool,
    environment_class: EnvironmentClass,
    drawn: Drawn,
    settings: MamlSettings,
    amount: Amount,
    keys: Key[Array, " seeds"],
) -> Experience:
    """Collect experience in every task.

    The policy of the seed acts. If `adapted` is true, there is a policy for each seed and task, which acts instead.
    """

    def one_seed(
        policy: Policy,
        drawn: Drawn,
        key: PRNGKeyArray,
        environment_class: EnvironmentClass,
        settings: MamlSettings,
    ) -> Experience:
        def one_task(policy: Policy, number: Int[Array, ""], task_key: PRNGKeyArray, key: PRNGKeyArray) -> Experience:
            member = environment_class[number]
            task = drawn.drawing(member, key=task_key)
            trajectories, horizon = amount
            return maml.experience_for_maml_update(
                policy, member, task, settings.discount, trajectories=trajectories, horizon=horizon, key=key
            )

        keys = jax.random.split(key, len(drawn.members))
        return jax.vmap(one_task, in_axes=(0 if adapted else None, 0, 0, 0))(policy, drawn.members, drawn.keys, keys)

    mapped = map_leading_axis(one_seed, environment_class=environment_class, settings=settings)
    return mapped(policies, drawn, keys)


@eqx.filter_jit
def _adapt_in_maml_iteration(policies: Policy, before: Experience, settings: MamlSettings) -> Policy:
    def one_seed(policy: Policy, before: Experience, settings: MamlSettings) -> Policy:
        return map_leading_axis(lambda samples: maml.adapt_by_maml_inner_step(policy, samples, settings))(before)

    return map_leading_axis(one_seed, settings=settings)(policies, before)


@eqx.filter_jit
def _improve_in_maml_iteration(
    policies: Policy, before: Experience, after: Experience, settings: MamlSettings
) -> tuple[Policy, MetaReport]:
    def one_seed(policy: Policy, before: Experience, after: Experience, settings: MamlSettings):
        improved, stepped = maml.maml_outer_step(policy, before, after, settings)
        judged = jax.tree.leaves((improved, stepped, before, after))
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in judged]))
        returns = jnp.mean(before.mean_return), jnp.mean(after.mean_return)
        return improved, MetaReport(*returns, stepped, finite)

    return map_leading_axis(one_seed, settings=settings)(policies, before, after)


@jax.jit
def _maml_iteration_keys(keys: Key[Array, " seeds"], iteration: Int[Array, ""]) -> tuple[Key[Array, " seeds"], ...]:
    parts = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, iteration), 3))(keys)
    return parts[:, 0], parts[:, 1], parts[:, 2]
