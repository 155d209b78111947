"""The end of marked processes, and the small process that ends them if the process that needs them dies.

A mark is a random text in the environment variables of a process. Processes hand it on to the processes that they
start. It therefore also finds those that have left their process group, or whose parent has died.

`process_tree.py` runs this file as a script. It must not import anything outside of Python's library.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

PATIENCE = 5.0
"""The seconds after which we give up on processes that SIGKILL does not end, because they wait for a device."""


def marked_processes(mark: str) -> list[int]:
    """Return the numbers of the processes that have the mark, without those that have ended.

    The list is empty if the system has no /proc.
    """
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            # A process of another user cannot be read, and a process may end meanwhile.
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(name))
    return found


def kill_marked_processes(mark: str, leaders: Iterable[int]) -> None:
    """Kill all processes that have the mark, and all processes in the groups of these leaders."""
    for leader in leaders:
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL)
    end, absent = time.monotonic() + PATIENCE, 0
    # A process that is just starting another program has no environment variables for a moment.
    while absent < 2 and time.monotonic() < end:
        found = marked_processes(mark)
        for number in found:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        absent = 0 if found else absent + 1
        time.sleep(0.002)


def kill_marked_processes_after(parent: int, mark: str) -> None:
    """Wait until the parent has died. Then kill all processes that have the mark.

    The standard input has a line for each leader of a group. It ends when the parent dies. If the parent has forked,
    the input stays open; therefore we also look at the number of our parent every second.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    heard = b""
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], 1.0)[0]:
            new = os.read(sys.stdin.fileno(), 4096)
            if not new:
                break
            heard += new
    kill_marked_processes(mark, [int(line) for line in heard.split()])


if __name__ == "__main__":
    kill_marked_processes_after(int(sys.argv[1]), sys.argv[2])
