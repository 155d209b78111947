"""Test Gymnasium classes whose workers are actors of a Ray cluster: a real one, of two nodes on this machine."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import LONGEST, wait_until_no_process_has
from ray_clusters import TwoNodes
from toys import Walk
from troubled import Troubled

from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.gymnasium.ray_fleet import cluster as ray_cluster
from alphamepol.environments.gymnasium.ray_fleet.actor import Introduction
from alphamepol.environments.gymnasium.ray_fleet.cluster import Actor, NoActorError, RayCluster
from alphamepol.environments.host import HostClass
from alphamepol.errors import RunError
from alphamepol.policies.policy import stack_policies
from alphamepol.policies.shape import PolicyShape, fresh_policy
from alphamepol.sampling.host_sampler import collect_on_host
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.policy import PolicySettings

HORIZON, ROWS = 12, 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    """Return a cluster of a head and another node, with two cores each. Ray's paths must be short."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        made = TwoNodes(Path(folder))
        try:
            made.add(2)
            made.add(2)
            yield made
        finally:
            made.end()


@pytest.fixture
def connected(cluster, monkeypatch) -> TwoNodes:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return cluster


def sample(made: HostClass, seed: int = 1) -> Trajectories:
    """Return the samples of a policy with memory in both members of a class."""
    shape = PolicyShape.of_spaces(made[0].observation_space, made[0].action_space)
    settings = PolicySettings((8, 8), memory="recurrent", recurrent_units=4)
    policies = stack_policies([fresh_policy(shape, settings, 0, key=jax.random.key(0))])
    members = jnp.arange(ROWS)[None] % len(made)
    return collect_on_host(policies, made, members, batch=1, horizon=HORIZON, keys=jax.random.key(seed)[None])


def same_bits(one: Trajectories, other: Trajectories) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


MEMBERS = {"calm": partial(Walk, ends=0.02), "windy": partial(Walk, (0.1, 0.0), ends=0.02)}


@pytest.fixture(scope="module")
def local() -> Trajectories:
    """Return the samples of two local workers."""
    made = gymnasium_class(MEMBERS, workers=2)
    found = sample(made)
    made.fleet.close()
    return found


class After:
    """A fleet that calls a function before its n-th step."""

    def __init__(self, fleet, number: int, then: Callable[[], object]):
        self.fleet, self.number, self.then, self.steps = fleet, number, then, 0
        self.board, self.reset, self.close = fleet.board, fleet.reset, fleet.close

    def step(self, board, stations, actions):
        self.steps += 1
        if self.steps == self.number:
            self.then()
        self.fleet.step(board, stations, actions)


def interrupted(made: HostClass, then: Callable[[], object]) -> HostClass:
    """Return the class with a fleet that calls a function in the middle of the first wave."""
    members = dict(zip(made.names, made.members, strict=True))
    return HostClass(members, After(made.fleet, 7, then), made.probabilities)


def test_samples_have_the_bits_of_local_workers_whichever_worker_or_node_is_lost(connected, local):
    head, other = connected.nodes
    made = gymnasium_class(MEMBERS, workers="ray", copies=12)
    board = made.fleet.board(ROWS)
    assert (board.together, len(board.over)) == (48, 64)  # so that the policy acts in two batches
    assert same_bits(sample(made), local)
    assert len(connected.actors(head)) == len(connected.actors(other)) == 2

    sentence = r"worker \d on Ray was lost \(process \d+ on node .*\) while it ran environments? .*: its process died; "
    with pytest.warns(UserWarning, match=rf"{sentence}\d+ trajectories are sampled again, from the same seed"):
        found = sample(interrupted(made, lambda: os.kill(connected.actors(other)[0], signal.SIGKILL)))
    assert same_bits(found, local)

    with pytest.warns(UserWarning, match=r"worker \d on Ray was lost"):
        found = sample(interrupted(made, lambda: connected.kill(other)))
    assert same_bits(found, local)
    assert len(connected.actors(head)) == 4  # on the cores that are left

    made.fleet.close()
    wait_until(lambda: connected.actors(head) == [])


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def fail_on_ray(made: HostClass, where: Path) -> str:
    """Return the message with which a class of troubled members stops, once the file `where` is there."""
    board, stations = made.fleet.board(2), np.arange(2)
    made.fleet.reset(board, stations, stations, np.arange(2, dtype=np.uint32))
    where.touch()
    with pytest.raises(RunError) as stopped:
        made.fleet.step(board, stations, np.zeros((len(board.over), 2), np.float32))
    return str(stopped.value)


def test_an_error_names_the_member(connected, tmp_path):
    where = tmp_path / "trouble"
    members = {"good": Walk, "bad": partial(Troubled, "raise", "step", str(where))}
    sentence = fail_on_ray(gymnasium_class(members, workers="ray:1", copies=2), where)
    assert sentence.startswith("environment bad: it failed in step:\nTraceback")
    assert sentence.endswith("ZeroDivisionError: on demand\n")


def test_an_environment_that_ends_every_worker_stops_the_run(connected, tmp_path):
    where = tmp_path / "trouble"
    members = {"good": Walk, "bad": partial(Troubled, "_exit", "step", str(where))}
    with pytest.warns(UserWarning, match="worker 1 on Ray was lost .* while it ran environment bad"):
        sentence = fail_on_ray(gymnasium_class(members, workers="ray:2", copies=1), where)
    assert sentence == (
        "workers on Ray: environment bad: the workers that ran it were lost 3 times in a row (its process died); look "
        "at the environment or at the memory of the nodes, then continue with --resume"
    )


class Forgetful(Walk):
    """A walk that draws from a generator which `reset` does not seed."""

    def step(self, action):
        if Path(self.where).exists():
            Path(self.where).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        self.place = self.place + np.random.default_rng().normal(size=2)
        return super().step(action)


def test_a_trajectory_that_cannot_be_repeated_is_not_continued(connected, tmp_path):
    where = tmp_path / "trouble"
    made = gymnasium_class({"odd": partial(Forgetful, where=str(where))}, workers="ray:1", copies=1)
    board, station = made.fleet.board(1), np.zeros(1, int)
    made.fleet.reset(board, station, station, np.zeros(1, np.uint32))
    actions = np.zeros((len(board.over), 2), np.float32)
    made.fleet.step(board, station, actions)
    where.touch()
    sentence = r"environment odd: a worker was lost, and the same seed \(0\) and the same 1 actions now gave another"
    with pytest.warns(UserWarning, match="worker 0 on Ray was lost"), pytest.raises(RunError, match=sentence):
        made.fleet.step(board, station, actions)


MAIN = """
import sys
from functools import partial
from pathlib import Path

import numpy as np
from troubled import Troubled

from alphamepol.environments.gymnasium.ray_fleet import cluster as ray_cluster
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.gymnasium.ray_fleet.actor import Introduction
from alphamepol.environments.gymnasium.ray_fleet.cluster import Actor, NoActorError, RayCluster

where = sys.argv[1]
made = gymnasium_class({"bad": partial(Troubled, "hang", "step", where)}, workers="ray:2", copies=1)
board, stations = made.fleet.board(2), np.arange(2)
made.fleet.reset(board, stations, np.zeros(2, int), np.arange(2, dtype=np.uint32))
Path(where).touch()
made.fleet.step(board, stations, np.zeros((len(board.rewards), 2), np.float32))
"""


@pytest.mark.parametrize(("number", "ours"), [(signal.SIGKILL, True), (signal.SIGTERM, False)])
def test_no_actor_outlives_a_main_process_that_is_ended(cluster, number, ours, tmp_path):
    """With a cluster of our own on this machine, the whole cluster ends, too."""
    marker, where = uuid.uuid4().hex, tmp_path / "trouble"
    more = {"ALPHAMEPOL_TEST_MARKER": marker, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment = os.environ | more | ({} if ours else cluster.environment)
    process = subprocess.Popen([sys.executable, "-c", MAIN, str(where)], env=environment, stderr=subprocess.PIPE)
    wait_until(lambda: Path(f"{where}-begun").exists() or process.poll() is not None)
    assert process.poll() is None
    assert ours or len(all_actors(cluster)) == 2
    process.send_signal(number)
    _, shown = process.communicate(timeout=LONGEST)
    assert shown == b""  # Ray says nothing in the terminal
    wait_until_no_process_has(marker)
    wait_until(lambda: all_actors(cluster) == [])


def all_actors(cluster: TwoNodes) -> list[int]:
    return [number for node in cluster.nodes for number in cluster.actors(node)]


class EmptyRay:
    """A stand-in for the module `ray`, in a cluster whose nodes with cores are all lost."""

    def __init__(self):
        self.killed = []

    def available_resources(self):
        return {}

    def nodes(self):
        return [{"Alive": False, "Resources": {"CPU": 4.0}}, {"Alive": True, "Resources": {}}]

    def kill(self, handle, no_restart):
        self.killed.append(handle)


def test_a_run_stops_resumable_if_no_node_is_left(monkeypatch):
    monkeypatch.setattr(ray_cluster.time, "sleep", lambda seconds: None)
    left = RayCluster(b"")
    left._ray = EmptyRay()
    lost = Actor("handle", Introduction("node", "host", 1, "version"))
    with pytest.raises(NoActorError, match=r"no node of the cluster could run others \(none has cores\); cont"):
        left.replace([lost])
    assert left._ray.killed == ["handle"]


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    made = gymnasium_class({"walk": Walk}, workers="ray")
    with pytest.raises(RunError, match=r"^workers on Ray: no Ray cluster can be used at 127.0.0.1:1 \(.*refused\)"):
        made.fleet.board(1)
