"""The entry point: `alphamepol`, or `python -m alphamepol`."""

import os
import signal
import sys


def command_line() -> None:
    """Run the command line and exit with its status."""
    # A cluster sends SIGTERM before it stops a job. From the first moment on, SIGTERM must end a run as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from alphamepol.cli.main import INTERRUPTED, main
        from alphamepol.compute.machine import keep_machine_compilation_cache

        keep_machine_compilation_cache()
        status = main()
    except KeyboardInterrupt:
        print("alphamepol: interrupted; nothing was changed", file=sys.stderr)
        status = INTERRUPTED = 130
    # Python takes a second to shut down. A signal in this time must not make finished work look interrupted.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    if status == INTERRUPTED:
        # A compiled computation may still be running. Nobody needs its result, so we do not wait for it.
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command_line()
