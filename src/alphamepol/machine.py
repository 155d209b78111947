"""What the machine has."""

import os


def cores() -> int:
    """How many processors this process may use; not every system can say, then how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
