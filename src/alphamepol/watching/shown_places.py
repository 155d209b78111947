"""The places that the page shows for each run: from the evaluation of a finished run, else from fresh samples."""

import queue
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from alphamepol.compute.process_tree import DeadWorkerError, ProcessTree
from alphamepol.environments.registry import registered_class_names
from alphamepol.errors import InputError
from alphamepol.files.json_files import value_has_type
from alphamepol.files.names import WIDTH, message_as_text, name_as_text
from alphamepol.files.reading import refusing_odd_files
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.runs.checkpoints import checkpoint_policies_file
from alphamepol.watching.followed_run import FollowedRun
from alphamepol.watching.places import places_of_evaluation

MOST_KEPT = 60
"""The number of runs whose places are kept."""
LARGEST_EVALUATION = 2**28
"""The most bytes of an evaluation that is read."""
PATIENCE = 5.0
"""The seconds that the process has to end."""
EVALUATION = "evaluation"
Places = dict[str, Any]
"""The places of a run, ready for JSON: their version, the checkpoint, a sentence, and the picture if there is one."""

Asked = queue.SimpleQueue[tuple[FollowedRun, str] | None]
"""Runs whose places are asked for, with the version of the places; None at the end."""


class ShownPlaces:
    """The newest places of each run. A process of its own lets policies act, one run after the other."""

    def __init__(self, own_class: str | None = None):
        """`own_class` is FILE.py:FUNCTION if the user has named the program of a class."""
        self._own_class = own_class
        self._kept: OrderedDict[str, Places] = OrderedDict()
        self._wanted: dict[str, str] = {}
        """The version of the places that were asked for last, by the key of the run."""
        # Evaluations are read at once, and do not wait for policies that act.
        self._to_read: Asked = queue.SimpleQueue()
        self._to_sample: Asked = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._tree: ProcessTree | None = None
        """The process that lets policies act; None before it is needed."""
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(asked,), name="alphamepol places", daemon=True)
            for asked in (self._to_read, self._to_sample)
        ]
        for thread in self._threads:
            thread.start()

    def newest(self, run: FollowedRun) -> Places:
        """Return the newest places that are known, and ask for newer ones if the run has a newer checkpoint."""
        try:
            version = _version_of_places(run)
        except (InputError, OSError) as error:
            return {"version": "", "sentence": message_as_text(str(error)), "picture": None, "coming": False}
        with self._lock:
            nothing = {"version": "", "sentence": "" if version else _sentence_before(run), "picture": None}
            kept = self._kept.get(run.key, nothing)
            if version and version not in (kept["version"], self._wanted.get(run.key)) and not self._closed:
                self._wanted[run.key] = version
                asked = self._to_read if version.startswith(EVALUATION) else self._to_sample
                asked.put((run, version))
            return {**kept, "coming": bool(version) and version != kept["version"]}

    def close(self) -> None:
        """End the process that samples. Places that are known stay known."""
        self._closed = True
        for asked in (self._to_read, self._to_sample):
            asked.put(None)
        if self._tree is not None:
            self._tree.kill()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _work(self, asked: Asked) -> None:
        while (one := asked.get()) is not None:
            run, version = one
            if self._wanted.get(run.key) != version:
                continue  # a newer checkpoint was asked for meanwhile
            found = self._find(run, version)
            with self._lock:
                known = self._kept.get(run.key, {"version": "", "picture": None})
                if known["version"] == self._wanted.get(run.key):
                    continue  # the other thread was faster with what is newest
                self._kept.pop(run.key, None)
                # A picture of an earlier checkpoint is better than none.
                picture = {"picture": known["picture"]} if isinstance(found, str) else found
                sentence = message_as_text(found) if isinstance(found, str) else ""
                self._kept[run.key] = {"version": version, "sentence": sentence, **picture}
                while len(self._kept) > MOST_KEPT:
                    self._wanted.pop(self._kept.popitem(last=False)[0], None)
        if self._tree is not None and asked is self._to_sample:
            self._tree.end(patience=0.0)

    def _find(self, run: FollowedRun, version: str) -> Places | str:
        """Return the picture of a version, or a sentence that says why there is none."""
        try:
            if version.startswith(EVALUATION):
                with refusing_odd_files(run.path):
                    picture = picture_of_evaluation(run)
                return "The places of this class are not in a plane." if picture is None else {"picture": picture}
            class_name = str(run.described.get("class"))
            named = class_name if is_same_program(class_name, self._own_class) else None
            if class_name not in registered_class_names() and named is None:
                return sentence_on_own_program(class_name)
            picture = self._sample(run.path, self._own_class if named else None)
        except (InputError, OSError) as error:
            return str(error)
        unit, done, _ = version.split("-")
        return picture if isinstance(picture, str) else {"picture": picture | {"source": f"{unit} {done}"}}

    def _sample(self, path: Path, own_class: str | None) -> dict[str, Any] | str:
        if self._closed:
            return ""
        if self._tree is None:
            self._tree = ProcessTree()
            self._tree.start("alphamepol.watching.sampling_worker", "answer_sampling_requests")
        worker = self._tree.workers[0]
        try:
            worker.tell((str(path), own_class))
            return worker.answer()
        except DeadWorkerError as error:
            self._tree.end(patience=0.0)
            self._tree = None
            return f"The process that lets the policy act has died ({error.how})."


def is_same_program(class_name: str, own_class: str | None) -> bool:
    """Tell whether a program that the user has named is the class of a run: it has the same file name and function."""
    return own_class is not None and Path(class_name).name == Path(own_class).name


def sentence_on_own_program(class_name: str) -> str:
    """Return the sentence that the page shows for a class that is a program of the user's."""
    return (
        f"The class of this run, {name_as_text(class_name, WIDTH)}, is a program of your own, and no program runs here "
        "because a file names it. To see where the newest policy goes, name the program with --class. The evaluation "
        "at the end of a pre-training is shown in any case."
    )


def _version_of_places(run: FollowedRun) -> str:
    """Return the name of the newest source of places: the evaluation, or a checkpoint; empty if there is none yet."""
    run.folder.read_config()  # no file of the run may be a link
    if run.folder.ended and run.folder.evaluation.is_file():
        return f"{EVALUATION}-{run.folder.evaluation.stat().st_mtime_ns}"
    try:
        saved = run.folder.saved_checkpoint()
    except InputError:
        return ""
    # Another run may have begun in the same folder.
    changed = checkpoint_policies_file(run.folder.checkpoints, *saved).stat().st_mtime_ns
    return f"{saved.unit}-{saved.done}-{changed}"


def _sentence_before(run: FollowedRun) -> str:
    """Return the sentence that the page shows before there are places."""
    every: Any = run.settings.get("checkpoint_every")
    when = f" is saved every {every} steps, and at the end" if value_has_type(every, int) else " comes later"
    return "" if run.folder.ended else f"The newest policy is shown from the first checkpoint on. A checkpoint{when}."


def picture_of_evaluation(run: FollowedRun) -> dict[str, Any] | None:
    """Return the places of a finished run, from the files that it wrote; None if places are not in a plane."""
    run.folder.read_config()  # no file of the run may be a link
    if run.folder.evaluation.stat().st_size > LARGEST_EVALUATION:
        raise InputError(f"run: {run.folder.evaluation} is too large to be shown")
    found = places_of_evaluation(load_evaluation(run.folder.evaluation), run.folder.read_class_record())
    return found and {**found, "source": EVALUATION}
