"""One iteration of fine-tuning, all tasks and seeds in one program: collect episodes, improve."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from alphamepol.devices import lay
from alphamepol.environments.host import AnyClass
from alphamepol.learning.critic import Critic
from alphamepol.learning.trpo import TrpoReport, TrpoSettings, TrpoState, improve
from alphamepol.learning.trust_region import TrustRegion
from alphamepol.mapping import map_leading_axis
from alphamepol.policies import Policy, stack_policies
from alphamepol.runs.checks import check_finetuned
from alphamepol.runs.config import FinetuneConfig, MetatrainConfig
from alphamepol.runs.fresh import fresh_policies
from alphamepol.runs.loop import LoopState
from alphamepol.runs.stopwatch import LEARNING, SAMPLING, Stopwatch, wait
from alphamepol.sampling.sampler import collect_episodes
from alphamepol.sampling.trajectories import Episodes
from alphamepol.seeds import finetuning_keys
from alphamepol.tasks import Task


def start_finetuning(
    policies: Sequence[Policy],
    environment_class: AnyClass,
    member: str,
    tasks: int,
    config: FinetuneConfig,
    *,
    look: bool = True,
) -> LoopState:
    """A critic and a policy for each task and seed, seeds of a task side by side.

    The given policies are dealt out in turn; if there are none, each task and seed gets a fresh one. Unless `look` is
    true, nothing is measured of the class, and the state has the right shapes only.
    """
    rows = tasks * config.seeds
    parts = jax.vmap(lambda key: jax.random.split(key, 3))(finetuning_keys(config.seed, config.seeds, tasks))
    critic_keys, policy_keys, iterations_keys = parts[:, 0], parts[:, 1], parts[:, 2]
    if policies:
        stacked = stack_policies([policies[row % len(policies)] for row in range(rows)])
    else:
        members = jnp.full((rows, config.trajectories), environment_class.index(member))
        stacked = fresh_policies(
            policy_keys, environment_class, config, members=members, batch=1, horizon=config.horizon, look=look
        )
    return LoopState(_start(stacked, critic_keys, config.critic_hidden), iterations_keys)


@partial(jax.jit, static_argnames="critic_hidden")
def _start(policies: Policy, keys: Key[Array, " rows"], critic_hidden: tuple[int, ...]) -> TrpoState:
    def one(policy: Policy, key: PRNGKeyArray) -> TrpoState:
        image = policy.trunk and policy.trunk.shape
        return TrpoState(policy, Critic(policy.perceived_size, critic_hidden, image, key=key), jnp.array(False))

    return jax.vmap(one)(policies, keys)


def run_iteration(
    state: LoopState,
    iteration: int,
    environment_class: AnyClass,
    member: str,
    tasks: Task,
    config: FinetuneConfig,
    stopwatch: Stopwatch,
) -> tuple[LoopState, TrpoReport]:
    """What `iteration` does to the state, and a report; `tasks` are stacked like the state, one per row."""
    with stopwatch.phase(SAMPLING):
        sampling_keys, critic_keys = _keys_of(state.keys, jnp.array(iteration))
        policies: Policy = state.learners.policy
        size = {"trajectories": config.trajectories, "horizon": config.horizon, "keys": sampling_keys}
        episodes = wait(lay(collect_episodes(policies, environment_class, member, lay(tasks), **size)))
    with stopwatch.phase(LEARNING):
        learners, report, finite = wait(_improve(state.learners, episodes, trpo_settings(config), critic_keys))
        check_finetuned(finite, iteration, config.seed, config.seeds)
    return LoopState(learners, state.keys), report


def trpo_settings(config: FinetuneConfig) -> TrpoSettings:
    """The part of the configuration that TRPO uses."""
    return TrpoSettings(
        traced(config.discount),
        traced(config.gae_lambda),
        traced(config.critic_learning_rate),
        trust_region(config),
        config.critic_passes,
        config.critic_batch,
    )


def trust_region(config: FinetuneConfig | MetatrainConfig) -> TrustRegion:
    """The part of the configuration that says how far a step goes."""
    whole = config.conjugate_gradient_iterations, config.line_search_tries
    return TrustRegion(traced(config.max_kl), traced(config.damping), *whole)


def traced(number: float) -> Float[Array, ""]:
    """A number that a compiled program takes as it comes."""
    return jnp.array(number, jnp.float32)


@eqx.filter_jit
def _improve(learners: TrpoState, episodes: Episodes, settings: TrpoSettings, keys: Key[Array, " rows"]):
    def one(learner: TrpoState, episodes: Episodes, key: PRNGKeyArray, settings: TrpoSettings):
        improved, report = improve(learner, episodes, settings, key=key)
        judged = jax.tree.leaves(
            (improved.policy, improved.critic.trunk, improved.critic.layers, report, episodes.perceived)
        )
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in judged]))
        return improved, report, finite

    return map_leading_axis(one, settings=settings)(learners, episodes, keys)


@jax.jit
def _keys_of(keys: Key[Array, " rows"], iteration) -> tuple[Key[Array, " rows"], Key[Array, " rows"]]:
    parts = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, iteration)))(keys)
    return parts[:, 0], parts[:, 1]
