"""The processors of the machine, and its cache of compiled programs."""

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

CACHE_BYTES = 2**30
"""The largest size of the cache of compiled programs. The programs that were not used for longest are removed first."""


def machine_cores() -> int:
    """Return the number of processors that this process may use.

    If the system cannot tell this number, return the number of all processors.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
