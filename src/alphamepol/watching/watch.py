"""The page that follows runs while they train."""

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from alphamepol.errors import InputError
from alphamepol.watching.follower import Follower
from alphamepol.watching.server import PageServer
from alphamepol.watching.shown_places import ShownPlaces


@dataclass(frozen=True)
class WatchPage:
    """A page that is served, which `watch` returns. As a context manager it closes the page at its end."""

    address: str
    """The address of the page. It holds a secret token, without which the server answers nothing."""
    _server: PageServer
    _places: ShownPlaces

    def __repr__(self) -> str:
        return f"WatchPage({self.address!r})"

    def __enter__(self) -> "WatchPage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until the page is closed, or for Ctrl-C."""
        self._server.wait()

    def close(self) -> None:
        """Close the page."""
        self._server.close()
        self._places.close()


def watch(
    path: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    environment_class: str | None = None,
    open_browser: bool = False,
) -> WatchPage:
    """Serve a page that follows runs while they train, until it is closed.

    The page shows curves, heat-maps, and where the newest policies go. It reads run folders only, and writes nothing.
    Runs may train anywhere that shares the disk, and may have ended. Runs that appear later are shown too.

    **Arguments**

    - `path`: the folder of a run, or a folder with run folders at any depth up to four.
    - `host`: the address of this machine to listen on. Other machines can reach only other addresses than the default.
    - `port`: the port to listen on. The default is any that is free.
    - `environment_class`: `FILE.py:FUNCTION`, the program of a class of your own. The page lets the newest policies of
      the runs on this class act in it. Otherwise it runs no program of yours.
    - `open_browser`: open the page in a browser.

    **Returns**

    A `WatchPage` with the address. The server runs in a thread of this process.

    **Raises**

    - `InputError`: if there is no such folder, the port is taken, or starlette and uvicorn are not installed.

    **Example**

    ```python
    from pathlib import Path

    import alphamepol as am

    Path("runs").mkdir()
    with am.watch("runs") as page:
        print(page.address)  # open it in a browser
        # am.pretrain("gridworld-slope") is shown there, also from another process
    ```
    """
    if not Path(path).is_dir():
        raise InputError(f"watch: there is no folder {path}; name the folder of a run, or a folder that holds runs")
    page = open_watch_page(Path(path), host, port, environment_class)
    if open_browser:
        webbrowser.open(page.address)
    return page


def open_watch_page(
    path: Path, host: str = "127.0.0.1", port: int = 0, environment_class: str | None = None
) -> WatchPage:
    """Serve a page about a folder, which need not exist yet. Raises an `InputError` if this is not possible."""
    places = ShownPlaces(environment_class)
    try:
        server = PageServer(Follower(path), places, host, port)
    except InputError:
        places.close()
        raise
    return WatchPage(server.address, server, places)
