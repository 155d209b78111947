"""The settings of fine-tuning for each class."""

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT, own_settings_by_finetuner_name
from alphamepol.environments.registry import Named, find_registered_class, registered_name


def finetuning_preset(environment_class: str | Named, algorithm: str = DEFAULT) -> FinetuneConfig:
    """The settings of an algorithm for a class: the paper's, or those for a class of one's own.

    `environment_class` is a class or its name; any class that the package does not know is one's own.
    """
    own, entry = own_settings_by_finetuner_name(algorithm), find_registered_class(registered_name(environment_class))
    return (entry and entry.settings("paper", type(own))) or own
