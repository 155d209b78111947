"""Run a command in a child of this process, with limits, and watch what it does.

The child is a fork of a process that has imported everything but has not started JAX's backend, whose threads would
not survive a fork.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 5.0
"""The seconds within which a command must have read its input."""
PEAK = 2**30
"""The bytes of memory that a command may take to read its input."""
MOST_BYTES_OF_A_FILE = 2**27
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
RUNS_PROGRAMS = {
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "pickle.find_class", "os.startfile"),
    *("socket.connect", "socket.bind", "socket.sendto", "ctypes.dlopen", "pty.spawn", "webbrowser.open"),
}
CHANGES_FILES = {
    *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod", "os.chown"),
    *("shutil.rmtree", "shutil.move", "shutil.copyfile", "os.utime"),
}


class InputWasRead(BaseException):
    """The end of a command whose input was read, before its own work begins."""


@dataclass
class Outcome:
    """The end of a command, and what it used."""

    status: int
    """The exit status; a negative number is the signal that ended the process."""
    seconds: float
    """The seconds to the end, without those in which the process waited for a processor that others used."""
    cpu: float
    peak: int
    """The bytes of memory above those at the start."""
    out: bytes
    err: bytes
    notes: list[dict[str, Any]] = field(default_factory=list)
    """What the child noticed: its start, events of the audit hook, and an exception that nobody caught."""
    timed_out: bool = False

    def noted(self, kind: str) -> list[dict[str, Any]]:
        return [note for note in self.notes if note["kind"] == kind]


def run_confined(
    action: Callable[[], int | None], folder: Path, allowed: tuple[Path, ...], *, patience: float = SECONDS + 1
) -> Outcome:
    """Run an action in a child whose working folder is `folder`. It may write there and into `allowed` only."""
    log = folder.parent
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        os.close(reader)
        _live_as_child(action, folder, (folder, *allowed), log, writer)
    os.close(writer)
    handle = os.pidfd_open(child)
    ended = bool(select.select([handle], [], [], patience)[0])
    seconds = time.monotonic() - began - _seconds_in_queue(child)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also processes that the command has started
    if not ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, state, used = os.wait4(child, 0)
    os.close(handle)
    notes = _read_notes(reader)
    at_start = next((note["resident"] for note in notes if note["kind"] == "start"), 0)
    return Outcome(
        status=os.waitstatus_to_exitcode(state),
        seconds=seconds,
        cpu=used.ru_utime + used.ru_stime,
        peak=max(0, 1024 * used.ru_maxrss - at_start),
        out=(log / "stdout").read_bytes()[: 2**24],
        err=(log / "stderr").read_bytes()[: 2**24],
        notes=notes,
        timed_out=not ended,
    )


def _seconds_in_queue(process: int) -> float:
    """Return the seconds that a process, which may have ended, was ready to run but had no processor."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _read_notes(reader: int) -> list[dict[str, Any]]:
    os.set_blocking(reader, False)
    text = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(reader, 2**16):
            text += part
    os.close(reader)
    notes = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            notes.append(json.loads(line))
    return notes


def _live_as_child(
    action: Callable[[], int | None], folder: Path, allowed: tuple[Path, ...], log: Path, writer: int
) -> None:
    """Run the action with limits and an audit hook, and end the process."""
    noted = 0

    def note(kind: str, **more: Any) -> None:
        nonlocal noted
        noted += 1
        if noted < 50:  # the pipe must not fill up
            os.write(writer, json.dumps({"kind": kind, **more}).encode()[:4000] + b"\n")

    os.setsid()
    os.chdir(folder)
    for number, name in ((0, os.devnull), (1, str(log / "stdout")), (2, str(log / "stderr"))):
        opened = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    pages = [int(word) for word in Path("/proc/self/statm").read_text().split()[:2]]
    room = pages[0] * 4096 + 4 * PEAK
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES_OF_A_FILE, MOST_BYTES_OF_A_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    note("start", resident=pages[1] * 4096)
    CURRENT["note"] = note
    sys.addaudithook(_audit_hook(note, tuple(os.path.realpath(one) for one in allowed)))
    status = 0
    try:
        status = action() or 0
    except InputWasRead:
        note("read")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        text = traceback.format_exc()
        note("exception", types=[one.__name__ for one in type(error).__mro__], text=text[-3000:])
        with contextlib.suppress(BaseException):
            sys.stderr.write(text)
        status = 1
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status % 256)


CURRENT: dict[str, Callable[..., None]] = {}
"""The function with which the child notes something, under the name "note"."""


def _audit_hook(note: Callable[..., None], allowed: tuple[str, ...]) -> Callable[[str, tuple[Any, ...]], None]:
    """Return a hook that notes programs that are run, and files that are changed outside of the allowed folders."""
    own = tuple(os.path.realpath(one) for one in {sys.prefix, sys.base_prefix, str(Path(__file__).parents[3] / "src")})

    def outside(path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        text = os.fsdecode(path)
        if "\0" in text or text.startswith("/dev/shm/pym-"):  # memory that worker processes share
            return False
        head, tail = os.path.split(os.path.abspath(text))
        real = os.path.join(os.path.realpath(head), tail)
        return not real.startswith(tuple(f"{one}{os.sep}" for one in allowed)) and real not in allowed

    def opened_outside(path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        text = os.fsdecode(path)
        return "\0" not in text and text != os.devnull and outside(os.path.realpath(text))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & WRITING and opened_outside(path):
                note("write", event=event, path=repr(path)[:300])
        elif event == "exec":
            name = getattr(arguments[0], "co_filename", "")
            if name.startswith(os.sep) and not os.path.realpath(name).startswith((*own, *PROGRAMS)):
                note("program", event=event, path=name[:300])
        elif event in CHANGES_FILES:
            paths = arguments[:2] if event in ("os.rename", "shutil.move", "os.link") else arguments[:1]
            if event == "os.symlink":
                paths = arguments[1:2]
            if any(outside(path) for path in paths):
                note("write", event=event, path=repr(paths)[:300])
        elif event in RUNS_PROGRAMS and not _is_own_program(event, arguments, allowed[0]):
            note("program", event=event, path=repr(arguments)[:300])

    return hook


PROGRAMS: tuple[str, ...] = ()
"""The folders of programs that commands may run, because the user names them."""


def _is_own_program(event: str, arguments: tuple[Any, ...], inside: str) -> bool:
    """Return whether a program belongs to the package: a worker process, what it answers, or an installed library."""
    if event == "pickle.find_class":
        return str(arguments[0]).startswith(("alphamepol.environments.", "gymnasium.", "numpy"))
    if event == "ctypes.dlopen":
        return not (isinstance(arguments[0], str) and os.path.realpath(arguments[0]).startswith(inside))
    if event == "subprocess.Popen" and arguments[0] == sys.executable:
        return not any(inside in os.fsdecode(word) for word in arguments[1])
    return False


WORK = {
    "alphamepol.evaluation.evaluate": ("_evaluate_each_source", "untrained_start_policies"),
    "alphamepol.evaluation.render": ("_film_all",),
    "alphamepol.checking.check": ("diagnose",),
    "alphamepol.algorithms.alphamepol.run": ("measure_exploration",),
    "alphamepol.launching.launch": ("_executor_of_tasks",),
    "alphamepol.reproduction.measurements": ("untrained_start_policies", "measure_exploration"),
}
"""The functions with which the work of commands begins, after everything is read."""


def begin_no_work() -> None:
    """Let commands end with status 0 when everything is read, in this process."""
    loop = importlib.import_module("alphamepol.runs.loop")
    for module, names in WORK.items():
        for name in names:
            assert hasattr(importlib.import_module(module), name)
            setattr(importlib.import_module(module), name, _end_before_work)
    restore, go_on = loop._restore_or_start_loop, loop._go_on_with_loop
    loop._restore_or_start_loop = lambda definition, context: restore(
        dataclasses.replace(definition, start=_end_before_work), context
    )
    loop._go_on_with_loop = lambda definition, reached, context: go_on(
        dataclasses.replace(definition, step=_end_before_work), reached, context
    )


def _end_before_work(*_: Any, **__: Any) -> Any:
    raise InputWasRead


def note_begin_of_work() -> None:
    """Let commands note when everything is read and their work begins, in this process."""
    loop = importlib.import_module("alphamepol.runs.loop")
    for module, names in WORK.items():
        for name in names:
            function = getattr(importlib.import_module(module), name)
            setattr(importlib.import_module(module), name, _noting(function))
    restore = loop._restore_or_start_loop
    loop._restore_or_start_loop = lambda definition, context: restore(
        dataclasses.replace(definition, start=_noting(definition.start), step=_noting(definition.step)), context
    )
    go_on = loop._go_on_with_loop
    loop._go_on_with_loop = lambda definition, reached, context: go_on(
        dataclasses.replace(definition, step=_noting(definition.step)), reached, context
    )


def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any, **named: Any) -> Any:
        CURRENT["note"]("work")
        return function(*arguments, **named)

    return noted


@contextlib.contextmanager
def alone(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Run beside others, or alone: all processes of a campaign share the file."""
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
