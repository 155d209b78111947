"""One iteration of fine-tuning for all tasks and seeds in one program: collect episodes, improve the policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetuner import FineTuner
from alphamepol.compute.devices import lay_over_devices, wait_for_devices
from alphamepol.compute.keys import finetuning_keys
from alphamepol.compute.mapping import map_leading_axis
from alphamepol.compute.stopwatch import LEARNING, SAMPLING, Stopwatch
from alphamepol.environments.host import AnyClass
from alphamepol.environments.tasks import Task, stack_tasks
from alphamepol.errors import RunError
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.runs.loop import LoopState
from alphamepol.runs.untrained import FirstLook, untrained_policies_for_class
from alphamepol.sampling.sampler import collect_episodes_with_sampler
from alphamepol.sampling.trajectories import Episodes


@dataclass(frozen=True)
class Plan:
    """The parts of fine-tuning that are the same for every initial policy."""

    environment_class: AnyClass
    member: str
    tasks: Sequence[Task]
    config: FinetuneConfig
    finetuner: FineTuner[Any]

    @property
    def rows(self) -> int:
        """The number of rows that run side by side: one for each task and seed."""
        return len(self.tasks) * self.config.seeds

    def task_of_rows(self) -> Task:
        """Return the task of every row, stacked. The seeds of a task are next to each other."""
        return stack_tasks([task for task in self.tasks for _ in range(self.config.seeds)])


class IterationReport(eqx.Module):
    """The report of one iteration, row by row."""

    mean_return: Float[Array, "*rows"]
    """The mean return of the policy that sampled the iteration."""
    learned: Any
    """The report of the algorithm."""


def start_finetuning_iterations(policies: Sequence[Policy], plan: Plan, *, look: bool = True) -> LoopState:
    """Return the state before the first iteration, with a row for each task and seed. The seeds of a task are next to
    each other.

    The rows get the given policies in turn. If no policy is given, each row gets a fresh one. If `look` is false, the
    class is not sampled to measure scales, and only the shapes of the state are right.
    """
    config = plan.config
    keys = finetuning_keys(config.seed, config.seeds, len(plan.tasks))
    learner_keys, policy_keys, iterations_keys = _split_finetuning_keys(keys)
    if policies:
        stacked = stack_policies([policies[row % len(policies)] for row in range(plan.rows)])
    else:
        number = plan.environment_class.index(plan.member)
        members = jax.device_put(np.full((plan.rows, config.trajectories), number, np.int32))
        first = FirstLook(members, 1, config.horizon) if look else None
        stacked = untrained_policies_for_class(policy_keys, plan.environment_class, config.policy, first)
    return LoopState(_start_finetuning_iteration_rows(plan.finetuner, config, stacked, learner_keys), iterations_keys)


@jax.jit
def _split_finetuning_keys(keys: Key[Array, " rows"]) -> tuple[Key[Array, " rows"], ...]:
    """Return keys for the learner, for the policy and for the iterations of every task and seed."""
    parts = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
    return parts[:, 0], parts[:, 1], parts[:, 2]


@eqx.filter_jit
def _start_finetuning_iteration_rows(
    finetuner: FineTuner[Any], config: FinetuneConfig, policies: Policy, keys: Key[Array, " rows"]
) -> Any:
    return jax.vmap(lambda policy, key: finetuner.start(policy, config, key=key))(policies, keys)


def run_finetuning_iteration(
    state: LoopState, iteration: int, plan: Plan, tasks: Task, stopwatch: Stopwatch
) -> tuple[LoopState, IterationReport]:
    """Improve the policy of every task and seed by one iteration. `tasks` holds the task of every row, stacked."""
    config = plan.config
    with stopwatch.phase(SAMPLING):
        sampling_keys, learning_keys = _finetuning_iteration_keys(state.keys, jnp.array(iteration))
        episodes = collect_episodes_with_sampler(
            state.learners.policy,
            plan.environment_class,
            plan.member,
            lay_over_devices(tasks),
            trajectories=config.trajectories,
            horizon=config.horizon,
            keys=sampling_keys,
        )
        episodes = wait_for_devices(lay_over_devices(episodes))
    with stopwatch.phase(LEARNING):
        settings = plan.finetuner.settings(config)
        improved = wait_for_devices(
            _improve_in_finetuning_iteration(plan.finetuner, state.learners, episodes, settings, learning_keys)
        )
        learners, report, finite = improved
        check_finetuning_iteration(finite, iteration, config)
    return LoopState(learners, state.keys), report


@eqx.filter_jit
def _improve_in_finetuning_iteration(
    finetuner: FineTuner[Any], learners: Any, episodes: Episodes, settings: Any, keys: Key[Array, " rows"]
):
    def one(learner: Any, episodes: Episodes, key: PRNGKeyArray, settings: Any):
        improved, report = finetuner.improve(learner, episodes, settings, key=key)
        judged = jax.tree.leaves(eqx.filter((improved, report, episodes), eqx.is_inexact_array))
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in judged]))
        return improved, IterationReport(episodes.mean_return, report), finite

    return map_leading_axis(one, settings=settings)(learners, episodes, keys)


@jax.jit
def _finetuning_iteration_keys(keys: Key[Array, " rows"], iteration) -> tuple[Key[Array, " rows"], Key[Array, " rows"]]:
    parts = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, iteration)))(keys)
    return parts[:, 0], parts[:, 1]


def check_finetuning_iteration(finite: Bool[Array, " rows"], iteration: int, config: FinetuneConfig) -> None:
    """Raise a `RunError` if a number that was sampled or computed in the iteration is not finite."""
    lost = np.flatnonzero(~np.asarray(finite))
    if lost.size:
        task, which = divmod(int(lost[0]), config.seeds)
        raise RunError(
            f"iteration {iteration}, task {task}, seed {config.seed + which}: a state, a reward or a parameter is no "
            "longer finite; look at the reward and the environment, or start again with a lower learning rate"
        )
