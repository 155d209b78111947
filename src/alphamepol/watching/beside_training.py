"""A page beside a training, in a process of its own, so that nothing that happens to the page reaches the training."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from alphamepol.compute.process_tree import DeadWorkerError, ProcessTree
from alphamepol.errors import InputError

PRIORITY = 5
"""How much the process of the page gives way to the training, from 0 to 19."""
PATIENCE = 1.0
"""The seconds that the process has to end."""


@contextmanager
def watching_while_training(folder: Path, say: Callable[[str], None], environment_class: str) -> Iterator[None]:
    """Serve a page about a run while the context lasts, and say its address; or say why there is no page.

    The folder may not exist yet. `environment_class` is the class that the user has named for the training; the page
    may use it, too. No failure of the page ends the training.
    """
    tree = ProcessTree()
    try:
        try:
            worker = tree.start(__name__, "serve_while_connected", str(folder.absolute()), environment_class)
            served, text = worker.answer()
        except (DeadWorkerError, OSError) as error:
            served, text = False, str(error)
        say(f"the page of this run is at {text}" if served else f"there is no page of this run, but it trains ({text})")
        yield
    finally:
        tree.end(PATIENCE)


def serve_while_connected(connection: Connection, folder: str, environment_class: str) -> None:
    """Serve a page until the other end of the connection is closed. First send whether it is served, and its address.

    If it is not served, an error message takes the place of the address.
    """
    os.environ["JAX_PLATFORMS"] = "cpu"  # the GPU belongs to the training
    with suppress(OSError):
        os.nice(PRIORITY)
    from alphamepol.watching.watch import open_watch_page

    try:
        page = open_watch_page(Path(folder), environment_class=environment_class)
    except InputError as error:
        connection.send((False, str(error)))
        return
    with page, suppress(EOFError, OSError):
        connection.send((True, page.address))
        connection.recv()
