"""The interface of an algorithm that fine-tunes policies."""

import importlib
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import PRNGKeyArray

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetuner_names import module_by_finetuner_name
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Episodes

Config = TypeVar("Config", bound=FinetuneConfig, contravariant=True)


@runtime_checkable
class FineTuner(Protocol[Config]):
    """An algorithm of reinforcement learning. Its methods work on one task; fine-tuning maps them over all.

    `start` and `improve` are compiled, so they must be traceable by JAX. The object itself must be hashable: a frozen
    dataclass, say.
    """

    @property
    def name(self) -> str:
        """The name in files and on the command line, e.g. trpo."""
        ...

    @property
    def label(self) -> str:
        """The name in titles, e.g. TRPO."""
        ...

    @property
    def own(self) -> FinetuneConfig:
        """The settings for a class that has none of its own. Their type is that of all settings of the algorithm."""
        ...

    def settings(self, config: Config) -> Any:
        """The part of the settings that `improve` uses, as a pytree. Numbers that are arrays are traced."""
        ...

    def start(self, policy: Policy, config: Config, *, key: PRNGKeyArray) -> Any:
        """The state before the first iteration, as a pytree with a field `policy`."""
        ...

    def improve(self, state: Any, episodes: Episodes, settings: Any, *, key: PRNGKeyArray) -> tuple[Any, Any]:
        """Improve the state with the episodes of one iteration. Returns a report, too: a NamedTuple of numbers, whose
        fields become those of metrics.jsonl."""
        ...


def find_finetuner(algorithm: str) -> FineTuner[Any]:
    """The algorithm of a name."""
    return importlib.import_module(module_by_finetuner_name(algorithm)).FINETUNER
