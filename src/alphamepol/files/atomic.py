"""Write files atomically: after a crash, a file is either complete or absent."""

import os
import secrets
import threading
from pathlib import Path

_TEMPORARY = ".alphamepol-tmp"
writing_files = threading.RLock()
"""The lock that a thread holds while it writes a file. A thread that ends the process acquires this lock first, and
keeps it. A file that is being written then becomes complete, and no other file is begun."""
_written = 0


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that a crash leaves the old file or the new file, never a part of it.

    The content is written to a temporary file, synced to the disk, and renamed. If the path is a link, the file
    replaces the link, and the link's target stays as it is.
    """
    global _written
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    # The name does not contain the name of the file, which may already be as long as a name can be.
    temporary = path.with_name(f".{secrets.token_hex(8)}{_TEMPORARY}")
    with writing_files:
        try:
            # "x" makes a new file: a file or a link that somebody has put there is not opened.
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _written += 1
        finally:
            temporary.unlink(missing_ok=True)


def count_atomic_writes() -> int:
    """Return the number of files that this process has written so far."""
    return _written


def is_unfinished_atomic_write(path: Path) -> bool:
    """Return whether a path is a temporary file that `write_atomically` left behind in a crash."""
    return path.name.startswith(".") and path.name.endswith(_TEMPORARY)
