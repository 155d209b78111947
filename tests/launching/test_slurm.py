"""Test the script of Slurm arrays, and the submission, with programs that stand in for Slurm's.

`.ci/slurm` does a sweep on a real Slurm."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from alphamepol import InputError, LaunchSettings
from alphamepol.cli.main import main
from alphamepol.errors import RunError
from alphamepol.launching.slurm import SlurmExecutor, slurm_arrays
from alphamepol.launching.slurm_script import slurm_array, slurm_script
from alphamepol.launching.task import Task
from alphamepol.settings.launch import check_launch_settings

ON_SLURM = LaunchSettings(on="slurm")
TINY = "--epochs 2 --trajectories 8 --batch 2 --horizon 20 --neighbours 4 --hidden 8 8".split()


def task_in(folder: Path, name: str, *needs: str, words: tuple[str, ...] = ("--version",)) -> Task:
    return Task(name, words, folder / name, folder / "logs" / f"{name}.log", 10, 5.0, needs)


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Path:
    """Return the folder of programs that stand in for Slurm's. `squeue` prints the file `states`."""
    programs = {
        "sbatch": f'echo "$*" >> {tmp_path}/submitted; wc -l < {tmp_path}/submitted',
        "squeue": f"cat {tmp_path}/states 2> /dev/null || true",
        "scancel": f'echo "$*" >> {tmp_path}/cancelled; rm {tmp_path}/states',
        "scontrol": f'echo "$*" >> {tmp_path}/requeued',
    }
    for name, line in programs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def run_script(text: str, element: int, **variables: str) -> int:
    environment = os.environ | {"SLURM_ARRAY_TASK_ID": str(element)} | variables
    return subprocess.run(["bash", "-c", text], env=environment, timeout=60).returncode


def test_the_dry_run_of_a_sweep_prints_the_script_and_submits_nothing(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["sweep", "gridworld-slope", "--alpha", "0.2", "1", "--memory", "none", "last", *TINY, "--dry-run"]
    words += ["--on", "slurm", "--gpus", "1", "--cores", "4", "--at-once", "3"]
    assert main([*words, "--slurm", "partition=gpu", "time=1:00:00", "--folder", "runs/all"]) == 0
    script = Path("runs/all/slurm.sh").read_text()
    for option in (
        *("array=0-3%3", "requeue", "open-mode=append", "signal=B:USR1@120", f"chdir={tmp_path}"),
        *("cpus-per-task=4", "gres=gpu:1", "partition=gpu", "time=1:00:00"),
    ):
        assert f"\n#SBATCH --{option}\n" in script
    assert script.count("set -- pretrain gridworld-slope --folder runs/all/runs/gridworld-slope-alpha-") == 4
    assert script.count(" --resume ") == 4
    assert script.count("--memory last") == 2
    shown = capsys.readouterr().out
    assert script in shown
    assert "sbatch --parsable --array=0-3%3 runs/all/slurm.sh" in shown
    assert not Path("runs/all/runs").exists()
    subprocess.run(["bash", "-n", "runs/all/slurm.sh"], check=True)


def test_an_element_does_its_run_and_ends_with_its_status(tmp_path) -> None:
    tasks = [task_in(tmp_path, "a"), task_in(tmp_path, "b", words=("pretrain", "no such class"))]
    (tmp_path / "logs").mkdir()
    text = slurm_script("alphamepol sweep", tasks, tasks, ON_SLURM)
    assert run_script(text, 0) == 0
    assert tasks[0].last_words.startswith("alphamepol ")
    assert run_script(text, 1) == 2
    assert "is not known" in tasks[1].last_words
    assert tasks[1].log.read_text().count("is not known") == 1  # a wrong input is not tried again
    assert run_script(text, 2) == 2


def test_an_element_stops_on_a_signal_and_asks_for_the_queue_only_at_its_time_limit(slurm, monkeypatch) -> None:
    """A program stands in for alphamepol: it fails until it is asked to stop."""
    monkeypatch.setattr("sys.executable", str(slurm / "bin/python"))
    program = slurm / "bin/python"
    text = slurm_script("alphamepol sweep", [task_in(slurm, "a")], [task_in(slurm, "a")], ON_SLURM)
    (slurm / "logs").mkdir()
    numbers = {"SLURM_ARRAY_JOB_ID": "7"}
    program.write_text("#!/bin/bash\necho once\nexit 1\n")
    program.chmod(0o755)
    assert run_script(text, 0, **numbers) == 1
    assert (slurm / "logs/a.log").read_text() == "once\n" * 3
    for sent, asks in (("TERM", False), ("USR1", True)):
        waits = "for _ in $(seq 500); do sleep 0.02; done"
        program.write_text(f"#!/bin/bash\ntrap 'exit 130' TERM\nkill -{sent} $PPID\n{waits}\n")
        assert run_script(text, 0, **numbers) == 130
        assert (slurm / "requeued").exists() == asks
    assert (slurm / "requeued").read_text() == "requeue 7_0\n"


def test_the_numbers_of_elements() -> None:
    assert slurm_array([0, 1, 2, 5, 7, 8], None) == "0-2,5,7-8"
    assert slurm_array([3], 4) == "3%4"


def test_arrays_come_after_the_arrays_that_they_need(tmp_path) -> None:
    tasks = [
        *(task_in(tmp_path, "tune", "train"), task_in(tmp_path, "tune-too", "train"), task_in(tmp_path, "train")),
        *(task_in(tmp_path, "old"), task_in(tmp_path, "of-old", "old")),
    ]
    tasks[3].folder.mkdir()
    (tasks[3].folder / "summary.json").write_text("{}")
    assert [(array.numbers, array.needs) for array in slurm_arrays(tasks)] == [([2, 4], ()), ([0, 1], ("train",))]


def test_runs_are_submitted_once_and_followed(slurm) -> None:
    tasks = [task_in(slurm, "train"), task_in(slurm, "other"), task_in(slurm, "tune", "train")]
    executor = SlurmExecutor("alphamepol sweep", tasks, ON_SLURM, slurm)
    script = slurm / "slurm.sh"
    assert (slurm / "submitted").read_text().splitlines() == [
        f"--parsable --array=0-1 {script}",
        f"--parsable --array=2 --dependency=afterok:1_0 --kill-on-invalid-dep=yes {script}",
    ]
    jobs = {"train": "1_0", "other": "1_1", "tune": "2_2"}
    assert json.loads((slurm / "slurm.json").read_text())["jobs"] == jobs
    (slurm / "states").write_text("1_0|RUNNING|None\n1_1|PENDING|Resources\n2_2|PENDING|Dependency\n")
    found = executor.look()
    assert {name: (state.name, state.reason) for name, state in found.items()} == {
        "train": ("running", ""),
        "other": ("queued", "Resources"),
        "tune": ("waiting", "Dependency"),
    }
    # A second command follows the jobs that have not ended, and submits what has.
    (slurm / "states").write_text("1_0|RUNNING|None\n1_1|CANCELLED|None\n2_2|PENDING|Dependency\n")
    SlurmExecutor("alphamepol sweep", tasks, ON_SLURM, slurm)
    assert (slurm / "submitted").read_text().splitlines()[2:] == [f"--parsable --array=1 {script}"]


def test_a_run_is_done_by_its_folder_and_failed_if_its_job_has_gone_without_it(slurm) -> None:
    tasks = [task_in(slurm, "a"), task_in(slurm, "b")]
    executor = SlurmExecutor("alphamepol sweep", tasks, ON_SLURM, slurm)
    tasks[0].folder.mkdir()
    (tasks[0].folder / "summary.json").write_text("{}")
    (slurm / "states").write_text("1_1|NODE_FAIL|None\n")
    assert executor.look()["a"].name == "done"
    executor.look()
    found = executor.look()["b"]
    assert (found.name, found.reason) == ("failed", "its job 1_1 has ended node_fail")


def test_stopping_cancels_what_has_not_ended(slurm) -> None:
    executor = SlurmExecutor("alphamepol sweep", [task_in(slurm, name) for name in "abc"], ON_SLURM, slurm)
    (slurm / "states").write_text("1_0|RUNNING|None\n1_1|PENDING|Resources\n1_2|COMPLETED|None\n")
    executor.stop()
    executor.stop()
    assert (slurm / "cancelled").read_text() == "1_0 1_1\n"


def test_mistakes_end_in_a_sentence(slurm, monkeypatch) -> None:
    for settings, said in (
        (LaunchSettings(on="slurm", slurm=("partition=gpu; rm -rf",)), "slurm: 'partition=gpu; rm -rf' was given"),
        (LaunchSettings(on="ray", slurm=("time=1",)), "slurm: it was given with --on ray"),
        (LaunchSettings(wait=False), "--no-wait is for --on slurm only"),
        (LaunchSettings(at_once=0), "at_once: 0 was given"),
    ):
        with pytest.raises(InputError, match=said):
            check_launch_settings(settings)
    with pytest.raises(InputError, match="scripts cannot name the path"):
        slurm_script("", [task_in(slurm / 'a "b"', "a")], [], ON_SLURM)
    (slurm / "bin/sbatch").write_text("#!/bin/bash\necho 'sbatch: error: Invalid partition' >&2\nexit 1\n")
    with pytest.raises(RunError, match="sbatch failed: sbatch: error: Invalid partition"):
        SlurmExecutor("alphamepol sweep", [task_in(slurm, "a")], ON_SLURM, slurm)
    monkeypatch.setenv("PATH", str(slurm))
    with pytest.raises(InputError, match="there is no command sbatch on this machine"):
        SlurmExecutor("alphamepol sweep", [task_in(slurm, "a")], ON_SLURM, slurm)
