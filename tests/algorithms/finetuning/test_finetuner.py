"""Test the interface of fine-tuners: an algorithm that exists only here fine-tunes as TRPO does."""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from alphamepol import FinetuneConfig, FineTuner, InputError, Policy, TrpoConfig, finetune
from alphamepol.algorithms.finetuning.finetuner_names import FINETUNERS
from alphamepol.cli.main import _parse_main_arguments
from alphamepol.runs.metrics import read_metrics

pytestmark = pytest.mark.quick


@dataclass(frozen=True)
class ClimbConfig(FinetuneConfig):
    """The settings of hill climbing. `stride` is the standard deviation of its random steps."""

    stride: float = 0.1


class Climber(eqx.Module):
    policy: Policy
    best: Policy
    record: Float[Array, ""]


class Climbed(NamedTuple):
    record: Float[Array, ""]


@dataclass(frozen=True)
class HillClimbing:
    """A fine-tuner that tries random steps from the best policy so far, the one with the highest return."""

    name, label, own = "climb", "hill climbing", ClimbConfig()

    def settings(self, config: ClimbConfig) -> Array:
        return jnp.array(config.stride)

    def start(self, policy: Policy, config: ClimbConfig, *, key) -> Climber:
        return Climber(policy, policy, jnp.array(-1e9))

    def improve(self, state: Climber, episodes, settings, *, key):
        better = episodes.mean_return > state.record
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), state.policy, state.best)
        flat, restore = ravel_pytree(best)
        tried = restore(flat + settings * jax.random.normal(key, flat.shape))
        record = jnp.maximum(state.record, episodes.mean_return)
        return Climber(tried, best, record), Climbed(record)


CONFIG = ClimbConfig(goals=(-0.6, 0.9, 0.5, 0.5), iterations=5, horizon=15, steps=150, hidden=(8,), checkpoint_every=2)


def run(folder, config=CONFIG, **more):
    return finetune(
        "random",
        "GWS",
        config,
        algorithm=HillClimbing(),
        environment_class="gridworld-slope",
        folder=folder,
        quiet=True,
        **more,
    )


def test_a_toy_learner_fine_tunes(tmp_path) -> None:
    assert isinstance(HillClimbing(), FineTuner)
    done = run(tmp_path / "climb")
    lines = list(read_metrics(done.folder / "metrics.jsonl"))
    assert lines[0].keys() == {"iteration", "task", "seed", "return", "record", "seconds"}
    records = np.array([line["record"] for line in lines]).reshape(5, 2)
    np.testing.assert_allclose(records, np.maximum.accumulate(done.returns.T, axis=0), atol=1e-6)
    assert done.load_policy(1).architecture == done.load_policy(0).architecture
    assert (done.folder / "figures/returns.png").is_file()


def test_it_stops_and_goes_on_to_the_same_bits(tmp_path) -> None:
    whole = run(tmp_path / "whole")
    run(tmp_path / "parts")
    for path in ("summary.json", "checkpoints/iteration-000005.json", "checkpoints/iteration-000005.safetensors"):
        (tmp_path / "parts" / path).unlink()
    again = run(tmp_path / "parts", resume=True)
    assert again.summary["returns"] == whole.summary["returns"]
    for name in ("task-0-seed-0", "task-1-seed-0"):
        policies = [(done.folder / f"policy/{name}.safetensors").read_bytes() for done in (whole, again)]
        assert policies[0] == policies[1]


@pytest.fixture
def named(monkeypatch) -> None:
    """Give hill climbing a name, as a folder beside `algorithms/trpo/` would."""
    monkeypatch.setitem(FINETUNERS, "climb", "climbing")
    monkeypatch.setitem(sys.modules, "climbing.config", SimpleNamespace(OWN=ClimbConfig()))
    monkeypatch.setitem(sys.modules, "climbing.learner", SimpleNamespace(FINETUNER=HillClimbing()))


@pytest.mark.parametrize("words", ["--algorithm climb --stride 0.5", "--stride 0.5 --algorithm=climb"])
def test_the_command_line_knows_the_settings_of_an_algorithm_with_a_name(words: str, named, capsys) -> None:
    command = ["finetune", "random", "--class", "gridworld-slope", "--member", "GWS", *words.split()]
    assert _parse_main_arguments(command).config == ClimbConfig(stride=0.5)
    with pytest.raises(SystemExit):
        _parse_main_arguments([*command, "--help"])
    shown = capsys.readouterr().out
    assert "--stride" in shown
    assert "--max-kl" not in shown


def test_an_algorithm_with_a_name_has_folders_of_its_own(named, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    short = dataclasses.replace(CONFIG, iterations=1)
    done = finetune("random", "GWS", short, algorithm="climb", environment_class="gridworld-slope", quiet=True)
    assert done.folder == Path("runs/finetune-GWS-random-climb-seed-0")


def test_another_algorithm_is_another_run(tmp_path) -> None:
    run(tmp_path / "run")
    fields = {field.name: getattr(CONFIG, field.name) for field in dataclasses.fields(FinetuneConfig)}
    with pytest.raises(InputError, match="holds a run with another"):
        finetune(
            "random",
            "GWS",
            TrpoConfig(**fields),
            environment_class="gridworld-slope",
            folder=tmp_path / "run",
            resume=True,
            quiet=True,
        )


def test_settings_of_another_algorithm_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="config: TrpoConfig was given; hill climbing takes a ClimbConfig"):
        run(tmp_path / "run", config=TrpoConfig())
    with pytest.raises(InputError, match="algorithm: 'ppo' is not known, only trpo"):
        finetune("random", "GWS", algorithm="ppo", environment_class="gridworld-slope", folder=tmp_path / "run")
