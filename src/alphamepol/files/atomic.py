"""Write files atomically: after a crash, a file is either complete or absent."""

import os
from pathlib import Path

_TEMPORARY = ".alphamepol-tmp"


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that a crash leaves the old file or the new file, never a part of it.

    The content is written to a temporary file, synced to the disk, and renamed.
    """
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
    """Return whether a path is a temporary file that `write_atomically` left behind in a crash."""
    return path.name.startswith(".") and path.name.endswith(_TEMPORARY)
