"""The entry point: `alphamepol`, or `python -m alphamepol`."""

import io
import signal
import sys

from alphamepol.cli.ending import (
    INTERRUPTED,
    SIGNALS,
    begin_interrupted_end,
    claim_the_end,
    interrupted_sentence,
    leave_interrupted_process,
    watch_for_signals,
)


def command_line() -> None:
    """Run the command line and exit with its status."""
    # A cluster sends SIGTERM before it stops a job. From the first moment on, SIGTERM must end a run as Ctrl-C does.
    try:
        watch_for_signals(sys.argv[1:])
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # not every terminal has every character of a name
        from alphamepol.cli.main import main
        from alphamepol.compute.machine import keep_machine_compilation_cache

        keep_machine_compilation_cache()
        status = main(before_interrupted_end=begin_interrupted_end)
    except KeyboardInterrupt:
        begin_interrupted_end()
        print(f"alphamepol: {interrupted_sentence(sys.argv[1:], resumable=False)}", file=sys.stderr)
        status = INTERRUPTED
    claim_the_end()
    # Python takes a second to shut down. A signal in this time must not make finished work look interrupted.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if status == INTERRUPTED:
        leave_interrupted_process()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(status)


if __name__ == "__main__":
    command_line()
