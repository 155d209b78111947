"""Train on generated classes, and measure how well policies explore members that nobody has trained on.

    python -m benchmarks.unseen FOLDER OUT.json --classes generated-rooms --memories none last --seeds 3 --epochs 120

Runs are kept in FOLDER and resumed. OUT.json gets the entropies on unseen and on seen members, those of Random and of
uniform draws that are measured alike, and scores. The score of a member is the share of the way from Random (0) to the
uniform draw (1).
"""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

import alphamepol as am
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.generated.generated_class import class_of_shown_members
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.estimation.knn import nearest_neighbours
from alphamepol.estimation.statistics import Sample, estimate_statistic
from alphamepol.settings.policy import MemoryKind


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    classes: tuple[str, ...] = ("generated-rooms", "generated-mazes"),
    memories: tuple[MemoryKind, ...] = ("none", "last", "recurrent"),
    seeds: int = 3,
    epochs: int = 120,
    members: int = 200,
    batches: int = 2,
    alpha: float = 1.0,
    training: tuple[int, ...] = (0,),
) -> None:
    """Train, evaluate and write the figures.

    Args:
        folder: the folder of the runs.
        out: the JSON file of the figures. Those of other classes and settings stay in it.
        classes: the generated classes.
        memories: the kinds of memory.
        seeds: the number of seeds.
        epochs: the number of epochs of the preset quick.
        members: the number of unseen, and of seen, members that are evaluated.
        batches: the number of mini-batches in each of them.
        alpha: the percentile of pre-training.
        training: the numbers of members to train on; 0 is the endless stream.
    """
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for name, count in itertools.product(classes, training):
        config = dataclasses.replace(am.preset("quick", name), alpha=alpha, seeds=seeds, epochs=epochs)
        environment_class = class_with_training_members(name, count)
        streams = {
            which: class_of_shown_members(environment_class, f"{which}:{members}") for which in ("unseen", "seen")
        }
        uniform = {which: uniform_entropies(one, config) for which, one in streams.items()}
        for memory in memories:
            setting = f"{name}-{memory}-alpha-{alpha:g}-epochs-{epochs}-seeds-{seeds}" + f"-training-{count}" * (
                count > 0
            )
            run, of_run = folder / setting, dataclasses.replace(config, memory=memory)
            am.pretrain(environment_class, of_run, folder=run, resume=True, log="none")
            described: dict[str, Any] = {"class": name, "seeds": seeds, "epochs": epochs, "members": members}
            described |= {"batches": batches, "memory": memory, "training": count or None}
            for which in streams:
                place = folder / f"{setting}-{which}"
                done = am.evaluate(
                    [run, "random"],
                    environment_class,
                    members=f"{which}:{members}",
                    batches=batches,
                    folder=place,
                    quiet=True,
                )
                ours, random = done.evaluations.values()
                described[which] = scores(ours, random, uniform[which])
            gap = np.array(described["seen"]["scores"]) - np.array(described["unseen"]["scores"])
            described["gap"] = estimate_statistic(Sample.of_seeds(gap)).to_dict()
            found[f"{setting}, {members} members, {batches} mini-batches"] = described
            # The run folders are not kept, so that their descriptions are kept here.
            kept = json.loads((run / "config.json").read_text())
            described["run"] = {part: kept[part] for part in ("config", "commit", "versions", "device")}
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(found, indent=1) + "\n")
            shown = {which: described[which]["score"] for which in streams}
            print(name, memory, count or "endless", json.dumps(shown))


def class_with_training_members(name: str, count: int) -> EnvironmentClass:
    """Return a generated class that trains on so many members, or on an endless stream if the count is 0."""
    found = am.make(name)
    assert isinstance(found, EnvironmentClass)
    assert found.generator is not None
    if not count:
        return found
    return am.generated_class(found.generator.make, training=count, shown=found.generator.shown, name=name)


def uniform_entropies(environment_class: Any, config: am.PretrainConfig, sets: int = 4) -> np.ndarray:
    """Return the entropy of uniform draws from the free space of each member, measured as a mini-batch is."""
    assert isinstance(environment_class, EnvironmentClass)
    keys = jax.random.split(jax.random.key(0), (sets, config.batch * config.horizon))
    draw = jax.jit(lambda member: jax.vmap(jax.vmap(lambda key: member.draw_place(key=key)))(keys))
    found = []
    for number in range(len(environment_class)):
        places = np.asarray(draw(environment_class[number]))
        found.append(float(jax.vmap(particle_entropy)(nearest_neighbours(places, config.neighbours)).mean()))
    return np.array(found)


def scores(ours: am.Evaluation, random: am.Evaluation, uniform: np.ndarray) -> dict[str, Any]:
    """Return the entropies, and the scores of all members, with intervals over seeds."""
    untrained = random.member_means.mean(axis=0)
    of_members = (ours.member_means - untrained) / (uniform - untrained)
    worst = np.sort(of_members, axis=1)[:, : max(1, of_members.shape[1] // 10)].mean(axis=1)

    def estimate(values: np.ndarray) -> dict[str, Any]:
        return estimate_statistic(Sample.of_seeds(values)).to_dict()

    return {
        "entropy": estimate(ours.member_means.mean(axis=1)),
        "random": float(untrained.mean()),
        "uniform": float(uniform.mean()),
        "ceiling": float(np.mean(ours.ceilings)),
        "score": estimate(of_members.mean(axis=1)),
        "worst_tenth": estimate(worst),
        "scores": of_members.mean(axis=1).tolist(),
        "quantiles": np.quantile(of_members.mean(axis=0), [0.0, 0.1, 0.5, 0.9, 1.0]).tolist(),
    }


if __name__ == "__main__":
    tyro.cli(main)
