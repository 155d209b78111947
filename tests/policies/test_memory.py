"""Test memory: the numbers that are added to an observation, their scales, and that all ways to compute them agree."""

import math

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import Autoreset
from jaxtyping import Array

from alphamepol import CMP, Gridworld, InputError, MemoryObservation, Policy, load_policy, make, save_policy
from alphamepol.algorithms.alphamepol.log_probabilities import log_probabilities
from alphamepol.algorithms.alphamepol.start import regress_mean_at_start
from alphamepol.environments.gridworld.gridworld import MAX_STEP
from alphamepol.environments.tasks import RewardFunction
from alphamepol.files.arrays import pack_arrays
from alphamepol.policies.files import FORMAT
from alphamepol.policies.memory import LARGEST, ActionRange, Memory
from alphamepol.policies.networks import feed_network
from alphamepol.policies.shape import PolicyShape, fresh_policy
from alphamepol.sampling.rollout import rollout, rollout_episodes
from alphamepol.settings.policy import PolicySettings

MEMBER = make("gridworld-slope")["GWN"]


class Drift(CMP):
    """A line on which an agent chooses among three moves. No space tells their size. It ends after `fuse` steps."""

    fuse: Array

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(3)

    @property
    def entropy_ceiling(self) -> float:
        return math.inf

    def reset(self, *, key):
        return jnp.array([5.0, 0.0])

    def step(self, state, action, *, key):
        return state + jnp.array([100.0 * (action - 1.0), 1.0])

    def observe(self, state):
        return state

    def features(self, state):
        return state

    def ended(self, state):
        return state[1] >= self.fuse


def policy_for(member: CMP, memory: str, hidden: tuple[int, ...] = (8,), seed: int = 0) -> Policy:
    shape = PolicyShape.of_spaces(member.observation_space, member.action_space)
    return fresh_policy(shape, PolicySettings(hidden, -1.0, memory, 5), key=jax.random.key(seed))


def with_scale(policy: Policy, change_scale: list[float]) -> Policy:
    return eqx.tree_at(lambda policy: policy.memory.change_scale, policy, jnp.array(change_scale))


@pytest.mark.parametrize("memory", ["last", "recurrent"])
def test_what_is_perceived_is_the_observation_its_last_change_and_the_clipped_action(memory) -> None:
    policy = with_scale(policy_for(MEMBER, memory), [0.1, 0.4])
    steps = rollout(policy, MEMBER, 30, key=jax.random.key(1))
    positions, changes, applied = np.split(np.asarray(steps.perceived), 3, axis=1)
    np.testing.assert_array_equal(positions[1:], steps.particles[:-1])
    np.testing.assert_array_equal(changes[0], 0)
    np.testing.assert_array_equal(applied[0], 0)
    np.testing.assert_allclose(changes[1:], np.diff(positions, axis=0) / [0.1, 0.4], rtol=1e-4, atol=1e-5)
    clipped = np.clip(steps.actions, -MAX_STEP, MAX_STEP) / MAX_STEP
    assert np.abs(steps.actions).max() > MAX_STEP
    np.testing.assert_allclose(applied[1:], clipped[:-1], rtol=1e-5, atol=1e-6)


def test_a_choice_is_remembered_as_one_of_its_kind_and_a_new_episode_remembers_nothing() -> None:
    member = Drift(jnp.array(4.0))
    policy = with_scale(policy_for(member, "last"), [100.0, 1.0])
    steps, last = rollout_episodes(policy, member, 10, RewardFunction(lambda *_: 0.0), key=jax.random.key(0))
    perceived = np.asarray(steps.perceived)
    remembered = perceived[:, 2:]
    starts = perceived[:, 1] == 0
    assert starts.tolist() == [t % 4 == 0 for t in range(10)]
    np.testing.assert_array_equal(remembered[starts], 0)
    after = np.flatnonzero(~starts)
    chosen = np.asarray(steps.actions)[after - 1]
    np.testing.assert_array_equal(remembered[after, 2:], np.eye(3)[chosen])
    np.testing.assert_allclose(remembered[after, 0], chosen - 1.0, atol=1e-6)
    np.testing.assert_array_equal(remembered[after, 1], 1.0)
    np.testing.assert_array_equal(last[4:], np.eye(3)[steps.actions[-1]])


@pytest.mark.parametrize("member", [MEMBER, Drift(jnp.array(7.0))], ids=["vectors", "choices"])
@pytest.mark.parametrize("memory", ["none", "last", "recurrent"])
def test_log_probabilities_of_a_trajectory_are_those_of_its_steps(memory, member) -> None:
    """Compare a scan over the whole trajectory with single steps, as in a rollout. Some episodes end early."""
    policy = policy_for(member, memory, (16, 16))
    states = rollout(policy, member, 60, key=jax.random.key(2))
    step_by_step, recollection = [], policy.begin()
    size = policy.observation_size
    for perceived, action in zip(states.perceived, states.actions, strict=True):
        observation = perceived[:size]
        np.testing.assert_allclose(policy.perceive(observation, recollection), perceived, rtol=1e-5, atol=1e-6)
        distribution = policy.distribution(observation, recollection)
        step_by_step.append(float(distribution.log_prob(action)))
        hidden = jnp.zeros(0)
        if policy.memory is not None:
            hidden = policy.memory.listen(perceived, recollection.hidden)
            recollection = policy.memory.remember(observation, action, hidden)
    found = log_probabilities(policy, states.perceived[None], states.actions[None])[0]
    np.testing.assert_allclose(found[states.valid], np.array(step_by_step)[states.valid], rtol=1e-5, atol=1e-5)


def test_a_recurrent_policy_remembers_more_than_the_last_step() -> None:
    policy = policy_for(MEMBER, "recurrent")
    perceived = rollout(policy, MEMBER, 12, key=jax.random.key(3)).perceived
    inputs = policy.network_inputs(perceived)
    changed = policy.network_inputs(perceived.at[2].add(1.0))
    moved = np.abs(np.asarray(inputs - changed)).max(axis=1) > 1e-6
    assert moved.tolist() == [t >= 2 for t in range(12)]
    forgotten = policy.network_inputs(perceived.at[2].add(1.0), jnp.arange(12) == 5)
    restarted = policy.network_inputs(perceived, jnp.arange(12) == 5)
    np.testing.assert_array_equal(forgotten[5:], restarted[5:])
    assert not np.allclose(restarted[5:], inputs[5:])


def test_act_is_a_draw_from_the_distribution_and_goes_on_where_the_rollout_would() -> None:
    policy = policy_for(MEMBER, "recurrent")
    key = jax.random.key(4)
    observation = np.array([0.2, -0.4])
    action, recollection = policy.act(observation, key=key)
    np.testing.assert_array_equal(action, policy.distribution(observation).sample(key=key))
    again, _ = policy.act(observation, policy.begin(), key=key)
    np.testing.assert_array_equal(action, again)
    assert recollection.begun
    np.testing.assert_allclose(recollection.observation, observation)
    without, nothing = policy_for(MEMBER, "none").act(observation, key=key)
    assert nothing is None
    assert without.shape == (2,)


def test_scales_are_the_root_mean_square_of_all_steps_so_far() -> None:
    """Steps can be measured in two parts or at once. Invalid steps do not count, and a known range is not measured."""
    random = np.random.default_rng(0)
    actions = ActionRange(0, (-1.0, -math.inf, 0.0), (1.0, math.inf, 6.0))
    memory = Memory(2, actions, key=jax.random.key(0))
    np.testing.assert_array_equal(memory.action_scale, [1.0, 1.0, 3.0])
    observations = np.cumsum(random.normal(size=(4, 50, 2)) * [3.0, 1000.0], axis=1).astype(np.float32)
    done = random.normal(size=(4, 50, 3)).astype(np.float32) * [2.0, 40.0, 1.0]
    perceived = jnp.concatenate([observations, np.zeros((4, 50, 5))], axis=-1)
    valid = np.ones((4, 50), bool)
    valid[1, 30:] = False

    changes = np.concatenate([np.diff(observations[i][valid[i]], axis=0) for i in range(4)])
    second = np.concatenate([done[i][valid[i]][:-1, 1] for i in range(4)])
    expected = np.sqrt(np.mean(changes**2, axis=0))
    measure = jax.jit(Memory.measure)
    at_once = measure(memory, perceived, jnp.asarray(done), jnp.asarray(valid))
    np.testing.assert_allclose(at_once.change_scale, expected, rtol=1e-4)
    np.testing.assert_allclose(at_once.action_scale, [1.0, np.sqrt(np.mean(second**2)), 3.0], rtol=1e-4)
    assert at_once.measured_steps == len(changes)
    in_parts = memory
    for part in (slice(0, 1), slice(1, 4)):
        in_parts = measure(in_parts, perceived[part], jnp.asarray(done[part]), jnp.asarray(valid[part]))
    np.testing.assert_allclose(in_parts.change_scale, at_once.change_scale, rtol=1e-4)

    still = measure(memory, jnp.zeros_like(perceived), jnp.zeros(done.shape), jnp.asarray(valid))
    np.testing.assert_array_equal(still.change_scale, 1.0)


def test_actions_are_remembered_within_their_range() -> None:
    actions = ActionRange(0, (-1.0, -math.inf, 0.0), (1.0, math.inf, 6.0))
    memory = Memory(1, actions, key=jax.random.key(0))
    kept = memory.remember(np.zeros(1), jnp.array([-7.0, 3.5, 6.5]), jnp.zeros(0))
    np.testing.assert_allclose(kept.action, [-1.0, 3.5, 1.0])
    far = memory.perceive(np.array([1e6]), kept)
    np.testing.assert_allclose(far, [1e6, LARGEST, -1.0, 3.5, 1.0])
    assert ActionRange(0, (-3e38,), (3e38,)).bounded == (False,)
    assert ActionRange.from_description(actions.describe()) == actions
    assert actions.describe() == {"low": [-1.0, None, 0.0], "high": [1.0, None, 6.0]}
    assert ActionRange.from_description(ActionRange(4).describe()) == ActionRange(4)


@pytest.mark.parametrize("member", [MEMBER, Drift(jnp.array(7.0))], ids=["vectors", "choices"])
@pytest.mark.parametrize("memory", ["last", "recurrent"])
def test_files_hold_memory_too(memory, member, tmp_path) -> None:
    policy = with_scale(policy_for(member, memory), [0.3, 0.7])
    save_policy(policy, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert jax.tree.structure(loaded) == jax.tree.structure(policy)
    assert all(map(np.array_equal, jax.tree.leaves(loaded), jax.tree.leaves(policy)))
    assert loaded.memory.kind == memory
    save_policy(loaded, tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "policy.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"actions": {"choices": 10**12}}, "describes other actions"),
        ({"actions": {"low": [0.0], "high": [1.0, 2.0]}}, "describes other actions"),
        ({"actions": {"strange": 1}}, "cannot be read"),
        ({"recurrent_units": 7}, "instead of"),
        ({"recurrent_units": "many"}, "cannot be read"),
    ],
)
def test_a_forged_memory_is_refused(change, sentence, tmp_path) -> None:
    policy = policy_for(MEMBER, "recurrent")
    architecture = policy.architecture | {"memory": policy.architecture["memory"] | change}
    path = tmp_path / "policy.safetensors"
    path.write_bytes(pack_arrays(policy, {"format": FORMAT, "architecture": architecture}))
    with pytest.raises(InputError, match=sentence):
        load_policy(path)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_memory_that_divides_by_what_is_no_size_is_refused(scale, tmp_path) -> None:
    save_policy(with_scale(policy_for(MEMBER, "last"), [0.1, scale]), tmp_path / "policy.safetensors")
    with pytest.raises(InputError, match="finite"):
        load_policy(tmp_path / "policy.safetensors")


def test_layers_and_gru_start_from_different_random_numbers() -> None:
    policy = policy_for(MEMBER, "recurrent")
    flat = [np.asarray(leaf).ravel()[:80] for leaf in (policy.layers[0].weight, policy.memory.recurrence.weight_ih)]
    assert abs(np.corrcoef(*flat)[0, 1]) < 0.4


def test_the_start_is_regressed_whatever_is_remembered() -> None:
    policy = policy_for(MEMBER, "recurrent", (300, 300))
    corner, target = jnp.ones(2), jnp.array([0.1, -0.1])
    regressed = regress_mean_at_start(policy, target, -corner, corner, key=jax.random.key(5))
    steps = rollout(regressed, MEMBER, 50, key=jax.random.key(6))
    inputs = regressed.network_inputs(steps.perceived)
    means = jax.vmap(lambda one: feed_network(regressed.layers, one))(inputs)
    assert np.abs(means - target).mean() < 0.06
    np.testing.assert_array_equal(regressed.memory.recurrence.weight_hh, policy.memory.recurrence.weight_hh)


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space")
@pytest.mark.parametrize("memory", ["last", "recurrent"])
def test_any_gymnasium_environment_can_be_seen_as_the_policy_sees_it(memory) -> None:
    """The wrapper shows what the policy perceives when it acts step by step. Pendulum clips actions."""
    env = gymnasium.make("Pendulum-v1")
    shape = PolicyShape.of_spaces(env.observation_space, env.action_space)
    policy = fresh_policy(shape, PolicySettings((8,), 1.5, memory, 4), key=jax.random.key(0))
    policy = with_scale(policy, [0.2, 0.2, 1.0])
    seen = MemoryObservation(env, policy)
    for seed in (0, 1):
        observation, recollection = seen.reset(seed=seed)[0], policy.begin()
        for step in range(5):
            assert seen.observation_space.contains(observation)
            np.testing.assert_allclose(
                observation, policy.perceive(observation[:3], recollection), rtol=1e-5, atol=1e-6
            )
            assert np.all(observation[3:] == 0) == (step == 0)
            action, recollection = policy.act(observation[:3], recollection, key=jax.random.key(step))
            observation = seen.step(np.asarray(action))[0]
    observation[0] = 0.0  # the observation must be writable, as the environment's own is
    itself = MemoryObservation(Autoreset(gymnasium.make("Pendulum-v1", max_episode_steps=3)), policy)
    itself.reset(seed=0)
    seen_first = [np.all(itself.step(np.ones(1, np.float32))[0][3:] == 0) for _ in range(8)]
    assert seen_first == [False, False, False, True, False, False, False, True]
    wrapped = MemoryObservation(gymnasium.make("Pendulum-v1").unwrapped, policy)
    check_env(wrapped, skip_render_check=True)
    with pytest.raises(InputError, match="it has no memory"):
        MemoryObservation(env, policy_for(MEMBER, "none"))
    with pytest.raises(InputError, match="2 observation numbers and actions within"):
        MemoryObservation(env, policy_for(MEMBER, "last"))


def test_a_policy_tells_members_apart_by_what_it_remembers() -> None:
    """After the same push from the same place, memory shows a change in opposite directions in the two members."""
    members = [Gridworld("..\n..", slope=slope, slope_mean=0.1) for slope in ("north", "south")]
    policy = with_scale(policy_for(members[0], "last"), [0.1, 0.1])
    _, recollection = policy.act(np.zeros(2), key=jax.random.key(0))
    push = jnp.array([0.05, 0.0])
    reached = [member.step(jnp.zeros(2), push, key=jax.random.key(1)) for member in members]
    changes = [np.asarray(policy.perceive(place, recollection))[2:4] for place in reached]
    assert changes[0][1] > 0.9
    assert changes[1][1] < -0.9
