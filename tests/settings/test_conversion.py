"""Test settings: the presets, and the messages about fields with impossible values."""

import dataclasses

import pytest

from alphamepol import InputError, PretrainConfig, TrpoConfig, preset
from alphamepol.environments.registry import registered_class_names
from alphamepol.settings.conversion import settings_from_dict, settings_to_dict

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"alpha": 0.0}, "alpha: 0.0 was given; it must be above 0 and at most 1"),
        ({"alpha": 1.5}, "alpha: 1.5"),
        ({"alpha": float("nan")}, "alpha: nan"),
        ({"epochs": 0}, "epochs: 0 was given; it must be at least 1"),
        ({"trajectories": 201}, "trajectories: 201 was given; it must be a multiple of batch, which is 5"),
        ({"neighbours": 2000}, "neighbours: 2000 was given; it must be less than batch x horizon = 2000"),
        ({"neighbours": 0}, "neighbours: 0"),
        ({"learning_rate": 0.0}, "learning_rate: 0.0 was given; it must be above 0 and finite"),
        ({"trust_region": float("inf")}, "trust_region: inf"),
        ({"feature_noise": -0.1}, "feature_noise: -0.1 was given; it must be at least 0 and finite"),
        ({"recurrent_units": 0}, "recurrent_units: 0"),
        ({"initial_log_std": float("nan")}, "initial_log_std: nan"),
        ({"initial_log_std": 100.0}, "initial_log_std: 100.0 was given; it must be between -20 and 20"),
        ({"initial_mean": ()}, "initial_mean: no number was given"),
        ({"baseline": False}, "baseline: False was given; it must be True unless --update is on-policy"),
        ({"initial_mean": (0.0, float("nan"))}, "initial_mean"),
        ({"hidden": (300, 0)}, "hidden"),
        ({"seeds": 0}, "seeds: 0"),
        ({"seed": -1}, "seed: -1 was given; it must be at least 0"),
        ({"seed": 2**32}, "seeds must be below"),
        ({"checkpoint_every": 0}, "checkpoint_every: 0"),
        ({"evaluation_batches": 0}, "evaluation_batches: 0"),
    ],
)
def test_a_field_that_cannot_be_is_named(change, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        dataclasses.replace(PretrainConfig(), **change).check()


def test_a_memory_that_does_not_exist_is_named() -> None:
    config = PretrainConfig()
    object.__setattr__(config, "memory", "long")  # as from a file, where types are not checked
    with pytest.raises(InputError, match="memory: 'long' was given; choose none, last, recurrent"):
        config.check()


def test_the_limits_themselves_are_allowed() -> None:
    PretrainConfig(alpha=1.0, horizon=1, batch=2, trajectories=2, neighbours=1, epochs=1, hidden=()).check()
    PretrainConfig(neighbours=1999).check()


def test_paper_presets_are_the_papers_table() -> None:
    slope, multi, counter = (
        preset("paper", name) for name in ("gridworld-slope", "multigrid", "gridworld-counterexample")
    )
    assert (slope.epochs, slope.horizon, slope.trajectories, slope.batch, slope.alpha) == (150, 400, 200, 5, 0.2)
    assert (slope.trust_region, slope.learning_rate, slope.neighbours, slope.seeds) == (15.0, 1e-5, 30, 10)
    assert (slope.hidden, slope.initial_log_std, slope.initial_mean) == ((300, 300), -1.5, (-0.2, 0.2))
    assert multi == dataclasses.replace(slope, epochs=50, trajectories=500, alpha=0.1)
    assert counter == dataclasses.replace(slope, epochs=50, alpha=0.35)


def test_authors_presets_keep_14_of_40_minibatches() -> None:
    assert preset("authors", "gridworld-slope") == dataclasses.replace(preset("paper", "gridworld-slope"), alpha=0.35)
    assert preset("authors", "multigrid") == preset("paper", "multigrid")


def test_large_presets_have_more_trajectories_and_nothing_else() -> None:
    for name, trajectories in (("minigrid", 1600), ("ant-stairs", 1200)):
        assert preset("large", name) == dataclasses.replace(preset("paper", name), trajectories=trajectories)
        preset("large", name).check()
    with pytest.raises(InputError, match="preset: multigrid has no large preset; choose paper, authors, quick or own"):
        preset("large", "multigrid")
    with pytest.raises(InputError, match="preset: the paper has no settings for a class of your own"):
        preset("large")


def test_every_class_has_presets_that_pass_the_checks() -> None:
    for name in registered_class_names():
        for which in ("paper", "authors", "quick"):
            preset(which, name).check()
    assert preset("quick", "multigrid").seeds == 1


def test_settings_survive_json() -> None:
    config = PretrainConfig(initial_mean=(0.1, 0.2), probabilities=(0.5, 0.5))
    assert settings_from_dict(PretrainConfig, settings_to_dict(config)) == config
    assert settings_from_dict(PretrainConfig, settings_to_dict(PretrainConfig())) == PretrainConfig()
    tuned = TrpoConfig(goals=(0.1, 0.2), critic_hidden=())
    assert settings_from_dict(TrpoConfig, settings_to_dict(tuned)) == tuned
