"""The commands and functions that read files, and the originals that each of them is given."""

import json
import random
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reliability.hostile.originals import OWN, PRETRAINING, RUNS, SWEEP, TUNING

TARGET = "TARGET"
"""The word of a command line that stands for the mutated folder or file."""
TRAINED = ("slope", "recurrent", "last", "minigrid", "maml", "diayn", "further", "slope-begun", "further-begun")
ON_SLOPE = tuple(name for name in TRAINED if name != "minigrid")
WITH_FILES = ("slope", "recurrent", "last", "minigrid", "maml", "further")
"""The runs whose policies are files named after seeds."""
FILES = ("policy.zip", "policy.safetensors", "last.zip", "last.safetensors")
ALL_RUNS = (*TRAINED, "carts", "tuned", "tuned-begun", "maml-begun", "diayn-begun", "carts-begun")


MOST_LOOKS = 1000
"""The most looks at a run folder that a page may take."""


@dataclass(frozen=True)
class Victim:
    """A command line or a Python function, and the originals that can be its input."""

    name: str
    inputs: tuple[str, ...]
    line: str = ""
    """The command line; empty for a Python function."""
    call: Callable[[Any, Path], Any] | None = None
    """The call of a Python function, given the package and the path of the input."""
    companions: tuple[str, ...] = ()
    """The originals that lie beside the input, unchanged."""
    twin: bool = False
    """True if a copy of the input, unchanged, lies in the folder `twin` under the same name."""
    works: bool = False
    """True if the work of the command is always done. It writes into the folder of the input."""
    weight: float = 1.0


def _resumed(name: str) -> str:
    """Return the command line that resumes an original."""
    return f"{RUNS[name.removesuffix('-begun')]} --folder TARGET --resume"


def _resuming(name: str, *inputs: str, companions: tuple[str, ...] = ()) -> Victim:
    command = RUNS[name].split()[0]
    return Victim(f"{command} --resume ({name})", inputs, _resumed(name), companions=companions)


VICTIMS = (
    Victim("evaluate", TRAINED, "evaluate TARGET --batches 1 --folder out", weight=2),
    Victim(
        "evaluate --checkpoint", ("slope", "slope-begun"), "evaluate TARGET --batches 1 --checkpoint 2 --folder out"
    ),
    Victim("evaluate --class", ("carts",), f"evaluate TARGET --class {OWN}:carts --batches 1 --folder out", weight=0.3),
    Victim("evaluate in place", ("slope", "last"), "evaluate TARGET --batches 1", works=True, weight=0.2),
    Victim("evaluate several", ON_SLOPE, "evaluate TARGET random slope2 --batches 1", companions=("slope",)),
    Victim("evaluate FILE", FILES, "evaluate TARGET --class gridworld-slope --batches 1 --folder out"),
    Victim("render", ON_SLOPE, "render TARGET --member GWN --steps 5 --out film.png"),
    Victim(
        "render FILE", FILES, "render TARGET --class gridworld-slope --member GWN --steps 5 --out film.gif", weight=0.5
    ),
    Victim("finetune", ON_SLOPE, f"finetune TARGET --member GWN {TUNING} --folder out", weight=0.5),
    Victim("finetune several", ON_SLOPE, f"finetune random TARGET --member GWN {TUNING} --folder out", weight=0.3),
    Victim(
        "finetune FILE",
        FILES,
        f"finetune TARGET --class gridworld-slope --member GWN {TUNING} --folder out",
        weight=0.5,
    ),
    Victim(
        "export sb3", ("slope", "last", "maml", "carts", "slope-begun", "carts-begun"), "export TARGET out.zip --to sb3"
    ),
    Victim("export safetensors", (*TRAINED, "carts", "carts-begun"), "export TARGET out.safetensors --to safetensors"),
    Victim("export FILE", FILES, "export TARGET out.safetensors --to safetensors", weight=2),
    Victim("export FILE sb3", FILES, "export TARGET out.zip --to sb3 --class gridworld-slope"),
    Victim("report", ALL_RUNS, "report TARGET", weight=3),
    Victim("report several", ALL_RUNS, "report TARGET slope2 tuned2 --out page.html", companions=("slope", "tuned")),
    Victim("report twins", ALL_RUNS, "report TARGET twin/TARGET --out page.html", twin=True),
    Victim("report reproduction", ("reproduction",), "report TARGET", weight=0.4),
    Victim("reproduce", ("reproduction",), "reproduce slope-finetune --folder TARGET", weight=0.4),
    Victim("reproduce --dry-run", ("reproduction",), "reproduce slope-finetune --folder TARGET --dry-run", weight=0.5),
    Victim("sweep --resume", ("sweep",), f"{SWEEP} --folder TARGET --resume", weight=0.7),
    Victim("sweep --dry-run", ("sweep",), f"{SWEEP} --folder TARGET --dry-run", weight=0.3),
    Victim("watch", (*ALL_RUNS, "sweep"), call=lambda am, path: _follow_on_page(am, path), weight=2),
    Victim(
        "check",
        ON_SLOPE,
        f"check gridworld-slope TARGET {PRETRAINING} --batches 2 --folder out".replace("--log none", ""),
    ),
    Victim("pretrain --init", ON_SLOPE, f"pretrain gridworld-slope --init TARGET {PRETRAINING} --folder out"),
    Victim("pretrain --init FILE", FILES, f"pretrain gridworld-slope --init TARGET {PRETRAINING} --folder out"),
    Victim(
        "metatrain --diayn", ("diayn",), f"{RUNS['diayn'].replace('diayn', 'maml-diayn')} --diayn TARGET --folder out"
    ),
    Victim("demo", ("demo",), "demo --folder TARGET", weight=0.3),
    _resuming("slope", "slope-begun", "slope-begun", "slope"),
    _resuming("further", "further-begun", "further", companions=("slope",)),
    _resuming("carts", "carts-begun"),
    _resuming("tuned", "tuned-begun", "tuned-begun", "tuned", companions=("slope",)),
    _resuming("compared", "compared", companions=("slope",)),
    _resuming("maml", "maml-begun", "maml-begun", "maml"),
    _resuming("diayn", "diayn-begun", "diayn-begun", "diayn"),
    Victim("pretrain --resume to the end", ("slope-begun",), _resumed("slope"), works=True, weight=0.2),
    Victim("metatrain --resume to the end", ("diayn-begun",), _resumed("diayn"), works=True, weight=0.2),
    Victim(
        "load_policy", (*ALL_RUNS, *FILES, "discrete.safetensors"), call=lambda am, path: am.load_policy(path), weight=3
    ),
    Victim(
        "load_policy --checkpoint", ("slope", "tuned", "maml"), call=lambda am, path: am.load_policy(path, checkpoint=2)
    ),
    Victim(
        "load_policy inside", WITH_FILES, call=lambda am, path: am.evaluate(_policy_inside(path), batches=1, quiet=True)
    ),
)


def _policy_inside(path: Path) -> Path:
    return path / "policy/seed-0.safetensors"


def _follow_on_page(am: Any, path: Path) -> None:
    """Read runs as the server of the live page does, and write what it would send. No policy acts."""
    from alphamepol.watching import follower as followers
    from alphamepol.watching.shown_places import ShownPlaces

    followers.READ_EVERY = 0.0
    ShownPlaces._sample = lambda self, path, own_class: "No policy acts here."
    trouble: list[BaseException] = []
    threading.excepthook = lambda caught: trouble.append(caught.exc_value or SystemExit())
    follower, places = followers.Follower(path), ShownPlaces()
    for _ in range(MOST_LOOKS):
        try:
            follower.advance()
            sent: list[Any] = [follower.summarise()]
            for summary in sent[0]:
                run = follower.run(summary["key"])
                assert run is not None
                sent += [follower.curves_since(run.key, 0, 0), places.newest(run)]
        except am.InputError as error:
            raise AssertionError("the page itself must turn this error into a sentence") from error
        assert not trouble, f"a thread of the page ended: {trouble[0]!r}"
        if not any(run["read"] < 1 for run in sent[0]) and not any(one["coming"] for one in sent[2::2]):
            Path("sent.json").write_text(json.dumps(sent, allow_nan=False))
            return
        time.sleep(0.01)
    raise TimeoutError(f"{path}: the page still had news after {MOST_LOOKS} looks")


READ_OF_RUNS = ("config.json", "summary.json", "class.json", "policy/*.safetensors")
READ_OF_BEGUN_RUNS = ("config.json", "class.json", "metrics.jsonl", "checkpoints/*.json", "checkpoints/*-policies.*")
READ_TO_REPORT = ("config.json", "summary.json", "evaluation.safetensors", "figures/*.png")
READ_TO_REPORT_BEGUN = ("config.json", "class.json", "metrics.jsonl", "metrics.jsonl")
READ_TO_RESUME = (
    "config.json",
    "metrics.jsonl",
    "checkpoints/*.json",
    "checkpoints/*[0-9].safetensors",
    "init.safetensors",
)
READ_OF_SWEEPS = ("runs/*/config.json", "runs/*/summary.json", "runs/*/evaluation.safetensors", "runs/*/metrics.jsonl")
READ_OF_REPRODUCTIONS = (
    *("reproduction.json", "runs/*/config.json", "runs/*/summary.json", "runs/*/evaluation.safetensors"),
    *("runs/*/metrics.jsonl", "runs/*/policy/*.safetensors"),
)


def files_that_are_read(victim: Victim, original: str) -> tuple[str, ...]:
    """Return patterns of the files that a victim reads in an original. They are mutated more often than others."""
    begun = original.endswith("-begun")
    if original == "reproduction":
        return READ_OF_REPRODUCTIONS
    if original == "sweep":
        return READ_OF_SWEEPS
    if original in ("demo", "compared"):
        return tuple(f"*/{name}" for name in ("config.json", "summary.json", "evaluation.safetensors", "policy/*"))
    if victim.name.startswith("report"):
        return READ_TO_REPORT_BEGUN if begun else READ_TO_REPORT
    if "--diayn" in victim.name:
        return "config.json", "summary.json", "discriminator/*"
    if "--resume" in victim.name and begun:
        return READ_TO_RESUME
    if "--checkpoint" in victim.name:
        return READ_OF_BEGUN_RUNS
    return READ_OF_BEGUN_RUNS if begun else READ_OF_RUNS


def possible_pairs(originals: Path, names: tuple[str, ...] = ()) -> list[tuple[Victim, str]]:
    """Return every victim with each of its inputs that has been made. `names` are the victims; empty for all."""
    return [
        (victim, original)
        for victim in VICTIMS
        for original in dict.fromkeys(victim.inputs)
        if (not names or victim.name in names)
        and all((originals / name).exists() for name in (original, *victim.companions))
    ]


def choose_victim(pairs: Sequence[tuple[Victim, str]], chance: random.Random) -> tuple[Victim, str]:
    """Return a victim and the name of its input."""
    victims = list(dict.fromkeys(victim for victim, _ in pairs))
    (victim,) = chance.choices(victims, [victim.weight for victim in victims])
    return victim, chance.choice([original for other, original in pairs if other is victim])


def lay_out_input(victim: Victim, original: str, originals: Path, inside: Path) -> Path:
    """Copy the original and its companions into a folder. Return the path of the copy that is to be mutated."""
    name = f"run{Path(original).suffix}"
    if victim.name.startswith("report") or "--resume" in victim.name:
        name = original  # runs that began from others name them
    source, target = originals / original, inside / name
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    shutil.copytree(originals / "own", inside / "own")
    if victim.twin:
        shutil.copytree(source, inside / "twin" / name)
    for companion in victim.companions:
        other = inside / (f"{companion}2" if f"{companion}2" in victim.line else companion)
        if not other.exists():
            shutil.copytree(originals / companion, other)
    return target


def command_line_of(victim: Victim, target: Path) -> list[str]:
    return [word.replace(TARGET, target.name) for word in victim.line.split()]
