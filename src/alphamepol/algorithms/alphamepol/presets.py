"""The presets of pre-training. A preset gives every setting a value; single settings can be overridden."""

import dataclasses
from pathlib import Path
from typing import Literal, get_args

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.environments.registry import Named, find_registered_class, registered_name
from alphamepol.errors import InputError
from alphamepol.files.json_files import read_config_json
from alphamepol.files.reading import ODD
from alphamepol.settings.conversion import settings_from_dict

Preset = Literal["paper", "authors", "large", "quick", "own"]

# A mini-batch has 20 trajectories instead of the paper's 5. In some environments, such as a pendulum, every trajectory
# follows an orbit of its own. With 5 trajectories most neighbours of a particle are then from its own trajectory, and
# learning makes all trajectories follow the same large orbit (docs/environments.md).
OWN = PretrainConfig(
    epochs=50,
    horizon=200,
    trajectories=400,
    batch=20,
    learning_rate=3e-5,
    initial_log_std=-0.5,
    normalise=True,
    coinciding="noise",
)
"""The settings for a class that the paper does not have. The units of such a class are not known."""


def quick_alphamepol_preset(config: PretrainConfig) -> PretrainConfig:
    """Return the settings with a small network, fewer samples, a higher learning rate and one seed.

    A seed then takes a minute on two cores.
    """
    return dataclasses.replace(config, epochs=40, trajectories=100, hidden=(64, 64), learning_rate=3e-4, seeds=1)


def preset(name: Preset, environment_class: str | Named | None = None) -> PretrainConfig:
    """Return the settings of pre-training that a preset has for a class of environments.

    **Arguments**

    - `name`: the name of the preset:
        - `"paper"`: the settings in the paper's table, with ten seeds. Only classes with a name have this preset.
        - `"authors"`: like `"paper"`, but with the values of the authors' published scripts where they differ. Only
          the paper's classes have this preset.
        - `"large"`: like `"paper"`, but with many times the trajectories of an epoch, in mini-batches of the same size.
          An epoch takes longer and its gradient has less noise. Only `minigrid` and both classes of `ant-stairs` have
          this preset.
        - `"quick"`: a small network, fewer samples, a higher learning rate and one seed, which takes a minute on two
          cores.
        - `"own"`: the settings for a class of your own, whose units are not known, with one seed.
    - `environment_class`: a class of environments or its name. Any class that the package does not know is a class of
      your own, and so is the default.

    **Returns**

    A `PretrainConfig`. Change single fields with `dataclasses.replace`.

    **Raises**

    - `InputError`: if no preset has this name, if `"paper"`, `"authors"` or `"large"` is asked for and the paper does
      not have the class, or if `"large"` is asked for and the class does not have it.

    **Example**

    ```python
    import dataclasses

    import alphamepol as am

    config = dataclasses.replace(am.preset("quick", "gridworld-slope"), alpha=0.5)
    print(config.epochs, config.alpha)  # 40 0.5
    ```
    """
    class_name = "a class of your own" if environment_class is None else registered_name(environment_class)
    if name not in get_args(Preset):
        raise InputError(f"preset: {name!r} is not known; choose paper, authors, large, quick or own")
    entry = find_registered_class(class_name)
    paper = entry and entry.settings("paper", PretrainConfig)
    if name == "own" or (name == "quick" and paper is None):
        return OWN if name == "own" else quick_alphamepol_preset(OWN)
    if entry is None or paper is None:
        raise InputError(f"preset: the paper has no settings for {class_name}; choose own or quick")
    if name == "quick":
        return quick_alphamepol_preset(paper)
    found = entry.settings(name, PretrainConfig)
    if name == "large" and found is None:
        raise InputError(f"preset: {class_name} has no large preset; choose paper, authors, quick or own")
    return found or paper  # the scripts of the authors differ from the paper in some classes only


def usual_preset(class_name: str) -> Preset:
    """Return the default preset of a class: `paper` if the class has it, else `own`."""
    entry = find_registered_class(class_name)
    return "paper" if entry and entry.settings("paper", PretrainConfig) else "own"


def usual_preset_settings(class_name: str, run: str | Path | None = None) -> PretrainConfig:
    """Return the settings of a run if it pre-trained on the class, else those of the default preset of the class."""
    described = {} if run is None else read_config_json(Path(run))
    if described.get("class") == class_name and described.get("command") == "pretrain":
        try:
            return settings_from_dict(PretrainConfig, described["config"])
        except ODD:
            pass  # the function that reads the run reports the error
    return preset(usual_preset(class_name), class_name)
