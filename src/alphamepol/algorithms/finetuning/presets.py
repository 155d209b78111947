"""The settings of fine-tuning for each class."""

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.names import DEFAULT, own_settings
from alphamepol.environments.registry import find_entry


def finetuning_preset(class_name: str, algorithm: str = DEFAULT) -> FinetuneConfig:
    """The settings of an algorithm for a class: the paper's, or those for a class of one's own.

    `class_name` is the name of the class; any name that the package does not know is that of a class of one's own.
    """
    own, entry = own_settings(algorithm), find_entry(class_name)
    return (entry and entry.settings("paper", type(own))) or own
