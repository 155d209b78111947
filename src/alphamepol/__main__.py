"""The entry point: `alphamepol`, or `python -m alphamepol`."""

import os
import signal
import sys


def command_line() -> None:
    """Run the command line, and end with its status."""
    # A cluster's pre-emption ends what is running as Ctrl-C does, from the first moment on.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from alphamepol.cli.main import INTERRUPTED, main
        from alphamepol.compute.machine import keep_machine_compilation_cache

        keep_machine_compilation_cache()
        status = main()
    except KeyboardInterrupt:
        print("alphamepol: interrupted; nothing was changed", file=sys.stderr)
        status = INTERRUPTED = 130
    # What is done is done: a signal while Python shuts down, which takes a second, must not make it look undone.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    if status == INTERRUPTED:
        # A compiled computation may still be running, and nothing waits for its result.
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command_line()
