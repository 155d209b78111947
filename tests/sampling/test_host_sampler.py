"""Test the sampler of host classes: the steps that it collects, and its behaviour if environments end or fail."""

from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import Corridor, Walk

from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.host import HostClass
from alphamepol.environments.make import make
from alphamepol.environments.tasks import EnvironmentReward, Goal, RewardFunction, stack_tasks
from alphamepol.errors import RunError
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.policies.shape import PolicyShape, fresh_policy
from alphamepol.sampling.sampler import collect_episodes_with_sampler, collect_with_sampler
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.policy import PolicySettings


def policies_for(environment_class: HostClass, seeds: int = 1, memory: str = "none") -> Policy:
    member = environment_class[0]
    shape = PolicyShape.of_spaces(member.observation_space, member.action_space)
    settings = PolicySettings(hidden=(8,), initial_log_std=-1.0, memory=memory, recurrent_units=3)
    return stack_policies([fresh_policy(shape, settings, key=jax.random.key(seed)) for seed in range(seeds)])


def sample(environment_class: HostClass, members, *, batch=2, horizon=40, memory="none") -> Trajectories:
    members = jnp.array(members)
    keys = jax.random.split(jax.random.key(5), len(members))
    policies = policies_for(environment_class, len(members), memory)
    return collect_with_sampler(policies, environment_class, members, batch=batch, horizon=horizon, keys=keys)


def bits(trajectories: Trajectories) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(trajectories)]


WALKS = {"calm": partial(Walk, ends=0.02), "windy": partial(Walk, (0.3, 0.0), ends=0.02)}


@pytest.fixture(scope="module")
def collected() -> Trajectories:
    # There are more trajectories than stations, and the waves have different sizes.
    return sample(gymnasium_class(WALKS, workers=2, copies=3), [[0, 1, 1, 0, 1, 1, 0, 0, 1], [1] * 9], batch=4)


def test_steps_follow_each_other_as_the_environment_says(collected):
    places, actions, reached = (
        np.asarray(part) for part in (collected.perceived, collected.actions, collected.particles)
    )
    valid = np.asarray(collected.valid)
    # The place that a step reaches is the place that the policy perceives next.
    np.testing.assert_array_equal(places[..., 1:, :][valid[..., 1:]], reached[..., :-1, :][valid[..., 1:]])
    moves = reached - places - np.clip(actions, -0.5, 0.5)
    wind = np.array([[0.0, 0.0], [0.3, 0.0]])[np.asarray(collected.members)][:, :, None, None]
    assert np.abs((moves - wind)[valid]).max() < 0.05 * 6
    assert np.std((moves - wind)[valid]) == pytest.approx(0.05, rel=0.1)
    assert len(np.unique(places[..., 0, :].reshape(-1, 2), axis=0)) == 2 * 9 * 4  # all starts differ


def test_trajectories_end_where_the_environment_ends_them(collected):
    valid = np.asarray(collected.valid)
    assert valid[..., 0].all()
    assert (np.diff(valid.astype(int), axis=-1) <= 0).all()  # no step is valid after the end
    ended = ~valid[..., -1]
    assert 0.2 < ended.mean() < 0.9  # 1 − 0.98^39 = 0.55
    assert not np.asarray(collected.perceived)[~valid].any()  # nothing was done after the end


@pytest.mark.parametrize(("workers", "copies"), [(1, 1), (3, 11), (7, 3)])
def test_the_same_bits_for_any_number_of_workers(collected, workers, copies):
    environment_class = gymnasium_class(WALKS, workers=workers, copies=copies)
    again = sample(environment_class, collected.members.tolist(), batch=4)
    for one, other in zip(bits(collected), bits(again), strict=True):
        np.testing.assert_array_equal(one, other)
    environment_class.fleet.close()


def test_a_slow_environment_gives_what_a_quick_one_gives(collected):
    slow = {name: partial(maker, nap=0.0005) for name, maker in WALKS.items()}
    members = collected.members[:1, :2].tolist()
    quick, slowly = sample(gymnasium_class(WALKS), members), sample(gymnasium_class(slow), members)
    for one, other in zip(bits(quick), bits(slowly), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (
            "nan",
            r"environment bad: it gave an observation that is not finite \(nan at index 0\), after reset\(seed=\d+\)",
        ),
        ("raise", r"environment bad: it failed in step:(.|\n)*ZeroDivisionError: on demand"),
        ("die", r"environment bad: the worker process that ran it died \(exit code 3\)"),
    ],
)
def test_an_environment_that_fails_is_named_and_can_be_tried_again(trouble, sentence, tmp_path):
    where = tmp_path / "trouble"
    makers = {"good": Walk, "bad": partial(Walk, trouble=trouble, where=str(where))}
    environment_class = gymnasium_class(makers, workers=2)
    where.touch()
    assert sample(environment_class, [[0, 0]]).valid.all()
    with pytest.raises(RunError, match=sentence):
        sample(environment_class, [[0, 1]])
    where.unlink()
    assert sample(environment_class, [[0, 1]]).valid.all()


def test_an_environment_that_cannot_be_made_any_more_is_named(tmp_path):
    def make():
        if (tmp_path / "gone").exists():
            raise OSError("no licence left")
        return Walk()

    environment_class = gymnasium_class({"licensed": make}, workers=1)
    (tmp_path / "gone").touch()
    with pytest.raises(RunError, match=r"environment licensed: it failed in reset:(.|\n)*no licence left"):
        sample(environment_class, [[0]])


@pytest.mark.parametrize("memory", ["last", "recurrent"])
def test_memory_is_of_the_steps_before(memory):
    trajectories = sample(gymnasium_class({"walk": Walk}), [[0]], memory=memory)
    perceived, actions = np.asarray(trajectories.perceived)[0, 0], np.asarray(trajectories.actions)[0, 0]
    assert perceived.shape[-1] == 6
    np.testing.assert_array_equal(perceived[:, 0, 2:], 0.0)
    np.testing.assert_allclose(perceived[:, 1:, 4:], np.clip(actions[:, :-1], -0.5, 0.5) / 0.5, atol=1e-6)
    np.testing.assert_allclose(perceived[:, 1:, 2:4], np.diff(perceived[..., :2], axis=1), atol=1e-6)


def test_choices_and_parts_reach_the_environment():
    trajectories = sample(gymnasium_class({"corridor": Corridor}), [[0, 0, 0]], horizon=6)
    perceived, actions = np.asarray(trajectories.perceived), np.asarray(trajectories.actions)
    valid = np.asarray(trajectories.valid)
    # Gymnasium flattens the parts of a Dict in the order of their names.
    clock, place = perceived[..., :4], perceived[..., 4:].argmax(axis=-1)
    np.testing.assert_array_equal(clock[valid][:, 0], np.broadcast_to(np.arange(6), valid.shape)[valid])
    np.testing.assert_array_equal(place[..., 0], 2)
    expected = np.clip(place + 2 * actions - 1, 0, 4)[..., :-1]
    np.testing.assert_array_equal(place[..., 1:][valid[..., 1:]], expected[valid[..., 1:]])


def episodes_of(environment_class: HostClass, tasks, horizon=60):
    keys = jax.random.split(jax.random.key(8), len(tasks))
    policies = policies_for(environment_class, len(tasks))
    size = {"trajectories": 5, "horizon": horizon}
    return collect_episodes_with_sampler(
        policies, environment_class, environment_class.names[0], stack_tasks(tasks), **size, keys=keys
    )


def test_episodes_follow_each_other_and_have_the_environments_reward():
    environment_class = gymnasium_class({"walk": partial(Walk, ends=0.1)}, workers=2, copies=2)
    episodes = episodes_of(environment_class, [EnvironmentReward()] * 2)
    places, ended = np.asarray(episodes.perceived), np.asarray(episodes.ended)
    assert 0.05 < ended.mean() < 0.16
    goes_on = ~ended[..., :-1]
    moves = np.diff(places, axis=-2)[..., 0]
    np.testing.assert_allclose(moves[goes_on], np.asarray(episodes.rewards)[..., :-1][goes_on], atol=1e-5)
    # A new episode begins in the square of starts, at a different place every time.
    starts = places[..., 1:, :][~goes_on]
    assert np.abs(starts).max() <= 1
    assert len(np.unique(starts, axis=0)) == len(starts)
    again = episodes_of(gymnasium_class({"walk": partial(Walk, ends=0.1)}, workers=1), [EnvironmentReward()] * 2)
    for one, other in zip(jax.tree.leaves(episodes), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_goals_and_functions_of_what_is_seen_are_tasks_too():
    environment_class = gymnasium_class({"walk": partial(Walk, (0.2, 0.0))})
    goal = episodes_of(environment_class, [Goal([2.0, 0.0], radius=1.0)])
    reached, ended = np.asarray(goal.perceived)[0, :, 1:], np.asarray(goal.ended)[0, :, :-1]
    assert ended.any()
    near = np.linalg.norm(reached - [2.0, 0.0], axis=-1) <= 1.0
    assert not near[~ended].any()  # inside the goal an episode never goes on
    np.testing.assert_array_equal(np.asarray(goal.rewards), np.asarray(goal.ended).astype(float))
    north = RewardFunction(lambda state, action, reached: reached.observation[1] - state.observation[1])
    episodes = episodes_of(environment_class, [north], horizon=10)
    moves = np.diff(np.asarray(episodes.perceived)[0, :, :, 1], axis=-1)
    np.testing.assert_allclose(np.asarray(episodes.rewards)[0, :, :-1], moves, atol=1e-6)


def test_an_episode_that_a_time_limit_cuts_with_the_last_step_would_go_on():
    make = partial(gymnasium.wrappers.TimeLimit, max_episode_steps=20)
    environment_class = gymnasium_class({"walk": lambda: make(Walk())})
    episodes = episodes_of(environment_class, [EnvironmentReward()], horizon=40)
    ended = np.asarray(episodes.ended)[0]
    assert ended[:, 19].all()
    assert ended.sum() == len(ended)  # episodes end at step 19, but not at step 39
    # The last observation continues the second episode. It is not the start of a third one.
    gone = np.asarray(episodes.last_perceived)[0] - np.asarray(episodes.perceived)[0, :, -1]
    assert np.abs(gone).max() < 1.0


def test_ants_are_sampled_alike():
    trajectories = sample(make("ant-stairs"), [[0, 1]], batch=3, horizon=4)
    perceived, particles = np.asarray(trajectories.perceived), np.asarray(trajectories.particles)
    np.testing.assert_array_equal(perceived[..., 1:, :2], particles[..., :-1, :])
    assert (perceived[..., :2] != particles).any(axis=-1).all()
    heights = perceived[0, :, :, 0, 2]
    np.testing.assert_allclose(heights, np.broadcast_to([[1.27 + 0.75], [0.75]], (2, 3)), atol=0.1)
    assert trajectories.valid.all()
