"""Test `evaluate` from Python: policies in any form are measured alike, and mistakes are reported."""

import dataclasses
import json

import jax
import pytest

from alphamepol import GaussianPolicy, InputError, evaluate, pretrain
from alphamepol.cli.main import main

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    config = dataclasses.replace(tiny, epochs=1, seeds=2)
    return pretrain("gridworld-slope", config, folder=tmp_path_factory.mktemp("evaluate") / "run", quiet=True)


def test_a_run_its_policies_and_the_command_line_give_the_same_numbers(run, tmp_path, capsys) -> None:
    done = evaluate(run.folder, batches=4, folder=tmp_path / "run", quiet=True)
    (label,) = done.evaluations
    assert label == "αMEPOL (0.5)"
    assert done.summary["entropy"] == run.summary["entropy"]
    config = dataclasses.replace(run_config(run), feature_noise=0.0)
    mapped = evaluate(run.policies, "gridworld-slope", config, batches=4, folder=tmp_path / "policies", quiet=True)
    assert mapped.summary["entropy"] == run.summary["entropy"]
    assert capsys.readouterr().out == ""
    assert main(["evaluate", str(run.folder), "--batches", "4", "--folder", str(tmp_path / "line")]) == 0
    written = json.loads((tmp_path / "line/summary.json").read_text())
    assert written["entropy"] == done.summary["entropy"]
    assert written.keys() == done.summary.keys()


def run_config(run):
    from alphamepol.runs.sources import read_source

    return read_source(run.folder).config


def test_several_are_compared(run, tmp_path) -> None:
    policy = GaussianPolicy(2, 2, (8, 8), key=jax.random.key(0))
    done = evaluate([run.folder, policy, "random"], batches=2, folder=tmp_path / "all", quiet=True)
    assert list(done.evaluations) == ["αMEPOL (0.5)", "policy", "Random"]
    assert list(done.summary["runs"]) == ["run", "policy", "random"]
    assert (tmp_path / "all/figures/heat-maps.png").is_file()


def test_a_table_says_what_its_intervals_are_over(run, tmp_path, capsys) -> None:
    policy, folder = str(run.folder / "policy/seed-0.safetensors"), str(tmp_path / "one")
    line = ["evaluate", policy, str(run.folder), "--class", "gridworld-slope", "--batches", "4", "--folder", folder]
    assert main(line) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Brackets are 95 % intervals over 4 mini-batches of one seed." in shown
    assert "Two numbers in parentheses are those of two seeds." in shown
    done = evaluate(run.folder, batches=6, folder=tmp_path / "again", quiet=True)
    (evaluation,) = done.evaluations.values()
    one = evaluation.of_seed(0)
    assert repr(one).startswith("Evaluation('gridworld-slope', GWS ")
    low, high = one.estimate_cvar().interval
    assert low < one.cvar[0] < high
    assert one.estimate().value == pytest.approx(one.mean[0])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [([], "run: none was given"), ({}, "policies: none was given"), ("random", "run: random alone was given")],
)
def test_nothing_to_evaluate_gets_a_sentence(given, sentence: str, tmp_path) -> None:
    with pytest.raises(InputError, match=sentence):
        evaluate(given, "gridworld-slope", folder=tmp_path / "no")
