"""Train on generated classes, and measure policies in members that nobody has trained on.

    python -m benchmarks.unseen FOLDER OUT.json --classes generated-rooms --memories none last --epochs 120

Runs are kept in FOLDER and resumed. OUT.json gets the entropies on unseen and on seen members, those of Random and of
uniform draws that are measured alike, and scores. The score of a member is the share of the way from Random (0) to the
uniform draw (1). MiniGrids have no uniform draw; there the visited cells are counted.
"""

import dataclasses
import itertools
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

import alphamepol as am
from alphamepol.algorithms.alphamepol.start import untrained_start_policies
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.generated.generated_class import class_of_shown_members
from alphamepol.runs.folder import RunFolder
from alphamepol.settings.policy import MemoryKind
from benchmarks.unseen.entries import describe_command, keep_entry, read_entries
from benchmarks.unseen.measuring import (
    describe_cells,
    describe_scores,
    interval_over_seeds,
    measure_together,
    uniform_entropies,
)
from benchmarks.unseen.settings import TrainingOptions, class_with_training_members, config_of, setting_name

STREAMS = "unseen", "seen"


@dataclass(frozen=True)
class Options(TrainingOptions):
    """The settings of the experiment."""

    classes: tuple[str, ...] = ("generated-rooms", "generated-mazes")
    """The generated classes."""
    memories: tuple[MemoryKind, ...] = ("none", "last", "recurrent")
    """The kinds of memory."""
    training: tuple[int, ...] = (0,)
    """The numbers of members to train on; 0 is the endless stream."""
    members: int = 200
    """The number of unseen, and of seen, members that are measured."""
    batches: int = 2
    """The number of mini-batches in each of them."""
    keep_policies: bool = False
    """Copy the policy of the first seed of each run to the folder `policies` beside OUT.json."""


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    options: Annotated[Options, tyro.conf.arg(name="")],
) -> None:
    """Train policies on generated classes, and measure them on unseen and on seen members.

    Args:
        folder: the folder of the runs. Those that are there are continued.
        out: the JSON file of the entries. Other entries stay in it.
        options: the settings.
    """
    for class_name, memory, training in itertools.product(options.classes, options.memories, options.training):
        config = config_of(class_name, memory, options)
        setting = setting_name(class_name, config, training)
        environment_class = class_with_training_members(class_name, training)
        run = am.pretrain(environment_class, config, folder=folder / setting, resume=True, log="none", quiet=True)
        if options.keep_policies:
            (out.parent / "policies").mkdir(parents=True, exist_ok=True)
            first = RunFolder(run.folder).policies / f"seed-{config.seed}.safetensors"
            shutil.copy(first, out.parent / "policies" / f"{setting}.safetensors")
        name = f"{setting}, {options.members} members, {options.batches} mini-batches"
        if name in read_entries(out):
            continue
        entry: dict[str, Any] = {"class": class_name, "memory": memory, "training": training or None}
        entry |= {"seeds": config.seeds, "epochs": config.epochs}
        entry |= {"members": options.members, "batches": options.batches}
        entry |= measure_streams(run.policies, environment_class, config, options.members, options.batches)
        keep_entry(out, name, entry | {"run": describe_command("benchmarks.unseen", config, folder, out)})
        unseen = entry["unseen"]
        print(setting, json.dumps(unseen.get("score") or unseen["cells_per_trajectory"]), flush=True)


def measure_streams(
    policies: dict[int, am.Policy],
    environment_class: EnvironmentClass,
    config: am.PretrainConfig,
    members: int,
    batches: int,
) -> dict[str, Any]:
    """Measure policies and Random on unseen and on seen members, and estimate the gap between their scores.

    Random has no memory, so that the scores of all kinds of memory are measured from the same zero.
    """
    random = untrained_start_policies(environment_class, dataclasses.replace(config, memory="none"))
    found: dict[str, Any] = {}
    for which in STREAMS:
        shown = class_of_shown_members(environment_class, f"{which}:{members}")
        assert isinstance(shown, EnvironmentClass)
        measured = measure_together({"ours": policies, "random": random}, shown, config, batches)
        if measured["ours"].cells is None:
            uniform = uniform_entropies(shown, config)
            found[which] = describe_scores(measured["ours"], measured["random"], uniform)
        else:
            found[which] = describe_cells(measured["ours"], measured["random"])
    if "scores" in found["unseen"]:
        found["gap"] = interval_over_seeds(np.subtract(found["seen"]["scores"], found["unseen"]["scores"]))
    return found


if __name__ == "__main__":
    tyro.cli(main)
