"""Test the command line as a user sees it: its output, its files and its exit status."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from alphamepol import GaussianPolicy, preset, save_policy
from alphamepol.cli.main import INTERRUPTED, _parse_main_arguments, main

TINY = (
    "--preset quick --horizon 20 --trajectories 12 --batch 2 --neighbours 8 --hidden 8 8 --epochs 3 "
    "--max-off-policy-iterations 2 --evaluation-batches 3"
).split()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--alpha 0", "alpha: 0.0 was given; it must be above 0 and at most 1"),
        ("--alpha 1.2", "alpha: 1.2 was given"),
        ("--trajectories 13", "trajectories: 13 was given; it must be a multiple of batch, which is 5"),
        ("--neighbours 2000", "neighbours: 2000 was given; it must be less than batch x horizon = 2000"),
        ("--probabilities 0.5 0.6", "probabilities: 0.5 0.6 sum to 1.1; they must sum to 1"),
        ("--probabilities 1", "probabilities: 1 was given; one number per member is needed (GWS, GWN)"),
        ("--initial-mean 1 2 3", "initial_mean: 1 2 3 was given; an action has 2 components"),
    ],
)
def test_bad_settings_get_one_sentence_and_write_nothing(arguments: str, sentence: str, elsewhere, capsys) -> None:
    assert main(["pretrain", "gridworld-slope", *arguments.split()]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert not any(elsewhere.iterdir())


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("pretrain gridworld-slop", "'gridworld-slop' is not known"),
        ("pretrain gridworld-slop", "did you mean 'gridworld-slope'?"),
        ("evaluate nowhere", "there is no run folder, policy file or released policy nowhere"),
        ("evaluate .", "is not a run folder, it has no config.json"),
    ],
)
def test_what_is_not_there_gets_one_sentence(command: str, sentence: str, elsewhere, capsys) -> None:
    assert main(command.split()) == 2
    assert sentence in capsys.readouterr().err
    assert not any(elsewhere.iterdir())


@pytest.mark.parametrize(
    "command", ["pretrain", "pretrain gridworld-slope --preset best", "pretrain multigrid --epochs x", "fly"]
)
def test_what_cannot_be_parsed_ends_with_status_2(command: str, elsewhere, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(command.split())
    assert stop.value.code == 2
    assert not any(elsewhere.iterdir())


def test_an_unreadable_policy_file_gets_one_sentence(elsewhere, capsys) -> None:
    Path("policy.safetensors").write_text("nonsense")
    assert main("evaluate policy.safetensors --class gridworld-slope".split()) == 2
    assert "policy.safetensors cannot be read as a policy" in capsys.readouterr().err
    assert [path.name for path in elsewhere.iterdir()] == ["policy.safetensors"]


def test_pretrain_then_evaluate_there_and_elsewhere(elsewhere, capsys) -> None:
    assert (
        main(["pretrain", "gridworld-slope", *TINY, "--initial-mean", "-0.1", "0.1", "--alpha", "1", "--seeds", "2"])
        == 0
    )
    shown = capsys.readouterr().out
    folder = Path("runs/gridworld-slope-alpha-1-seed-0")
    assert f"Everything is in {folder}" in shown
    assert "Next: alphamepol evaluate" in shown
    config = json.loads((folder / "config.json").read_text())["config"]
    assert (config["learning_rate"], config["initial_mean"], config["seeds"]) == (3e-4, [-0.1, 0.1], 2)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["method"] == "mepol"

    assert main(["evaluate", str(folder), "--batches", "3"]) == 0
    evaluated = json.loads((folder / "evaluation-gridworld-slope" / "summary.json").read_text())
    assert evaluated["entropy"] == summary["entropy"]
    for name in ("heat-maps", "heat-maps-seed-0", "heat-maps-seed-1"):
        assert (folder / f"evaluation-gridworld-slope/figures/{name}.png").stat().st_size > 1000

    policy = str(folder / "policy/seed-0.safetensors")
    capsys.readouterr()
    Path("copy.safetensors").write_bytes(Path(policy).read_bytes())
    assert main(["evaluate", "copy.safetensors"]) == 2  # inside of the run folder, class.json tells the class
    assert "say so with --class" in capsys.readouterr().err
    assert main(["evaluate", policy, "--class", "gridworld-counterexample", "--batches", "2", "--folder", "there"]) == 0
    there = json.loads(Path("there/summary.json").read_text())
    assert set(there["entropy"]) == {"four-rooms", "two-halls"}
    assert there["policy"] == "seed-0.safetensors"
    (folder / "policy/seed-0.safetensors").unlink()
    assert main(["evaluate", str(folder), "--batches", "2", "--alpha", "0.5", "--folder", "part"]) == 0
    part = json.loads(Path("part/summary.json").read_text())
    assert (part["seeds"], part["alpha"]) == ([1], 0.5)

    assert main(["pretrain", "gridworld-slope", *TINY, "--alpha", "1"]) == 2
    assert "holds another run" in capsys.readouterr().err


def test_evaluating_a_run_without_a_checkpoint_says_so(elsewhere, capsys) -> None:
    Path("run").mkdir()
    config = {"command": "pretrain", "class": "gridworld-slope", "config": {}}
    Path("run/config.json").write_text(json.dumps(config))
    assert main(["evaluate", "run"]) == 2
    assert "run has no checkpoint yet, and so no policy" in capsys.readouterr().err


def test_classes_lists_members_and_spaces(capsys) -> None:
    assert main(["classes"]) == 0
    shown = capsys.readouterr().out
    for word in ("gridworld-slope", "multigrid", "gridworld-counterexample", "GWN", "MG9", "two-halls", "1.058", "Box"):
        assert word in shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gridworld-slope --preset paper --folder quick", ("paper", "gridworld-slope")),
        ("--folder multigrid gridworld-slope", ("paper", "gridworld-slope")),
        ("--preset=quick multigrid", ("quick", "multigrid")),
        ("--preset quick gridworld-slope --preset authors", ("authors", "gridworld-slope")),
        ("gridworld-counterexample", ("paper", "gridworld-counterexample")),
        ("minigrid --preset large", ("large", "minigrid")),
        ("multigrid --folder large", ("paper", "multigrid")),
        ("multigrid --folder large --preset quick", ("quick", "multigrid")),
    ],
)
def test_the_preset_and_the_class_decide_the_settings_not_other_words(words: str, expected: tuple[str, str]) -> None:
    assert _parse_main_arguments(["pretrain", *words.split()]).config == preset(*expected)


def test_evaluate_does_not_write_into_a_run(elsewhere, capsys) -> None:
    save_policy(GaussianPolicy(2, 2, (4,), key=jax.random.key(0)), "policy.safetensors")
    Path("run").mkdir()
    Path("run/config.json").write_text("{}")
    assert main("evaluate policy.safetensors --class gridworld-slope --folder run".split()) == 2
    assert "holds a run" in capsys.readouterr().err
    assert main("evaluate policy.safetensors --class gridworld-slope --batches 0".split()) == 2
    assert "batches: 0 was given" in capsys.readouterr().err


def test_resume_goes_on_to_the_end(elsewhere, capsys) -> None:
    command = ["pretrain", "gridworld-slope", *TINY, "--folder", "run[1]"]
    assert main(command) == 0
    Path("run[1]/summary.json").unlink()
    assert main([*command, "--resume"]) == 0
    shown = capsys.readouterr().out
    assert "continuing after epoch 3 of 3" in shown
    assert "Everything is in run[1]:" in shown


def test_version(capsys) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("alphamepol 0.")


def test_help_does_not_import_jax() -> None:
    code = (
        "import sys; from alphamepol.cli.main import main\ntry: main(['pretrain', '--help'])\nexcept SystemExit: pass\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code + "assert 'jax' not in sys.modules, 'jax was imported'"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for option in "alpha epochs horizon trajectories batch neighbours learning-rate trust-region initial-mean".split():
        assert f"--{option} " in shown
    for option in "seeds seed folder resume preset probabilities".split():
        assert f"--{option} " in shown


def test_help_shows_the_defaults_of_the_preset_and_class(capsys) -> None:
    with pytest.raises(SystemExit):
        main("pretrain multigrid --preset=quick --help".split())
    shown = " ".join(capsys.readouterr().out.split())
    assert "(default: 0.1)" in shown
    assert "(default: 0.0003)" in shown


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_and_says_how_to_go_on(elsewhere, sent) -> None:
    command = [sys.executable, "-m", "alphamepol", "pretrain", "gridworld-slope", *TINY, "--epochs", "100000"]
    metrics = Path("run/metrics.jsonl")
    with subprocess.Popen([*command, "--folder", "run"], stderr=subprocess.PIPE, text=True) as run:
        try:
            for _ in range(1200):
                if metrics.exists() and metrics.read_text().count("\n") > 2:
                    break
                assert run.poll() is None
                time.sleep(0.1)
            run.send_signal(sent)
            _, error = run.communicate(timeout=60)
        finally:
            run.kill()
    assert run.returncode == INTERRUPTED
    assert "interrupted; what is done is saved. Continue with: alphamepol pretrain gridworld-slope" in error
    assert error.rstrip().endswith("--folder run --resume")
    assert "Traceback" not in error
    done = json.loads(sorted(Path("run/checkpoints").glob("*.json"))[-1].read_text())["epoch"]
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [line["epoch"] for line in lines][:done] == list(range(done))


FINETUNE_TINY = "--class gridworld-slope --tasks 2 --iterations 3 --horizon 10 --steps 40 --hidden 8".split()


def test_finetune_several_side_by_side(elsewhere, capsys) -> None:
    save_policy(GaussianPolicy(2, 2, (8,), key=jax.random.key(0)), "mine.safetensors")
    command = ["finetune", "mine.safetensors", "random", "--member", "GWN", *FINETUNE_TINY]
    assert main(command) == 0
    folder = Path("runs/finetune-GWN-mine-random-seed-0")
    shown = capsys.readouterr().out
    assert f"Everything is in {folder}: numbers in summary.json, the curves and the maps of goals" in shown
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["init"] == {"mine": "mine.safetensors", "random": "random"}
    for name in ("mine", "random"):
        alone = json.loads((folder / name / "summary.json").read_text())
        assert alone["returns"] == summary["returns"][name]
        assert alone["tasks"] == summary["tasks"]
        assert alone["final"] == summary["final"][name]
    assert (folder / "figures/returns.png").stat().st_size > 3000
    curves = (folder / "figures/returns.csv").read_text().splitlines()
    assert curves[0] == "init,iteration,mean,low,high,tasks"
    assert len(curves) == 1 + 2 * 3
    assert (folder / "figures/tasks.csv").read_text().startswith("init,task,x,y,final_return\n")

    assert main(command) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("stop_at", [(0, 2), (1, 0), (1, 2)])
def test_an_interrupted_comparison_goes_on(stop_at, elsewhere, monkeypatch, capsys) -> None:
    """The interrupt comes during the first of two initial policies, between them, or during the second."""
    command = ["finetune", "random", "random", "--member", "GWN", *FINETUNE_TINY, "--folder"]
    assert main([*command, "whole"]) == 0
    from alphamepol.algorithms.finetuning import run as module

    run_iteration = module.run_finetuning_iteration
    begun = []

    def stopping(state, iteration, *rest):
        begun.extend([1] if iteration == 0 else [])
        if (len(begun) - 1, iteration) == stop_at:
            raise KeyboardInterrupt
        return run_iteration(state, iteration, *rest)

    monkeypatch.setattr(module, "run_finetuning_iteration", stopping)
    capsys.readouterr()
    assert main([*command, "cut"]) == INTERRUPTED
    assert "what is done is saved. Continue with: alphamepol finetune random random" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(elsewhere)
    assert main([*command, "cut", "--resume"]) == 0
    whole, cut = (json.loads(Path(folder, "summary.json").read_text()) for folder in ("whole", "cut"))
    assert whole["returns"] == cut["returns"]
    assert whole["label"] == {"0-random": "Random", "1-random": "Random"}


def test_finetune_one_takes_the_class_of_its_run(elsewhere, capsys) -> None:
    assert main(["pretrain", "gridworld-slope", *TINY, "--folder", "a run"]) == 0
    assert "alphamepol finetune 'a run' random --member GWN" in capsys.readouterr().out
    Path("a run").rename("run")
    settings = "--tasks 2 --iterations 2 --horizon 10 --steps 40 --goals 0.5 0.5 -0.5 0.7 --folder tuned".split()
    assert main(["finetune", "run", "--member", "GWS", *settings]) == 0
    summary = json.loads(Path("tuned/summary.json").read_text())
    assert (summary["class"], summary["member"], summary["init"]) == ("gridworld-slope", "GWS", "run")
    assert summary["tasks"] == [pytest.approx([0.5, 0.5]), pytest.approx([-0.5, 0.7])]
    assert main("export run --to safetensors policy.safetensors".split()) == 0
    assert Path("policy.safetensors").read_bytes() == Path("run/policy/seed-0.safetensors").read_bytes()
    assert main("export run --to sb3 policy.zip --seed 0".split()) == 0
    assert "Written: policy.zip" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("finetune random --member GWN", "class: random does not say in which class it acts; say so with --class"),
        ("finetune random --class gridworld-slope --member GWE", "has no member 'GWE', only GWS, GWN; did you mean"),
        (
            "finetune random --class gridworld-slope --member GWN --goals 0 0",
            "goal: 0 0 was given, which is inside a wall",
        ),
        ("finetune random --class gridworld-slope --member GWN --goals 0.5", "1 numbers; each goal needs 2"),
        ("finetune random --class gridworld-slope --member GWN --tasks 0", "tasks: 0 was given; it must be at least 1"),
        ("finetune --member GWN", "init: none was given; name the folder of a run, a policy file, or random"),
        ("finetune random nowhere --member GWN", "there is no run folder, policy file or released policy nowhere"),
        ("export nowhere --to sb3 out.zip", "there is no run folder, policy file or released policy nowhere"),
        ("export random --to sb3 out.zip", "random is no policy that could be exported"),
        ("evaluate random --class multigrid", "random alone was given"),
    ],
)
def test_bad_fine_tuning_gets_one_sentence_and_writes_nothing(command: str, sentence: str, elsewhere, capsys) -> None:
    assert main(command.split()) == 2
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1
    assert not any(elsewhere.iterdir())


def test_a_policy_of_another_size_gets_one_sentence(elsewhere, capsys) -> None:
    save_policy(GaussianPolicy(5, 2, (8,), key=jax.random.key(0)), "mine.safetensors")
    assert main(["finetune", "mine.safetensors", "--member", "GWN", *FINETUNE_TINY]) == 2
    sentence = "policy mine.safetensors: it maps 5 observation numbers to 2 action numbers, but class gridworld-slope"
    assert sentence in capsys.readouterr().err
