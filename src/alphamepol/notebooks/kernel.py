"""The kernel of a notebook: whether this process is one, and a picture in the notebook that can change."""

import base64
import importlib
import sys
from typing import Any


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookPicture:
    """A picture below the cell that runs. A later picture takes the place of the one before."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, png: bytes, text: str) -> None:
        """Show a PNG image. `text` is shown where there are no images."""
        shown = {"image/png": base64.b64encode(png).decode(), "text/plain": text}
        if self._handle is None:
            # This process is a kernel, so that IPython has been imported.
            display = importlib.import_module("IPython.display").display
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)
