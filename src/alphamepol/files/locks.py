"""Locks of folders, so that only one process at a time writes into a folder."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from alphamepol.errors import InputError
from alphamepol.files.atomic import is_unfinished_atomic_write
from alphamepol.files.names import message_as_text
from alphamepol.files.reading import check_folder_is_plain

LOCK = ".lock"


@contextmanager
def folder_lock_held(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder while the context lasts.

    Raises InputError if another process holds the lock, or if something other than a folder is in its place. The
    operating system releases the lock when its process ends, even in a crash. The lock file that a crash leaves behind
    does no harm.
    """
    for above in (folder, *folder.parents):
        if os.path.lexists(above) and not above.is_dir():
            raise InputError(f"folder: {above} is not a folder; choose another --folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    check_folder_is_plain(folder, files=[LOCK])
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"folder: another process is writing into {folder}; wait for it to end, or choose another --folder"
        ) from error
    except NotImplementedError:
        said = f"the file system of {folder} has no locks; take care that only one process writes there"
        warnings.warn(message_as_text(said), stacklevel=2)
    try:
        yield
    finally:
        lock.release()


def forget_folder_lock(folder: Path) -> None:
    """Remove the lock file of a folder in which nothing will be written any more."""
    with suppress(OSError):
        (folder / LOCK).unlink()


def is_empty_but_for_lock(folder: Path) -> bool:
    """Return whether a folder holds nothing but a lock file and unfinished temporary files.

    A process that was stopped right after its start leaves such a folder.
    """
    return all(path.name == LOCK or is_unfinished_atomic_write(path) for path in folder.iterdir())
