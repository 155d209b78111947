"""The process that lets the newest policy of a run act, so that a page can show where it goes.

It has a low priority and uses no GPU, so that a training next to it goes on almost as fast as without it.
"""

import os
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PRIORITY = 10
"""How much the process gives way to others, from 0 to 19. With 19, it would wait for minutes on a busy machine."""


def answer_sampling_requests(connection: Connection) -> None:
    """Answer requests with the places of a policy, or with a sentence that says why there are none, until the end."""
    # JAX reads these variables when it is imported.
    os.environ |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    with suppress(OSError):
        os.nice(PRIORITY)
    from alphamepol.errors import InputError, RunError
    from alphamepol.watching.sampled_places import sample_places

    with suppress(EOFError, OSError):
        while True:
            path, own_class = connection.recv()
            try:
                found: Any = sample_places(Path(path), own_class)
            except (InputError, RunError) as error:
                found = f"The newest policy cannot be shown ({error})."
            except Exception as error:  # environments can raise anything
                found = f"The newest policy cannot be shown ({type(error).__name__}: {error})."
            connection.send(found)
