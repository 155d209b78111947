"""Test the worker processes of Gymnasium classes: their deaths are noticed, and no process outlives its use."""

import os
import signal
import subprocess
import sys
import time
import uuid
import warnings
from functools import partial
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from processes import LONGEST, processes_with_marker, wait_until_no_process_has
from toys import Walk
from troubled import CHILDREN, Parent, Troubled, Unloadable

from alphamepol.environments import environment_warnings
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.gymnasium.worker import NOTHING, Particle, Recipe, Worker
from alphamepol.environments.host import HostClass
from alphamepol.errors import RunError


@pytest.fixture
def marker(monkeypatch) -> str:
    """Return a text that all processes have in their environment variables that a test starts."""
    text = uuid.uuid4().hex
    monkeypatch.setenv("ALPHAMEPOL_TEST_MARKER", text)
    return text


@pytest.fixture
def where(tmp_path) -> Path:
    return tmp_path / "trouble"


def act(made: HostClass, *members: int, steps: int = 1) -> None:
    """Reset one station for each of the given members, and take steps there."""
    board, stations = made.fleet.board(len(members)), np.arange(len(members))
    made.fleet.reset(board, stations, np.array(members), np.arange(len(members), dtype=np.uint32))
    for _ in range(steps):
        made.fleet.step(board, stations, np.zeros((len(board.rewards), 2), np.float32))


def test_environments_may_start_processes_and_none_is_left(marker):
    made = gymnasium_class({"parent": partial(Parent, *CHILDREN)}, workers=1)
    wait_until_no_process_has(marker, longest=0)  # those of the trial are gone
    act(made, 0)
    # The worker, its watch and its resource tracker, the server of forkserver, and a sleeping process of each kind.
    assert len(processes_with_marker(marker)) >= 2 + len(CHILDREN)
    made.fleet.close()
    wait_until_no_process_has(marker, longest=0)


@pytest.mark.parametrize("how", ["kill", "_exit"])
def test_a_death_is_noticed_although_the_environment_has_forked(how, where, marker):
    bad = partial(Troubled, how, "step", str(where), children=("fork", "daemon"))
    made = gymnasium_class({"good": Walk, "bad": bad}, workers=2, copies=1)
    where.touch()
    sentence = {"kill": "signal SIGKILL", "_exit": "exit code 3"}[how]
    with pytest.raises(RunError, match=rf"environment bad: the worker process that ran it died \({sentence}\); look"):
        act(made, 0, 1)
    wait_until_no_process_has(marker, longest=0)
    where.unlink()
    act(made, 0, 1)
    made.fleet.close()


def test_a_death_is_noticed_while_another_worker_takes_long(where, marker):
    slow = partial(Troubled, "hang", "step", str(where))
    bad = partial(Troubled, "segfault", "step", str(where), children=("fork",))
    made = gymnasium_class({"slow": slow, "bad": bad}, workers=2, copies=1)
    where.touch()
    with pytest.raises(RunError, match=r"environment bad: the worker process that ran it died \(signal SIGSEGV\)"):
        act(made, 0, 1)
    wait_until_no_process_has(marker, longest=0)


def test_a_worker_that_dies_while_it_is_idle_blames_no_environment():
    made = gymnasium_class({"first": Walk}, workers=1)
    act(made, 0)
    os.kill(made.fleet._tree.workers[0].process.pid, signal.SIGKILL)
    with pytest.raises(RunError, match=r"^worker process 0, which was idle: it died \(signal SIGKILL\); look at"):
        act(made, 0)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("exit", "it failed in reset:\n(.|\n)*SystemExit: 3"),
        ("_exit", r"it died \(exit code 3\); look at the environment"),
    ],
)
def test_members_that_cannot_be_loaded_blame_no_environment(how, sentence, where):
    made = gymnasium_class({"first": Walk, "second": Unloadable(how, str(where))}, workers=1)
    where.touch()
    with pytest.raises(RunError, match=f"^worker process 0, which was loading the environments: {sentence}"):
        act(made, 0)


MAIN = """
import sys
from functools import partial
from pathlib import Path

import numpy as np
from troubled import Troubled

from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class

where, children = sys.argv[1], sys.argv[2:]
made = gymnasium_class({"bad": partial(Troubled, "hang", "step", where, tuple(children))}, workers=2, copies=1)
board, stations = made.fleet.board(2), np.arange(2)
made.fleet.reset(board, stations, np.zeros(2, int), np.arange(2, dtype=np.uint32))
Path(where).touch()
made.fleet.step(board, stations, np.zeros((len(board.rewards), 2), np.float32))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_a_main_process_that_is_ended_while_steps_hang(number, where, marker):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    begun = Path(f"{where}-begun")
    command = [sys.executable, "-c", f"import signal; signal.signal(2, signal.default_int_handler)\n{MAIN}", str(where)]
    process = subprocess.Popen([*command, "fork", "session", "daemon"], env=environment, stderr=subprocess.PIPE)
    end = time.monotonic() + LONGEST
    while not begun.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    assert len(processes_with_marker(marker)) >= 2 + 1 + 2 * 3
    process.send_signal(number)
    process.communicate(timeout=LONGEST)
    assert process.returncode == -number
    wait_until_no_process_has(marker)


def test_a_forked_copy_of_the_main_process_ends_no_worker():
    made = gymnasium_class({"walk": Walk}, workers=1)
    act(made, 0)
    fleet = made.fleet
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of a fork
        child = os.fork()
    if child == 0:
        try:
            fleet.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert fleet._tree.workers[0].process.poll() is None
    act(made, 0)
    fleet.close()


def test_an_error_in_close_is_told_once_and_loses_nothing(where, monkeypatch):
    monkeypatch.setattr(environment_warnings, "SHOWN", set())
    members = {how: partial(Troubled, how, "close", str(where)) for how in ("raise", "exit", "_exit")}
    made = gymnasium_class(members, workers=3, copies=1)
    where.touch()
    told = []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(2):
            act(made, 0, 1, 2)
            made.fleet.close()
            told.append(sorted(str(warning.message) for warning in shown))
    assert told[0] == told[1]
    assert told[0] == [
        "environment _exit: its close() ended the worker process (exit code 3)",
        "environment exit: its close() failed (SystemExit: 3)",
        "environment raise: its close() failed (ZeroDivisionError: on demand)",
    ]


def worker_of(*makers, entropy_on=None) -> tuple[Worker, dict[str, np.ndarray]]:
    """Return a worker in this process, and its board."""
    recipe = Recipe({str(number): maker for number, maker in enumerate(makers)}, Particle(entropy_on))
    pairs = ("observations", "particles", "actions")
    board = {name: np.zeros((2, 2), np.float32) for name in pairs} | {
        "rewards": np.zeros(2, np.float32),
        "over": np.zeros(2, bool),
        "cut": np.zeros(2, bool),
        "now": np.full(1, NOTHING),
    }
    return Worker(0, cloudpickle.dumps(recipe), board), board


@pytest.mark.parametrize("how", ["raise", "exit", "interrupt"])
@pytest.mark.parametrize("place", ["make", "reset", "step", "close"])
def test_every_error_of_an_environment_is_told(how, place, where):
    error = {"raise": "ZeroDivisionError: on demand", "exit": "SystemExit: 3", "interrupt": "KeyboardInterrupt"}[how]
    worker, board = worker_of(Walk, partial(Troubled, how, place, str(where)))
    where.touch()
    failure = worker.carry_out("reset", [(0, 0, 0, 0), (1, 0, 1, 0)]) or worker.carry_out("step", [0, 1])
    if place == "close":
        assert failure is None
        assert worker.carry_out("close", []) is None
        assert worker.unsent() == [(1, f"its close() failed ({error})", True)]
        assert board["now"][0] == NOTHING
    else:
        assert failure.startswith(f"it failed in {'step' if place == 'step' else 'reset'}:\nTraceback")
        assert error in failure
        assert board["now"][0] == 1


def leave(observation):
    sys.exit("enough")


def test_an_exit_in_entropy_on_is_told():
    worker, _ = worker_of(Walk, entropy_on=leave)
    assert worker.carry_out("reset", [(0, 0, 0, 0)]) is None  # at a start the particle may be unknown
    assert worker.carry_out("step", [0]) == "entropy_on failed (SystemExit: enough)"
