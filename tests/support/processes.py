"""Find processes by a marker in their environment variables, to test that none is left."""

import time
from contextlib import suppress
from pathlib import Path

LONGEST = 30.0
"""The seconds after which a test gives up waiting."""


def processes_with_marker(marker: str) -> dict[int, str]:
    """Return the number and the command of every process whose environment variables have a text in them.

    Processes hand the text on to all processes that they start. Zombies, which have ended, are left out.
    """
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def wait_until_no_process_has(marker: str, longest: float = LONGEST) -> None:
    """Wait until no process has the marker. Fails after `longest` seconds."""
    end = time.monotonic() + longest
    while found := processes_with_marker(marker):
        assert time.monotonic() < end, f"these processes are left: {found}"
        time.sleep(0.02)
