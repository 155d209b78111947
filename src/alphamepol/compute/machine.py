"""The processors, the memory and the OpenGL of the machine, and its cache of compiled programs."""

import ctypes
import hashlib
import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from alphamepol.compute.process_tree import worker_process_numbers

CACHE_BYTES = 2**30
"""The largest size of the cache of compiled programs. The programs that were not used for longest are removed first."""


def machine_cores() -> int:
    """Return the number of processors that this process may use.

    If the system cannot tell this number, return the number of all processors.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_memory_left(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory that processes can still take, or None if the system does not tell.

    A container or a cluster job may have a limit of its own (a cgroup). The smallest limit counts. `root` is the folder
    in which `proc` and `sys` are.
    """
    meminfo = dict(line.split(":", 1) for line in _machine_lines(root / "proc/meminfo"))
    left = [1024 * int(meminfo["MemAvailable"].split()[0])] if "MemAvailable" in meminfo else []
    for line in _machine_lines(root / "proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        limit, used = ("memory.limit_in_bytes", "memory.usage_in_bytes") if kinds else ("memory.max", "memory.current")
        top = root / "sys/fs/cgroup" / ("memory" if kinds else "")
        group = top / path.strip("/")
        for folder in (one for one in (group, *group.parents) if one.is_relative_to(top)):
            numbers = [_machine_lines(folder / name) for name in (limit, used)]
            if all(number and number[0].isdigit() for number in numbers):
                # Files that the system only keeps in memory to read them faster do not count.
                stat = dict(line.split() for line in _machine_lines(folder / "memory.stat"))
                kept = int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
                left.append(int(numbers[0][0]) - int(numbers[1][0]) + kept)
    return max(0, min(left)) if left else None


def machine_memory_of_process(*, peak: bool = False) -> int:
    """Return the bytes of memory that this process and its worker processes hold now, or held at their peak.

    Return 0 if the system has no /proc.
    """
    numbers = os.getpid(), *worker_process_numbers()
    lines = [line for number in numbers for line in _machine_lines(Path(f"/proc/{number}/status"))]
    field = "VmHWM:" if peak else "VmRSS:"
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def _machine_lines(path: Path) -> list[str]:
    """Return the lines of a file of the system, or none if it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def choose_machine_opengl() -> None:
    """Let MuJoCo draw by EGL, which needs no display, if this machine has none.

    MuJoCo reads the choice when it is imported; later calls do nothing. The user's own MUJOCO_GL stays.
    """
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform != "linux" or has_display or "mujoco" in sys.modules:
        return
    # A backend is only chosen if its libraries are installed, because MuJoCo cannot be imported otherwise.
    with suppress(OSError):
        ctypes.CDLL("libEGL.so.1")
        ctypes.CDLL("libGL.so.1")
        os.environ.setdefault("MUJOCO_GL", "egl")


def machine_compilation_cache() -> Path:
    """Return the folder of compiled programs.

    Every version of JAX and every kind of processor has its own folder, because different machines may
    share a home folder.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    kind = hashlib.sha256(_machine_processor().encode()).hexdigest()[:8]
    return home / "alphamepol" / f"jax-{version('jax')}-{platform.machine()}-{kind}"


def keep_machine_compilation_cache() -> None:
    """Let JAX keep compiled programs on disk, so that the same command compiles nothing the next time.

    Call this function before JAX is imported. If the user has set `JAX_COMPILATION_CACHE_DIR`, nothing changes: JAX
    uses that folder, without our limit on its size. `JAX_ENABLE_COMPILATION_CACHE=false` turns the cache off.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(machine_compilation_cache())
    except RuntimeError:
        return  # the user has no home folder
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(CACHE_BYTES))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def _machine_processor() -> str:
    """Return the features of the processor if the system lists them, else its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.processor()
