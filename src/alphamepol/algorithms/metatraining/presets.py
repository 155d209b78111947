"""The presets of meta-training."""

import dataclasses
from typing import Literal

from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.environments.registry import Named, find_registered_class, registered_name


def quick_metatraining_preset(config: MetatrainConfig) -> MetatrainConfig:
    """Return the settings with a small network and few samples, for a minute or two per seed on two cores."""
    return dataclasses.replace(
        config,
        iterations=50,
        tasks=10,
        trajectories=10,
        epochs=60,
        skills=10,
        batch=64,
        hidden=(64, 64),
        replay=60_000,
        seeds=1,
    )


def metatraining_preset(name: Literal["paper", "quick"], environment_class: str | Named) -> MetatrainConfig:
    """Return the settings of meta-training for a class.

    **Arguments**

    - `name`: "paper" for the settings of the paper, with eight seeds; or "quick" for a small network, few samples and
      one seed, which take a minute or two on two cores. The paper has settings for its gridworlds. Other classes
      have settings that are as near to those as possible.
    - `environment_class`: a class or its name. It need not be a class that the package knows.

    **Returns**

    The settings, as a `MetatrainConfig`. Use `dataclasses.replace` to change single fields.

    **Example**

    ```python
    import alphamepol as am

    config = am.metatraining_preset("quick", "gridworld-slope")
    print(config.iterations, config.tasks, config.seeds)  # 50 10 1
    ```
    """
    entry = find_registered_class(registered_name(environment_class))
    paper = (entry and entry.settings("paper", MetatrainConfig)) or MetatrainConfig()
    return quick_metatraining_preset(paper) if name == "quick" else paper
