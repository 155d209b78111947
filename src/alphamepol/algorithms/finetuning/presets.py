"""The settings of fine-tuning for each class."""

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.names import DEFAULT, own_settings
from alphamepol.environments.registry import Named, find_entry, name_of


def finetuning_preset(environment_class: str | Named, algorithm: str = DEFAULT) -> FinetuneConfig:
    """The settings of an algorithm for a class: the paper's, or those for a class of one's own.

    `environment_class` is a class or its name; any class that the package does not know is one's own.
    """
    own, entry = own_settings(algorithm), find_entry(name_of(environment_class))
    return (entry and entry.settings("paper", type(own))) or own
