"""Write files that are whole or not there."""

import os
from pathlib import Path

_TEMPORARY = ".alphamepol-tmp"


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write under a temporary name, sync, rename: a crash leaves the old file or the new one, never half of it."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def is_unfinished_atomic_write(path: Path) -> bool:
    """Whether a crash left a file that `write_atomically` had not finished."""
    return path.name.startswith(".") and path.name.endswith(_TEMPORARY)
