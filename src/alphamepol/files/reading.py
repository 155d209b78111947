"""Open files that may come from anybody: nothing but regular files, and no more of a file than is asked for."""

import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alphamepol.errors import InputError

ODD = ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError
"""The errors of code that uses the content of files which do not fit together."""


def open_regular_file(path: Path) -> io.BufferedReader:
    """Open a file for reading.

    Raises ValueError if the path is anything but a regular file, such as a pipe or a device, which could block for
    ever. Raises OSError if the file cannot be opened.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # some devices act as soon as they are opened
        raise ValueError("it is not a regular file")
    # The file could have been replaced meanwhile. Without O_NONBLOCK, opening a pipe would wait for a writer.
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(number, "rb")
    if not stat.S_ISREG(os.fstat(number).st_mode):
        file.close()
        raise ValueError("it is not a regular file")
    try:
        # Some files of the system look regular, but have nothing to read yet. A later read would return None.
        os.pread(number, 1, 0)
    except BlockingIOError as error:
        file.close()
        raise ValueError("it has nothing that can be read now") from error
    return file


@contextmanager
def refusing_odd_files(place: Path | str) -> Iterator[None]:
    """Raise an `InputError` if the code in this context fails, which uses what the files in `place` say.

    Readers check the types, sizes and checksums of one file. But somebody can write files that are right one by one,
    and that no run writes together.
    """
    try:
        yield
    except InputError:
        raise
    except ODD as error:
        raise InputError(
            f"run: the files of {place} do not fit together ({type(error).__name__}: {error}); if nobody has edited "
            "them, this is a fault of alphamepol"
        ) from error


def read_small_file(path: Path, most: int) -> bytes:
    """Return the content of a regular file. Raises ValueError if the file has more than `most` bytes."""
    with open_regular_file(path) as file:
        content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"it has {os.fstat(file.fileno()).st_size} bytes, more than {most}")
    return content


def check_folder_is_plain(folder: Path, files: Iterable[str] = (), folders: Iterable[str] = ()) -> None:
    """Raise an `InputError` if an entry of a folder is not what its name says: one of the `files`, or of the `folders`.

    Entries may be absent. Only regular files and folders are allowed, also below the given folders. A link, for
    example, would lead out of the folder: its target would be read into pages, or be overwritten.
    """
    to_check = [(folder / name, "file") for name in files] + [(folder / name, "folder") for name in folders]
    while to_check:
        path, expected = to_check.pop()
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(mode):
            raise InputError(f"folder: {path} is a link; put the file or folder itself there, or remove the link")
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise InputError(f"folder: {path} is neither a file nor a folder; remove it")
        found = "folder" if stat.S_ISDIR(mode) else "file"
        if expected not in (found, ""):
            raise InputError(f"folder: {path} is a {found}, where there should be a {expected}; remove it")
        if found == "folder":
            to_check += [(inside, "") for inside in sorted(path.iterdir(), reverse=True)]
