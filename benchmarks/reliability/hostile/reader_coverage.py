"""Measure which lines of the modules that read files were executed in the attack."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[3] / "src/alphamepol"
READERS = (
    *("files/arrays.py", "files/atomic.py", "files/json_files.py", "files/locks.py"),
    *("settings/conversion.py", "environments/class_record.py", "measuring/evaluation_files.py"),
    *("policies/files.py", "policies/stable_baselines3.py", "policies/shape.py"),
    *("runs/folder.py", "runs/checkpoints.py", "runs/metrics.py", "runs/sources.py"),
    *("algorithms/diayn/discriminators.py", "algorithms/metatraining/learned_skills.py"),
    *("evaluation/export.py", "reproduction/store.py"),
)
"""The modules that read files of others, or decide which of them are read."""


def reader_paths() -> list[Path]:
    """Return the files of the modules that read. New modules in `files` are among them."""
    return sorted({*(PACKAGE / name for name in READERS), *(PACKAGE / "files").glob("[!_]*.py")})


@contextmanager
def measured_coverage(folder: Path | None, name: str) -> Iterator[None]:
    """Record the executed lines of the readers in a file of the folder, unless the folder is None."""
    if folder is None:
        yield
        return
    import coverage

    measured = coverage.Coverage(
        data_file=str(folder / f"{name}.coverage"), include=[str(path) for path in reader_paths()]
    )
    measured.start()
    try:
        yield
    finally:
        measured.stop()
        measured.save()


def summarise_coverage(folder: Path) -> dict[str, Any]:
    """Return the share of executed lines, in all readers and in each, and the lines that were not executed."""
    import coverage

    whole = coverage.Coverage(data_file=str(folder / "whole"), include=[str(path) for path in reader_paths()])
    whole.combine([str(path) for path in folder.glob("*.coverage")])
    modules, count, missed = {}, 0, 0
    for path in reader_paths():
        _, lines, _, missing, text = whole.analysis2(str(path))
        count, missed = count + len(lines), missed + len(missing)
        share = 1 - len(missing) / max(1, len(lines))
        modules[str(path.relative_to(PACKAGE))] = {"share": round(share, 3), "missing": text}
    return {"share": round(1 - missed / count, 4), "lines": count, "modules": modules}
