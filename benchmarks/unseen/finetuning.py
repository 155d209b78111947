"""Fine-tune on goals in unseen members: `python -m benchmarks.unseen.finetuning FOLDER OUT.json`.

FOLDER holds the runs of `python -m benchmarks.unseen` and `python -m benchmarks.unseen.specialists` with the same
settings. All goals in all members are the tasks of one run of TRPO, and each task brings its own member. One compiled
program therefore serves all members.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from jaxtyping import Float

import alphamepol as am
from alphamepol.compute.keys import goal_key
from alphamepol.environments.cmp import CMP, Member
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.member_tasks import random_goal_tasks
from alphamepol.environments.tasks import Goal
from alphamepol.estimation.statistics import Sample, estimate_statistic
from alphamepol.runs.checkpoints import saved_checkpoints
from benchmarks.unseen.entries import describe_command, keep_entry
from benchmarks.unseen.measuring import FIRST, rounded
from benchmarks.unseen.settings import (
    TrainingOptions,
    config_of,
    policies_of_run,
    setting_name,
    specialists_config,
    specialists_name,
)
from benchmarks.unseen.specialists import train_specialists, unseen_members


@dataclass(frozen=True)
class Options(TrainingOptions):
    """The settings of the experiment. Those of pre-training say which runs of FOLDER are used."""

    classes: tuple[str, ...] = ("generated-rooms", "generated-mazes")
    """The generated classes."""
    starts: tuple[str, ...] = ("none", "last", "recurrent", "specialist", "random")
    """The initial policies: those of the runs with this memory, the specialist of another member, or Random."""
    specialists: int = FIRST
    """The number of specialists in FOLDER."""
    members: int = 10
    """The number of unseen members."""
    goals: int = 3
    """The number of goals in each member."""
    iterations: int = 40
    """The number of iterations of TRPO."""
    steps: int = 12_000
    """The number of environment steps per iteration."""


class GoalInMember(am.Task):
    """A goal in a member that the task brings along, whatever member the run is in."""

    where: CMP
    goal: Goal

    def set_up(self, member: Member) -> Member:
        return self.where

    def reward(self, member, state, action, reached):
        return self.goal.reward(member, state, action, reached)

    def ended(self, member, reached):
        return self.goal.ended(member, reached)

    def describe(self) -> dict[str, Any]:
        return {"goal": self.goal.describe()}


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    options: Annotated[Options, tyro.conf.arg(name="")],
) -> None:
    """Fine-tune from several initial policies on the same goals in unseen members.

    Args:
        folder: the folder of the runs. Those of fine-tuning that are there are continued.
        out: the JSON file of the entries. Other entries stay in it.
        options: the settings.
    """
    for class_name in options.classes:
        environment_class = am.make(class_name)
        assert isinstance(environment_class, EnvironmentClass)
        tasks = goals_in_members(environment_class, options.members, options.goals)
        for start in options.starts:
            init, init_name, policies = initial_policies(folder, class_name, start, options)
            hidden = config_of(class_name, "none", options).hidden
            config = am.TrpoConfig(iterations=options.iterations, steps=options.steps, hidden=hidden, tasks=len(tasks))
            name = f"{init_name}-finetuned-{options.members}-{options.goals}-iterations-{options.iterations}"
            name += f"-steps-{options.steps}"
            place = folder / name
            run = am.finetune(
                init,
                0,
                config,
                environment_class=environment_class,
                tasks=tasks,
                folder=place,
                resume=True,
                log="none",
                quiet=True,
            )
            entry: dict[str, Any] = {"class": class_name, "start": start, "init": init_name}
            entry |= {"members": options.members, "goals": options.goals, "iterations": options.iterations}
            entry |= describe_returns(run.returns, options.goals, policies)
            keep_entry(
                out, name, entry | {"run": describe_command("benchmarks.unseen.finetuning", config, folder, out)}
            )
            print(name, json.dumps({part: entry[part] for part in ("mean", "last")}), flush=True)


def goals_in_members(environment_class: EnvironmentClass, members: int, goals: int) -> list[am.Task]:
    """Return tasks for the first unseen members: goals that are uniform over the free space of each one."""
    found: list[am.Task] = []
    for number in range(members):
        where = environment_class[number]
        found += [GoalInMember(where, goal) for goal in random_goal_tasks(where, goals, key=goal_key(number))]
    return found


def initial_policies(folder: Path, class_name: str, start: str, options: Options) -> tuple[Any, str, int]:
    """Return what `finetune` starts from, its name, and the number of policies that take turns over the tasks.

    The number is 0 if every member has policies of its own.
    """
    if start == "random":
        return "random", f"{class_name}-random", 0
    if start == "specialist":
        config = specialists_config(class_name, options.specialists, options)
        name = specialists_name(class_name, config)
        if config.epochs not in saved_checkpoints(folder / name, "epoch"):
            command = "python -m benchmarks.unseen.specialists"
            raise SystemExit(f"{folder / name} holds no trained specialists; make them with {command} first")
        specialists = train_specialists(unseen_members(class_name, options.specialists), config, folder / name)
        others = [(number + 1) % options.specialists for number in range(options.members) for _ in range(options.goals)]
        return {row: specialists[other] for row, other in enumerate(others)}, name, 0
    name = setting_name(class_name, config_of(class_name, start, options))
    return policies_of_run(folder, name), name, options.seeds


def describe_returns(returns: Float[np.ndarray, "tasks iterations"], goals: int, policies: int) -> dict[str, Any]:
    """Return the mean over the iterations, the return of the last one, and the curve, with intervals over members."""

    def over_members(values: Float[np.ndarray, " tasks"]) -> dict[str, Any]:
        return estimate_statistic(Sample.of_tasks(values.reshape(-1, goals), policies)).to_dict()

    return {
        "mean": over_members(returns.mean(axis=1)),
        "last": over_members(returns[:, -1]),
        "curve": rounded(returns.mean(axis=0)),
        "means": rounded(returns.mean(axis=1)),
        "lasts": rounded(returns[:, -1]),
    }


if __name__ == "__main__":
    tyro.cli(main)
