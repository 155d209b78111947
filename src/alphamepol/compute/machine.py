"""What the machine has, and where it keeps compiled programs."""

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

CACHE_BYTES = 2**30
"""The size of the cache of compiled programs; those not used for longest make room."""


def machine_cores() -> int:
    """How many processors this process may use; not every system can say, then how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_compilation_cache() -> Path:
    """The folder of compiled programs: one per version of JAX and kind of processor, which may share a home."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    kind = hashlib.sha256(_machine_processor().encode()).hexdigest()[:8]
    return home / "alphamepol" / f"jax-{version('jax')}-{platform.machine()}-{kind}"


def keep_machine_compilation_cache() -> None:
    """Let JAX, not yet imported, keep what it compiles, so that the same command compiles nothing the next time.

    A user who has such a folder already (`JAX_COMPILATION_CACHE_DIR`), whatever its size, keeps it as it is;
    `JAX_ENABLE_COMPILATION_CACHE=false` turns this off.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(machine_compilation_cache())
    except RuntimeError:
        return  # a user without a home
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(CACHE_BYTES))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def _machine_processor() -> str:
    """What the processor can do, where the system says so, else its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.processor()
