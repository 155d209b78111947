"""The runs of a folder: those that are there, and those that appear later."""

import os
import threading
import time
from pathlib import Path
from typing import Any

from alphamepol.files.names import name_as_text
from alphamepol.watching.followed_run import FollowedRun

MOST_RUNS = 200
"""The most runs of a folder that are followed."""
MOST_ENTRIES = 20_000
"""The most files and folders that a search for runs looks at."""
DEPTH = 4
"""The number of folders between the given one and a run folder, at most."""
SEARCH_EVERY, READ_EVERY = 3.0, 1.0
"""The least seconds between two searches for runs, and between two looks at their files."""
READING = 0.3
"""The seconds of one look at the files of all runs, about, at most."""


class Follower:
    """The runs below a path, as far as they were read. Any thread may ask, and one at a time looks at the files."""

    def __init__(self, path: Path):
        self.path = path
        self._runs: dict[str, FollowedRun] = {}
        self._looking = threading.Lock()
        self._lock = threading.Lock()
        self._searched = self._read = float("-inf")
        self.notice = ""
        """A sentence if not all runs are followed; else empty."""

    def advance(self) -> None:
        """Look for new runs and read what is new, unless this has just been done, or another thread is doing it."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            now = time.monotonic()
            if now - self._searched > SEARCH_EVERY:
                found, whole = run_folders(self.path)
                with self._lock:
                    self._follow(found, whole)
                self._searched = now
            runs = list(self._runs.values())
            if now - self._read > READ_EVERY or any(run.tail.reading for run in runs):
                end = now + READING
                for number, run in enumerate(runs):
                    with self._lock:
                        run.advance(max(0.0, end - time.monotonic()) / (len(runs) - number))
                self._read = time.monotonic()
        finally:
            self._looking.release()

    def run(self, key: str) -> FollowedRun | None:
        """Return the run with this key; None if there is none."""
        return self._runs.get(key)

    def curves_since(self, key: str, generation: int, known: int) -> dict[str, Any]:
        """Return the points of a run's curves that a viewer does not have."""
        with self._lock:
            return self._runs[key].tail.curves_since(generation, known)

    def summarise(self) -> list[dict[str, Any]]:
        """Return the summaries of all runs. Those that train come first, and of each kind those that changed last."""
        with self._lock:
            found = [run.summarise() for run in self._runs.values()]
        order = ["training", "evaluating", "starting", "silent", "finished", "unreadable"]
        return sorted(found, key=lambda run: (order.index(run["state"]), run["seconds_since"] or 0, run["name"]))

    def _follow(self, found: list[Path], whole: bool) -> None:
        runs = {}
        for path in found[:MOST_RUNS]:
            name = str(path.relative_to(self.path)) if path != self.path else path.resolve().name
            run = FollowedRun(path, name)
            runs[run.key] = self._runs.get(run.key, run)
        self._runs = runs
        shown = f"The first {len(runs)} runs of {name_as_text(str(self.path))} are shown; name a folder with fewer."
        self.notice = "" if whole and len(found) <= MOST_RUNS else shown


def run_folders(path: Path) -> tuple[list[Path], bool]:
    """Return the run folders at or below a path, and whether all folders were searched. No link is followed."""
    if (path / "config.json").is_file():
        return _with_skills(path), True
    found: list[Path] = []
    folders, entries = [(path, 0)], 0
    while folders and entries < MOST_ENTRIES:
        folder, depth = folders.pop(0)
        try:
            with os.scandir(folder) as inside:
                below = []
                for entry in inside:
                    entries += 1
                    if entry.name == "config.json":
                        found += _with_skills(folder)
                        below = []
                        break
                    if depth < DEPTH and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                        below.append((Path(entry.path), depth + 1))
                    if entries >= MOST_ENTRIES:
                        break
                folders += sorted(below)
        except OSError:
            continue  # a folder that has gone, or that may not be read
    return sorted(found), not folders


def _with_skills(folder: Path) -> list[Path]:
    """Return a run folder, and the run in it that learns the skills of maml-diayn, if there is one."""
    skills = folder / "diayn"
    return [folder, skills] if (skills / "config.json").is_file() and not skills.is_symlink() else [folder]
