"""The command that shows runs on a page: its options, its help text, and the function that it calls."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from alphamepol.cli.next_steps import say_after_command


@dataclass(frozen=True)
class Watch:
    """Show runs as they train on a live page of this computer: curves, heat-maps, and where the newest policy goes.

    The page reads run folders only, so that runs may train elsewhere on a shared disk, or have ended. Runs that begin
    later are shown too. Only this computer can open the page, and only with the address that is printed. Ctrl-C ends
    it. The page needs pip install "alphamepol[watch]".

    Example: alphamepol watch runs
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|FOLDER")]
    """The folder of a run, or a folder that holds runs."""
    environment_class: Annotated[str | None, tyro.conf.arg(name="class", metavar="CLASS")] = None
    """The program of a class of your own, FILE.py:FUNCTION.
    The page lets the newest policies of the runs on this class act in it.
    If it is not given, no program of yours runs, and the page shows their evaluations at the end."""
    host: str = "127.0.0.1"
    """The address of this computer to listen on. With 0.0.0.0, other computers can open the page, too:
    whoever can read the network can then read the address and the page."""
    port: int = 0
    """The port to listen on. With 0, it is any that is free."""
    open: tyro.conf.FlagCreatePairsOff[bool] = False
    """Open the page in a browser."""

    def run(self) -> None:
        from alphamepol.watching.watch import watch

        with watch(
            self.path,
            host=self.host,
            port=self.port,
            environment_class=self.environment_class,
            open_browser=self.open,
        ) as page:
            say_after_command(f"The page is at {page.address} until Ctrl-C.")
            page.wait()
