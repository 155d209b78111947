"""The settings of fine-tuning for each class."""

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT, own_settings_by_finetuner_name
from alphamepol.environments.registry import Named, find_registered_class, registered_name


def finetuning_preset(environment_class: str | Named, algorithm: str = DEFAULT) -> FinetuneConfig:
    """Return the default settings of fine-tuning for a class of environments.

    These are the paper's settings if the paper has the class, else those for a class of your own.

    **Arguments**

    - `environment_class`: a class of environments or its name. Any class that the package does not know is a class of
      your own.
    - `algorithm`: the name of an algorithm.

    **Returns**

    The settings, of the type that the algorithm needs: a `TrpoConfig` for `"trpo"`. Change single fields with
    `dataclasses.replace`.

    **Raises**

    - `InputError`: if no algorithm has this name.

    **Example**

    ```python
    import dataclasses

    import alphamepol as am

    config = dataclasses.replace(am.finetuning_preset("gridworld-slope"), iterations=30)
    print(config.iterations, config.steps)  # 30 12000
    ```
    """
    own, entry = own_settings_by_finetuner_name(algorithm), find_registered_class(registered_name(environment_class))
    return (entry and entry.settings("paper", type(own))) or own
