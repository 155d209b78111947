"""Test `reproduce` as a user sees it: finished runs are skipped, interrupted runs resumed, and failures reported."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from miniatures import times_of_summaries

from alphamepol import InputError, load_policy
from alphamepol.algorithms.alphamepol import run as pretrain_module
from alphamepol.cli.main import main
from alphamepol.errors import RunError
from alphamepol.reproduction import drawings, planned
from alphamepol.reproduction.reproduce import reproduce
from alphamepol.runs.interrupts import RunInterrupted

pytestmark = pytest.mark.usefixtures("tiny_scale")


@pytest.fixture(scope="module")
def once(tmp_path_factory, tiny_scale) -> Path:
    folder = tmp_path_factory.mktemp("reproduction") / "all"
    reproduce(["slope-adverse"], "quick", folder=folder)
    return folder


@pytest.fixture
def done(once, tmp_path) -> Path:
    """Return a copy that a test may change. Its files have the times of the original."""
    return shutil.copytree(once, tmp_path / "all")


def test_a_claim_is_decided_and_everything_is_left_in_the_folder(done, all_claims, capsys) -> None:
    assert main(["reproduce", "slope-adverse", "--folder", str(done)]) == 0
    shown = capsys.readouterr().out
    assert "slope-adverse" in shown
    assert "Report:" in shown
    claims = {claim["id"]: claim for claim in json.loads((done / "claims.json").read_text())}
    assert claims.keys() == all_claims
    (statement,) = claims["slope-adverse"]["statements"]
    assert statement["found"]["interval"][0] <= statement["found"]["value"] <= statement["found"]["interval"][1]
    assert claims["slope-finetune"]["verdict"] == "undecided"
    assert claims["slope-finetune"]["statements"][0]["missing"]
    for name in ("slope-entropies", "slope-histogram", "slope-heat-maps"):
        for suffix in ("png", "svg", "csv"):
            assert (done / "figures" / f"{name}.{suffix}").stat().st_size > 100
    assert "slope-adverse" in (done / "report.html").read_text()
    assert {path.name for path in done.glob("policies/gridworld-slope/*")} == {
        "alpha-0.2.safetensors",
        "alpha-1.safetensors",
    }
    for path in done.glob("policies/*/*"):
        assert load_policy(path).action_size == 2


def test_an_interrupted_reproduction_goes_on(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "all"
    run_epoch = pretrain_module.run_epoch
    calls = []

    def interrupted(*arguments, **named):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run_epoch(*arguments, **named)

    monkeypatch.setattr(pretrain_module, "run_epoch", interrupted)
    with pytest.raises(RunInterrupted):
        reproduce(["slope-adverse"], "quick", folder=folder)
    assert len(times_of_summaries(folder)) == 1
    reproduce(["slope-adverse"], "quick", folder=folder)
    assert len(calls) == 5  # the second run went on after its first epoch
    assert len(times_of_summaries(folder)) == 2


def test_a_run_that_fails_does_not_keep_the_others_from_being_done(tmp_path, monkeypatch, capsys) -> None:
    do = planned.Pretraining.do

    def failing(self, folder, find):
        if self.config.alpha == 0.2:
            raise RunError("epoch 3: all is lost")
        do(self, folder, find)

    monkeypatch.setattr(planned.Pretraining, "do", failing)
    folder = tmp_path / "all"
    assert main(["reproduce", "slope-finetune", "--folder", str(folder)]) == 1
    said = capsys.readouterr()
    assert "3 of 7 runs could not be done: gridworld-slope-alpha-0.2 (epoch 3: all is lost)" in said.err
    # Two of the five fine-tuning runs would have begun from the run that failed.
    assert said.err.count("it needs gridworld-slope-alpha-0.2") == 2
    assert len(times_of_summaries(folder)) == 1 + 3


def test_what_began_from_policies_that_were_not_kept_says_so(done, capsys) -> None:
    (policies,) = done.glob("runs/gridworld-slope-alpha-1-*/policy")
    shutil.rmtree(policies)
    capsys.readouterr()
    assert main(["reproduce", "slope-finetune", "--dry-run", "--folder", str(done)]) == 0
    assert capsys.readouterr().out.count("policies not kept") == 2
    assert main(["reproduce", "slope-finetune", "--folder", str(done)]) == 1
    assert "which were not kept; give another --folder to do that run again" in capsys.readouterr().err


def test_a_figure_that_cannot_be_drawn_does_not_keep_the_page_from_being_written(done, monkeypatch, capsys) -> None:
    def cannot(*_):
        raise InputError("class: it needs MuJoCo")

    monkeypatch.setattr(drawings, "make", cannot)
    (done / "report.html").unlink()
    assert main(["report", str(done)]) == 0
    assert "figure slope-heat-maps was left out: class: it needs MuJoCo" in capsys.readouterr().out
    assert (done / "report.html").is_file()


def test_interrupted_while_drawing_what_is_done_stays(done, monkeypatch) -> None:
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(drawings, "make", interrupted)
    with pytest.raises(RunInterrupted):
        reproduce(["slope-adverse"], "quick", folder=done)


def test_the_variance_of_gradients_is_measured(tmp_path, capsys) -> None:
    folder = tmp_path / "all"
    reproduce(["baseline"], "quick", folder=folder)
    (path,) = folder.glob("runs/gradient-variance-gridworld-*on-policy-[0-9a-f]*/summary.json")
    summary = json.loads(path.read_text())
    with_b, without = np.array(summary["variance_with_baseline"]), np.array(summary["variance_without"])
    assert with_b.shape == without.shape == (3,)
    assert np.all(with_b > 0)
    assert np.all(with_b != without)
    (path,) = folder.glob("runs/gradient-variance-along-*on-policy-[0-9a-f]*/summary.json")
    along = json.loads(path.read_text())
    assert along["checkpoints"] == [1, 2]
    assert np.shape(along["action_mean_variance_without"]) == (3, 2)
    for name in ("baseline-variance", "baseline-variance-along-training"):
        assert (folder / f"figures/{name}.png").is_file()

    # The checkpoints are needed only as long as the measurement is not done.
    for checkpoints in folder.glob("runs/*/checkpoints"):
        shutil.rmtree(checkpoints)
    capsys.readouterr()
    assert main(["reproduce", "baseline", "--dry-run", "--folder", str(folder)]) == 0
    assert "not kept" not in capsys.readouterr().out
    shutil.rmtree(path.parent)
    assert main(["reproduce", "baseline", "--dry-run", "--folder", str(folder)]) == 0
    assert capsys.readouterr().out.count("checkpoints not kept") == 1
    assert main(["reproduce", "baseline", "--folder", str(folder)]) == 1
    assert "it needs the checkpoints of" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["reproduce", "slope-advers"], "did you mean 'slope-adverse'?"),
        (["reproduce", "slope", "--scale", "paper", "--folder", "{quick}"], "holds a reproduction at scale quick"),
        (["reproduce", "slope", "--folder", "{file}"], "is a file; give the name of a folder"),
        (["report"], "none was given"),
        (["report", "{file}"], "is not a run folder"),
    ],
)
def test_mistakes_end_in_a_sentence(arguments, sentence, tmp_path, capsys) -> None:
    (tmp_path / "quick").mkdir()
    (tmp_path / "quick/reproduction.json").write_text('{"scale": "quick"}')
    (tmp_path / "file").write_text("")
    words = [word.format(quick=tmp_path / "quick", file=tmp_path / "file") for word in arguments]
    assert main(words) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "quick/runs").exists()
