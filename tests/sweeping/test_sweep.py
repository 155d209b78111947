"""Test a sweep as a user sees it: its runs, its page, what is not repeated, and what goes on after Ctrl-C."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import alphamepol as am
from alphamepol.algorithms.alphamepol.presets import preset
from alphamepol.cli.ending import INTERRUPTED
from alphamepol.cli.main import _parse_main_arguments, main
from alphamepol.environments.registry import registered_class_names
from alphamepol.reproduction.launched.tasks import words_of_pretraining
from alphamepol.reproduction.planned import Pretraining
from alphamepol.reproduction.store import Store
from alphamepol.settings.conversion import settings_to_dict
from alphamepol.sweeping.plan import plan_sweep

LONGEST = 120
"""The seconds after which a test gives up."""


@pytest.fixture(scope="module")
def config(tiny) -> am.PretrainConfig:
    return replace(tiny, seeds=1, feature_noise=1e-3)


@pytest.fixture(scope="module")
def once(tmp_path_factory, config) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "all"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        launch = am.LaunchSettings(at_once=2)
        page = am.sweep("gridworld-slope", config, alpha=(0.5, 1.0), launch=launch, folder=folder)
    assert page == folder / "sweep.html"
    return folder


@pytest.fixture
def done(once, tmp_path, monkeypatch) -> Path:
    """Return a copy that a test may change. Its files have the times of the original."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return shutil.copytree(once, tmp_path / "all")


def policy_of(folder: Path, run: str) -> bytes:
    (path,) = folder.glob(f"runs/{run}-[0-9a-f]*/policy/seed-0.safetensors")
    return path.read_bytes()


def test_the_runs_are_those_of_pretrain_and_the_page_compares_them(done, config, tmp_path) -> None:
    am.pretrain("gridworld-slope", replace(config, alpha=1.0), folder=tmp_path / "run", quiet=True)
    alone = tmp_path / "run/policy/seed-0.safetensors"
    assert alone.read_bytes() == policy_of(done, "gridworld-slope-alpha-1")
    page = (done / "sweep.html").read_text()
    assert page.count("data:image/png") == 2
    assert "<td>none</td>" in page
    told = json.loads((done / "sweep.json").read_text())
    assert [(run["alpha"], run["memory"]) for run in told["runs"]] == [(0.5, "none"), (1.0, "none")]
    assert told["missing"] == []
    for run in told["runs"]:
        assert set(run["entropy"]) == {"GWS", "GWN"}
        low, high = run["entropy"]["GWN"]["interval"]
        assert low <= run["entropy"]["GWN"]["value"] <= high
    for name in ("front-members", "front-risk"):
        for suffix in ("png", "svg", "csv"):
            assert (done / f"figures/{name}.{suffix}").stat().st_size > 100


def test_what_is_done_is_not_repeated(done, config, capsys) -> None:
    before = {path: path.stat().st_mtime_ns for path in done.glob("runs/*/summary.json")}
    assert am.sweep("gridworld-slope", config, alpha=(1.0, 0.5), folder=done) == done / "sweep.html"
    assert {path: path.stat().st_mtime_ns for path in done.glob("runs/*/summary.json")} == before
    am.sweep("gridworld-slope", config, alpha=(1.0, 0.5, 0.1), folder=done, dry_run=True)
    shown = capsys.readouterr().out
    assert shown.count("│ done  │") == 2
    assert shown.count("│ to do │") == 1


def test_a_run_on_ray_has_the_same_bits(done, config) -> None:
    before = policy_of(done, "gridworld-slope-alpha-1")
    (folder,) = done.glob("runs/gridworld-slope-alpha-1-[0-9a-f]*")
    shutil.rmtree(folder)
    words = ["import alphamepol as am, sys", "from alphamepol.settings.conversion import settings_from_dict as read"]
    words += ["import json", "config = read(am.PretrainConfig, json.loads(sys.argv[1]))"]
    words += ["launch = am.LaunchSettings(on='ray', ray_address='local')"]
    words += ["am.sweep('gridworld-slope', config, alpha=(0.5, 1.0), launch=launch, folder=sys.argv[2])"]
    given = json.dumps(settings_to_dict(config))
    # Ray is used in a process of its own, because it leaves threads and open files behind.
    subprocess.run([sys.executable, "-c", "\n".join(words), given, str(done)], check=True, timeout=LONGEST)
    assert policy_of(done, "gridworld-slope-alpha-1") == before


def test_ctrl_c_saves_the_runs_and_says_how_to_continue(done, config) -> None:
    words = ["sweep", "gridworld-slope", "--alpha", "0.5", *_options(replace(config, epochs=100_000))]
    words += ["--folder", str(done)]
    with subprocess.Popen([sys.executable, "-m", "alphamepol", *words], stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + LONGEST
        while not [path for path in _begun(done) if path.stat().st_size]:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=LONGEST)
    assert process.returncode == INTERRUPTED
    assert said.startswith("alphamepol: interrupted; what is done is saved. Continue with: alphamepol sweep ")
    assert said.endswith("--resume\n")
    (stopped,) = _begun(done)
    assert list(stopped.parent.glob("checkpoints/*.json"))
    with pytest.raises(am.InputError, match="continue them with --resume"):
        am.sweep("gridworld-slope", replace(config, epochs=100_000), alpha=(0.5,), folder=done)


def test_a_run_that_fails_is_named_and_the_page_is_written(done, config, monkeypatch) -> None:
    monkeypatch.setattr("alphamepol.launching.pool.TRIES", 1)
    wrong = replace(config, alpha=0.5, initial_mean=(0.0, 0.0, 0.0))
    with pytest.raises(am.RunError, match=r"1 of 1 runs could not be done: gridworld-slope-alpha-0\.5-.*initial_mean"):
        am.sweep("gridworld-slope", wrong, alpha=(0.5,), folder=done)
    assert "These runs are not done" in (done / "sweep.html").read_text()


def _begun(folder: Path) -> list[Path]:
    """Return the metrics of the runs that have begun and not ended."""
    return [path for path in folder.glob("runs/*/metrics.jsonl") if not (path.parent / "summary.json").exists()]


def _options(config: am.PretrainConfig) -> list[str]:
    words = words_of_pretraining("gridworld-slope", config, Path("x"), 1)
    return words[words.index("--resume") + 1 :]


@pytest.mark.quick
def test_the_command_line_of_a_run_has_its_settings() -> None:
    configs = [(name, preset("quick", name)) for name in registered_class_names()]
    configs.append(("gridworld-slope", am.PretrainConfig(update="on-policy", baseline=False, probabilities=(0.0, 1.0))))
    configs.append(("multigrid", am.PretrainConfig(memory="recurrent", initial_log_std=-0.5, keep_checkpoints="all")))
    for name, config in configs:
        words = words_of_pretraining(name, config, Path("runs/a b"), 2)
        parsed = _parse_main_arguments(words)
        assert parsed.config == config, name
        assert (parsed.environment_class, parsed.folder, parsed.resume) == (name, Path("runs/a b"), True)
        assert parsed.devices == 2


@pytest.mark.quick
def test_mistakes_end_in_a_sentence(tmp_path, capsys) -> None:
    folder = ["--folder", str(tmp_path / "a")]
    for words, said in (
        (["--alpha", "0.2", "1.5"], "alpha: 1.5 was given"),
        (["--alpha"], "alpha: no value was given"),
        (["--slurm", "time=1:00:00"], "slurm: it was given with --on local"),
        (["--at-once", "1", "--cores", "100000"], "cores: 100000 was given for each of 1 runs"),
    ):
        assert main(["sweep", "gridworld-slope", "--preset", "quick", *words, *folder]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "a/runs").exists()


@pytest.mark.quick
def test_equal_runs_are_planned_once_and_specialists_have_a_member_each(config) -> None:

    runs = plan_sweep("gridworld-slope", config, (0.5, 0.5, 1.0), ("none", "last"), True)
    assert [(run.config.alpha, run.config.memory, run.member_alone) for run in runs] == [
        *((0.5, "none", None), (1.0, "none", None), (0.5, "last", None), (1.0, "last", None)),
        *((1.0, "none", 0), (1.0, "none", 1)),
    ]
    places = {Store(Path("nowhere")).place_of(run) for run in runs}
    assert len(places) == 6
    assert all(isinstance(run, Pretraining) for run in runs)
