"""The sampler of host classes. The policy acts for many environments at once, and a fleet steps them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped, UInt32

from alphamepol.compute.devices import device_for_little_work
from alphamepol.compute.keys import RESETS
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.cmp import Member
from alphamepol.environments.host import Board, HostClass, HostMember, HostState
from alphamepol.environments.tasks import Task
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Episodes, Trajectories

FEW = 64
"""The largest number of rows for which the policy runs on the CPU, which is then faster than any accelerator."""


def collect_on_host(
    policies: Policy,
    environment_class: HostClass,
    members: Int[Array, "seeds minibatches"],
    *,
    batch: int,
    horizon: int,
    keys: Key[Array, " seeds"],
) -> Trajectories:
    """Collect trajectories in a host class, one seed after the other; see `collect_with_sampler`."""
    of_seeds = []
    for number, key in enumerate(keys):
        policy = take_from_trees(policies, number)
        rows = np.repeat(np.asarray(members[number]), batch)
        steps, _ = _sample_on_host(policy, environment_class, rows, horizon, None, key)
        of_seeds.append(jax.tree.map(lambda leaf: leaf.reshape(-1, batch, *leaf.shape[1:]), steps))
    steps = _stack_host_samples(of_seeds)
    return Trajectories(steps.perceived, steps.actions, steps.particles, steps.valid, members)


def collect_episodes_on_host(
    policies: Policy,
    environment_class: HostClass,
    member: int,
    tasks: Task,
    *,
    trajectories: int,
    horizon: int,
    keys: Key[Array, " tasks"],
) -> Episodes:
    """Collect episodes in a host class, one task after the other; see `collect_episodes_with_sampler`."""
    of_tasks = []
    for number, key in enumerate(keys):
        policy, task = take_from_trees((policies, tasks), number)
        of_tasks.append(_sample_on_host(policy, environment_class, np.full(trajectories, member), horizon, task, key))
    steps, last = _stack_host_samples(of_tasks)
    return Episodes(steps.perceived, steps.actions, steps.rewards, steps.ended, last)


class Steps(NamedTuple):
    """Every step of every trajectory. The fields mean the same as those of `rollout.Rollout`."""

    perceived: Float[np.ndarray, "rows time inputs"]
    actions: Shaped[np.ndarray, "rows time ..."]
    particles: Float[np.ndarray, "rows time features"]
    rewards: Float[np.ndarray, "rows time"]
    ended: Bool[np.ndarray, "rows time"]
    valid: Bool[np.ndarray, "rows time"]


@dataclass(frozen=True)
class _Batch:
    """The trajectories of one policy, and the arrays to which their steps are written."""

    policy: Policy
    environment_class: HostClass
    members: Int[np.ndarray, " rows"]
    task: Task | None
    keys: Key[Array, " rows"]
    steps: Steps
    last: Float[np.ndarray, "rows inputs"]


def _sample_on_host(
    policy: Policy,
    environment_class: HostClass,
    members: Int[np.ndarray, " rows"],
    horizon: int,
    task: Task | None,
    key: PRNGKeyArray,
) -> tuple[Steps, Float[np.ndarray, "rows inputs"]]:
    """Act for `horizon` steps in each of the given members. With a task, a new episode follows each one that ends.

    Returns the steps, and what the policy perceives after the last step.
    """
    rows, board = len(members), environment_class.fleet.board(len(members))
    stations = len(board.over)
    steps, last = _room_for_host_samples(policy, environment_class[0], rows, horizon)
    if (board.batch or stations) <= FEW:
        policy, key = jax.device_put((policy, key), device_for_little_work())
    batch = _Batch(policy, environment_class, members, task, jax.random.split(key, rows), steps, last)
    # A wave never continues at the first station after the last one. The station of a trajectory then does not depend
    # on the number of trajectories that run together.
    for block in range(0, rows, stations):
        for first in range(block, min(block + stations, rows), board.together):
            _sample_wave_on_host(batch, board, np.arange(first, min(first + board.together, block + stations, rows)))
    return steps, last


def _sample_wave_on_host(batch: _Batch, board: Board, wave: Int[np.ndarray, " wave"]) -> None:
    """Run the trajectories of a wave step by step, and write their steps into the arrays of the batch.

    A wave is a group of trajectories that run at the same time.
    """
    policy, members, task, steps = batch.policy, batch.members, batch.task, batch.steps
    fleet, member = batch.environment_class.fleet, batch.environment_class.describe(int(members[wave[0]]))
    at = wave % len(board.over)
    row_at = np.zeros(len(board.over), int)
    row_at[at] = wave
    keys, fresh = batch.keys[row_at], np.ones(len(board.over), bool)
    parts = [part for part in board.batches if _are_in_batch(at, part).any()]
    actors = [_Actor(policy, keys[part], part) for part in parts]
    fleet.reset(board, at, members[wave], _reset_seeds_of_host_sampler(keys, RESETS)[at])
    horizon = steps.valid.shape[1]
    for t in range(horizon):
        actors = [actor for actor in actors if _are_in_batch(at, actor.part).any()]
        perceived, actions = _act_in_batches(actors, board, fresh, t)
        before = [] if task is None else [_host_state_while_sampling(board, actor.part) for actor in actors]
        fleet.step(board, at, actions)
        steps.perceived[wave, t], steps.actions[wave, t] = perceived[at], actions[at]
        steps.particles[wave, t], steps.valid[wave, t] = board.particles[at], True
        if task is None:
            goes_on = ~(board.cut if member.endless else board.over | board.cut)[at]
            wave, at, fresh = wave[goes_on], at[goes_on], np.zeros_like(fresh)
            if not at.size:
                break
            continue
        rewards, fresh = np.zeros(len(board.over), np.float32), np.zeros_like(fresh)
        for actor, state in zip(actors, before, strict=True):
            # The last step of the trajectory cuts every episode anyway. There a time limit does not count as an end.
            after = _host_state_while_sampling(board, actor.part, cut_is_over=t < horizon - 1)
            judged = _judge_steps_in_host_sampler(task, member, state, actions[actor.part], after)
            rewards[actor.part], fresh[actor.part] = judged
        steps.rewards[wave, t], steps.ended[wave, t] = rewards[at], fresh[at]
        again = at[fresh[at]]
        if again.size and t < horizon - 1:
            fleet.reset(board, again, members[row_at[again]], _reset_seeds_of_host_sampler(keys, RESETS + 1 + t)[again])
    if at.size:
        perceived, _ = _act_in_batches(actors, board, fresh, horizon)
        batch.last[wave] = perceived[at]


class _Actor:
    """The policy in one batch of the stations, during one wave. It always acts at all stations of its batch."""

    def __init__(self, policy: Policy, keys: Key[Array, " batch"], part: slice):
        self.policy = policy
        self.keys = keys
        self.part = part
        self.recollections = _begin_host_sampling(policy, len(keys))

    def act(
        self, observations: Float[np.ndarray, "batch observation"], fresh: Bool[np.ndarray, " batch"], t: int
    ) -> tuple[Float[Array, "batch inputs"], Shaped[Array, "batch ..."]]:
        """Return what is perceived and the action at every station of the batch."""
        perceived, actions, self.recollections = _choose_actions_in_host_sampler(
            self.policy, observations, self.recollections, fresh, self.keys, np.int32(t)
        )
        return perceived, actions


def _are_in_batch(stations: Int[np.ndarray, " some"], part: slice) -> Bool[np.ndarray, " some"]:
    return (stations >= part.start) & (stations < part.stop)


def _act_in_batches(
    actors: Sequence[_Actor], board: Board, fresh: Bool[np.ndarray, " stations"], t: int
) -> tuple[Float[np.ndarray, "stations inputs"], Shaped[np.ndarray, "stations ..."]]:
    """Return what is perceived and the action at every station. At stations without an actor, both are zero."""
    # JAX may use the memory of a given array without a copy, and the next step changes the board. The batches are
    # computed side by side, because JAX does not wait for the first result before it starts on the second.
    shown = board.observations.copy()
    found = [actor.act(shown[actor.part], fresh[actor.part], t) for actor in actors]
    perceived, actions = (np.zeros((len(shown), *one.shape[1:]), one.dtype) for one in found[0])
    for actor, (seen, chosen) in zip(actors, found, strict=True):
        perceived[actor.part], actions[actor.part] = seen, chosen
    return perceived, actions


def _room_for_host_samples(
    policy: Policy, member: HostMember, rows: int, horizon: int
) -> tuple[Steps, Float[np.ndarray, "rows inputs"]]:
    """Allocate the arrays for the steps. Steps that are never taken stay zero and are not valid."""
    space = member.action_space
    shape = rows, horizon
    return Steps(
        np.zeros((*shape, policy.perceived_size), np.float32),
        np.zeros((*shape, *(space.shape or ())), np.float32 if space.shape else np.int32),
        np.zeros((*shape, member.feature_size), np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, bool),
        np.zeros(shape, bool),
    ), np.zeros((rows, policy.perceived_size), np.float32)


def _host_state_while_sampling(board: Board, part: slice, *, cut_is_over: bool = False) -> HostState:
    """Copy what the board shows now at some stations.

    With `cut_is_over`, an episode that a time limit has cut counts as over.
    """
    over = board.over | board.cut if cut_is_over else board.over
    shown = board.observations, board.particles, board.rewards, over
    return HostState(*(jnp.array(array[part]) for array in shown))


def _begin_host_sampling(policy: Policy, stations: int):
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (stations, *leaf.shape)), policy.begin())


def _reset_seeds_of_host_sampler(keys: Key[Array, " stations"], number: int) -> UInt32[np.ndarray, " stations"]:
    """Return a seed for every station. Another number gives other seeds."""
    return np.asarray(_random_bits_of_host_sampler(keys, np.int32(number)))


@jax.jit
def _random_bits_of_host_sampler(keys, number):
    return jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, number), dtype=jnp.uint32))(keys)


@jax.jit
def _choose_actions_in_host_sampler(policy: Policy, observations, recollections, fresh, keys, t):
    """Return what is perceived, the action, and the new recollection at every station."""

    def one(observation, recollection, fresh, key):
        recollection = jax.tree.map(lambda new, old: jnp.where(fresh, new, old), policy.begin(), recollection)
        action, remembered = policy.act(observation, recollection, key=jax.random.fold_in(key, t))
        return policy.perceive(observation, recollection), action, remembered

    return jax.vmap(one)(observations, recollections, fresh, keys)


@jax.jit
def _judge_steps_in_host_sampler(task: Task, member: Member, before: HostState, actions, after: HostState):
    """Return the reward at every station, and whether the episode is over."""

    def one(before: HostState, action: Shaped[Array, "..."], after: HostState):
        return task.reward(member, before, action, after), member.ended(after) | task.ended(member, after)

    return jax.vmap(one)(before, actions, after)


def _stack_host_samples(parts):
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *parts)
