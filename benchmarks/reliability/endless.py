"""Run a command line whose compiled work never ends: `python endless.py BEGUN FINISHED COMMAND …`.

The first FINISHED updates of policies end. When the next one begins, the file BEGUN is written.
"""

import signal
import sys
from pathlib import Path

import jax

from alphamepol.__main__ import command_line
from alphamepol.algorithms.alphamepol import epoch
from alphamepol.checking import diagnose

# A program that a shell starts in the background ignores Ctrl-C, and so do the programs that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
improve = epoch.improve_all_seeds
begun, finished = Path(sys.argv[1]), iter(range(int(sys.argv[2])))


@jax.jit
def count_for_ever(start: int) -> int:
    return jax.lax.while_loop(lambda number: number >= 0, lambda number: (number + 1) % 1000, start)


def improve_for_ever(*arguments, **named):
    if next(finished, None) is not None:
        return improve(*arguments, **named)
    begun.touch()
    return jax.block_until_ready(count_for_ever(0))


epoch.improve_all_seeds = diagnose.improve_all_seeds = improve_for_ever
sys.argv = ["alphamepol", *sys.argv[3:]]
command_line()
