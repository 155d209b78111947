"""Worker processes that end with this process, together with all processes that they start themselves."""

import multiprocessing
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import IO, Any

from alphamepol.compute import process_watch
from alphamepol.compute.process_watch import kill_marked_processes

VARIABLE = "ALPHAMEPOL_PROCESS_TREE"
"""The environment variable that holds the marks of a worker process. A worker may itself have workers."""
LOOK_EVERY = 1.0
"""The seconds after which we look whether a silent worker is still alive.

The connection of a dead worker stays open as long as a process lives that the worker has forked."""
PROGRAM = """
import importlib, signal, sys
from multiprocessing.connection import Connection
for number in (signal.SIGINT, signal.SIGTTOU, signal.SIGTTIN):
    signal.signal(number, signal.SIG_IGN)
connection = Connection(int(sys.argv[1]))
sys.path[:], sys.argv[:], module, function = connection.recv()
getattr(importlib.import_module(module), function)(connection, *connection.recv())
"""
"""The program of a worker process.

A notebook or a cluster may send SIGINT to all processes, but the main process decides when workers stop. A worker is in
the background of its terminal. SIGTTOU and SIGTTIN would stop it there when it writes or reads."""
_living: "set[ProcessTree]" = set()


class WorkerProcess:
    """A worker process, and the connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection):
        self.process = process
        self.connection = connection
        self.owes_answer = False
        """True if the worker has not answered the last message that it was told."""
        self._ready = select.poll()  # four times as fast as `connection.poll`
        self._ready.register(connection.fileno(), select.POLLIN)

    def tell(self, message: Any) -> None:
        """Send a message. Raises a `DeadWorkerError` if the worker has died."""
        self.owes_answer = True
        try:
            self.connection.send(message)
        except OSError as error:
            raise _dead_worker(self) from error

    def answer(self, others: "Sequence[WorkerProcess]" = ()) -> Any:
        """Wait for a message. Raises a `DeadWorkerError` if this worker, or one of the others, has died."""
        try:
            while not self._ready.poll(1000 * LOOK_EVERY):
                for worker in (self, *others):
                    if worker.has_ended():
                        raise _dead_worker(worker)
            found = self.connection.recv()
        except (EOFError, OSError) as error:
            raise _dead_worker(self) from error
        self.owes_answer = False
        return found

    def has_ended(self, wait: float = 0.0) -> bool:
        """Return True if the worker has ended, or ends within `wait` seconds."""
        try:
            self.process.wait(wait)
        except subprocess.TimeoutExpired:
            return False
        return True

    def how_it_ended(self) -> str:
        """Return the exit code of the worker, or the signal that has ended it."""
        status = self.process.returncode
        if status is None:
            return "it has closed its connection"
        if status >= 0:
            return f"exit code {status}"
        known = {number.value: number.name for number in signal.Signals}
        return f"signal {known.get(-status, -status)}"


class DeadWorkerError(Exception):
    """The error of a worker process that has died. `how` says how it ended."""

    def __init__(self, worker: WorkerProcess, how: str):
        super().__init__(how)
        self.worker = worker
        self.how = how


class ProcessTree:
    """Worker processes, and all processes that they start.

    None of these processes outlives this one, not even if SIGKILL ends it while a worker does not react. A small
    process watches for that. Each worker leads a process group, so that Ctrl-C in a terminal reaches only this process.
    (A session of its own would do this, too. But Linux schedules sessions apart, which made messages half as fast.)
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        self.owner = os.getpid()
        self._watch: subprocess.Popen[bytes] | None = None
        self.workers: list[WorkerProcess] = []
        self._programs: list[subprocess.Popen[bytes]] = []
        self.killed = False
        """True if this process has killed the workers itself."""

    def start(self, module: str, function: str, *arguments: Any, files: Sequence[int] = ()) -> WorkerProcess:
        """Start a worker that calls a function with its connection and the arguments.

        `files` are the numbers of open files that the worker shall have, too, under the same numbers.
        """
        here, there = multiprocessing.Pipe()
        flags = subprocess._args_from_interpreter_flags()  # pyright: ignore[reportAttributeAccessIssue]
        command = [sys.executable, *flags, "-c", PROGRAM, str(there.fileno())]
        worker = WorkerProcess(self._open(command, files=(there.fileno(), *files)), here)
        there.close()  # so that reading from `here` fails once the worker has died
        self.workers.append(worker)
        with suppress(OSError):
            here.send(([path or os.getcwd() for path in sys.path], sys.argv, module, function))
            here.send(arguments)
        return worker

    def run(self, command: Sequence[str], output: IO[bytes], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a program that has no connection. Its output goes to a file; `variables` are added to its environment.

        `end` does not wait for it.
        """
        process = self._open(command, variables, output)
        self._programs.append(process)
        return process

    def _open(
        self,
        command: Sequence[str],
        variables: Mapping[str, str] = MappingProxyType({}),
        output: IO[bytes] | None = None,
        files: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a process that has the mark and leads a process group, and tell the watch about it."""
        _living.add(self)
        watch = self._watch = self._watch or self._start_watch()
        marks = " ".join([*os.environ.get(VARIABLE, "").split(), self._mark])
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            pass_fds=files,
            env={**os.environ, **variables, VARIABLE: marks},
            process_group=0,
        )
        with suppress(OSError):  # a process that has died already is noticed later
            assert watch.stdin is not None
            watch.stdin.write(f"{process.pid}\n".encode())
        return process

    def end(self, patience: float) -> None:
        """Close all connections, wait for the workers, and kill all processes that are left after `patience` seconds.

        The copy of a tree in a forked process ends nothing.
        """
        if os.getpid() != self.owner or self._watch is None:
            return
        for worker in self.workers:
            worker.connection.close()
        end = time.monotonic() + patience
        for worker in self.workers:
            worker.has_ended(wait=max(0.0, end - time.monotonic()))
        self.kill()
        for worker in self.workers:
            worker.has_ended(wait=process_watch.PATIENCE)
        for process in self._programs:
            with suppress(subprocess.TimeoutExpired):
                process.wait(process_watch.PATIENCE)
        self._programs.clear()
        self._watch.kill()
        self._watch.communicate()
        self._watch = None
        self.workers.clear()
        _living.discard(self)

    def kill(self) -> None:
        """Kill all processes of the tree. Any thread may call this."""
        self.killed = True
        processes = [worker.process for worker in self.workers] + self._programs
        kill_marked_processes(self._mark, [process.pid for process in processes])

    def _start_watch(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", process_watch.__file__, str(os.getpid()), self._mark],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def kill_all_process_trees() -> None:
    """Kill all worker processes of this process, and all processes that they have started."""
    for tree in list(_living):
        tree.kill()


def worker_process_numbers() -> list[int]:
    """Return the process numbers of all workers."""
    return [worker.process.pid for tree in list(_living) for worker in list(tree.workers)]


def _dead_worker(worker: WorkerProcess) -> DeadWorkerError:
    """Find out how a worker has ended, and return the error."""
    worker.has_ended(wait=process_watch.PATIENCE)
    if worker.process.returncode in (-signal.SIGTERM, -signal.SIGKILL):
        # A cluster that ends a job also ends this process, and so does the end of an interrupted command. This process
        # then stops for that reason.
        time.sleep(1)
    return DeadWorkerError(worker, worker.how_it_ended())
