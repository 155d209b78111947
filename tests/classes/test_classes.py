"""Test every named class: its file must define all that is needed."""

import dataclasses

import gymnasium
import pytest

from alphamepol import MetatrainConfig, PretrainConfig, TrpoConfig, finetuning_preset, metatraining_preset, preset
from alphamepol.environments.registry import find_registered_class, registered_class_names

pytestmark = pytest.mark.quick

CLASSES = registered_class_names()


@pytest.mark.parametrize("name", CLASSES)
def test_the_entry_has_all_that_is_needed(name: str) -> None:
    entry = find_registered_class(name)
    assert entry is not None
    assert entry.name == name
    assert entry.description
    for scale in ("paper", "miniature"):
        for kind in (PretrainConfig, TrpoConfig):
            settings = entry.settings(scale, kind)
            assert settings is not None, (scale, kind)
            settings.check()
    for settings in entry.presets["paper"]:
        assert isinstance(settings, PretrainConfig | TrpoConfig | MetatrainConfig)


@pytest.mark.parametrize("name", CLASSES)
def test_ids_are_registered_with_their_environments_as_strings(name: str) -> None:
    entry = find_registered_class(name)
    assert entry is not None
    for gymnasium_id, environment in entry.gymnasium_ids.items():
        spec = gymnasium.spec(gymnasium_id)
        assert spec.entry_point == environment.entry_point
        assert spec.kwargs == dict(environment.arguments)


def test_a_class_of_ones_own_has_the_settings_for_those() -> None:
    own = "mine.py:mine"
    assert preset("own", own) == preset("own", "gridworld-slope")
    assert preset("quick", own) == dataclasses.replace(
        preset("own", own), epochs=40, trajectories=100, hidden=(64, 64), learning_rate=3e-4
    )
    assert finetuning_preset(own).horizon == 200
    assert metatraining_preset("paper", own) == MetatrainConfig()
    assert find_registered_class(own) is None
