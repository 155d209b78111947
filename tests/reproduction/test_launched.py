"""Test that the runs of a reproduction can be done as tasks: here in turn, in this process."""

import json
from pathlib import Path

import pytest

import alphamepol as am
from alphamepol.cli.main import main
from alphamepol.launching import launch as launch_module
from alphamepol.launching.task import Task
from alphamepol.reproduction.reproduce import reproduce

pytestmark = pytest.mark.usefixtures("tiny_scale")


class Done:
    """A job that has ended."""

    def __init__(self, status: int):
        self._status = status

    def status(self) -> int:
        return self._status

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class Here:
    """A starter that does every task at once in this process."""

    commands: list[tuple[str, ...]]

    def __init__(self, at_once: int, cores: int | None, gpus: int):
        Here.commands = []

    def start(self, task: Task) -> Done:
        Here.commands.append(task.words)
        return Done(main(list(task.words)))


def test_the_tasks_of_a_claim_decide_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(launch_module, "LocalStarter", Here)
    folder = tmp_path / "all"
    words = ["reproduce", "slope-adverse", "--folder", str(folder), "--at-once", "2"]
    assert main(words) == 0
    assert len(Here.commands) == 2
    (decided,) = [one for one in json.loads((folder / "claims.json").read_text()) if one["id"] == "slope-adverse"]
    assert decided["statements"][0]["found"] is not None
    assert (folder / "report.html").is_file()
    Here.commands.clear()
    assert main(words) == 0
    assert Here.commands == []  # nothing is done again


def test_fine_tuning_waits_for_the_pre_training_that_it_begins_from(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "slope-finetune", "--dry-run", "--on", "slurm", "--folder", "all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    submissions = [line for line in lines if line.startswith("sbatch")]
    assert len(submissions) == 3
    assert "--dependency" not in submissions[0]
    for line, alpha in zip(submissions[1:], ("0.2", "1"), strict=True):
        assert f"--dependency=afterok:JOB-OF-gridworld-slope-alpha-{alpha}-" in line
    script = Path("all/slurm.sh").read_text()
    assert script.count("set -- reproduce all --scale quick --folder all --run ") == 7
    assert not Path("all/runs").exists()


def test_mistakes_end_in_a_sentence(tmp_path, capsys) -> None:
    folder = tmp_path / "all"
    with pytest.raises(am.InputError, match="name a folder of runs/ that this reproduction plans"):
        reproduce(["slope-finetune"], folder=folder, run="nothing")
    reproduce(["slope-finetune"], folder=folder, dry_run=True, launch=am.LaunchSettings(on="slurm"))
    script = (folder / "slurm.sh").read_text()
    tuning = next(word for word in script.split() if word.startswith("finetune-GWN-gridworld-slope-alpha-0.2"))
    with pytest.raises(
        am.InputError, match=r"run: finetune-GWN.* needs gridworld-slope-alpha-0\.2.*, which is not done"
    ):
        reproduce(["slope-finetune"], folder=folder, run=tuning)
