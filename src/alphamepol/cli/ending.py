"""The end of an interrupted command, even while the main thread is busy with compiled work.

Python runs a signal handler only when the main thread is between two steps of the interpreter. A compiled computation,
or its compilation, can delay this by minutes. A second thread therefore learns of signals, too. It gives the main
thread half a second to end by itself. Then it saves the finished steps of the run, and ends the process.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time

from alphamepol.compute.process_tree import kill_all_process_trees
from alphamepol.files.atomic import count_atomic_writes, writing_files
from alphamepol.files.names import join_command_words, message_as_text
from alphamepol.runs.interrupts import Interrupts, listening_interrupts

INTERRUPTED = 130
RESUMABLE = "pretrain", "finetune", "metatrain", "sweep"
"""The commands that have the option --resume."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 0.5
"""The seconds that the main thread has to end by itself."""
PATIENCE = 5.0
"""The seconds after which the process ends without its last sentence, if nobody reads its output."""


def interrupted_sentence(arguments: list[str], *, resumable: bool, before: int = 0) -> str:
    """Return the sentence that ends an interrupted command. `before` is the number of files written before it."""
    if arguments[:1] == ["watch"]:
        return "the page is closed; runs that it showed go on"
    again = command_to_continue(arguments)
    if resumable:
        return f"interrupted; what is done is saved. Continue with: {again}"
    if count_atomic_writes() > before:
        return f"interrupted; some files are written, and each of them is complete. Write all of them with: {again}"
    return "interrupted; nothing was changed"


def command_to_continue(arguments: list[str]) -> str:
    """Return the command line that continues the interrupted command."""
    resume = ["--resume"] if arguments[:1] in [[name] for name in RESUMABLE] else []
    return join_command_words(["alphamepol", *(word for word in arguments if word != "--resume"), *resume])


def watch_for_signals(arguments: list[str]) -> None:
    """Let SIGINT and SIGTERM end this process. Only the command line may call this function, in the main thread."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    received = Interrupts()
    received.forgive_lost_exceptions()
    for number in SIGNALS:
        # A shell lets the programs that it starts in the background ignore Ctrl-C.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, received.handle)
    # The operating system runs the part of a handler that writes to this pipe, whatever the main thread does.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_signal, args=(reader, arguments), daemon=True).start()


def claim_the_end() -> None:
    """Let this thread alone end the process. If the other thread is ending it, wait for that."""
    writing_files.acquire()


def begin_interrupted_end() -> None:
    """Claim the end, remove progress bars, and show the cursor again."""
    claim_the_end()
    from alphamepol.runs.progress import stop_live_displays

    stop_live_displays()


def _end_after_signal(reader: int, arguments: list[str]) -> None:
    while os.read(reader, 1)[0] not in SIGNALS:
        pass
    time.sleep(GRACE)
    claim_the_end()
    run = listening_interrupts()
    sentence = interrupted_sentence(arguments, resumable=run is not None)
    if run is not None:
        try:
            run.save()
        except Exception as error:
            again = command_to_continue(arguments)
            sentence = f"interrupted; the last steps could not be saved ({error}). Continue with: {again}"
    threading.Timer(PATIENCE, os._exit, [INTERRUPTED]).start()
    begin_interrupted_end()
    print(message_as_text(f"alphamepol: {sentence}"), file=sys.stderr)
    leave_interrupted_process()


def leave_interrupted_process() -> None:
    """End this process and its worker processes at once. A compiled computation may go on; nobody needs its result."""
    kill_all_process_trees()
    for process in multiprocessing.active_children():  # a class of the user's may have started processes
        process.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)
