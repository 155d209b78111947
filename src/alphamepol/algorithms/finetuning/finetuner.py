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
    """The interface of a reinforcement-learning algorithm for fine-tuning.

    Implement it to use your own algorithm in `finetune`. The methods work on one task; fine-tuning maps them over all
    tasks and seeds. `start` and `improve` are compiled, so JAX must be able to trace them. The object itself must be
    hashable, for example a frozen dataclass.

    **Example**

    This algorithm changes the policy at random.

    ```python
    from dataclasses import dataclass
    from typing import NamedTuple

    import alphamepol as am
    import equinox as eqx
    import jax
    from jax.flatten_util import ravel_pytree


    @dataclass(frozen=True)
    class RandomWalkConfig(am.FinetuneConfig):
        stride: float = 0.01


    class State(eqx.Module):
        policy: am.Policy


    class Report(NamedTuple):
        stride: jax.Array


    @dataclass(frozen=True)
    class RandomWalk:
        name, label, own = "random-walk", "random walk", RandomWalkConfig()

        def settings(self, config):
            return jax.numpy.array(config.stride)

        def start(self, policy, config, *, key):
            return State(policy)

        def improve(self, state, episodes, settings, *, key):
            parameters, to_policy = ravel_pytree(state.policy)
            step = settings * jax.random.normal(key, parameters.shape)
            return State(to_policy(parameters + step)), Report(settings)


    assert isinstance(RandomWalk(), am.FineTuner)
    # am.finetune("gridworld-slope/alpha-0.2", "GWN", algorithm=RandomWalk())
    ```
    """

    @property
    def name(self) -> str:
        """The name of the algorithm in files and on the command line, e.g. trpo."""
        ...

    @property
    def label(self) -> str:
        """The name of the algorithm in titles, e.g. TRPO."""
        ...

    @property
    def own(self) -> FinetuneConfig:
        """The settings for a class that has no settings for this algorithm. The algorithm accepts only settings of
        their type."""
        ...

    def settings(self, config: Config) -> Any:
        """Return the part of the settings that `improve` uses, as a pytree. Numbers that are arrays are traced: other
        values need no new compilation."""
        ...

    def start(self, policy: Policy, config: Config, *, key: PRNGKeyArray) -> Any:
        """Return the state before the first iteration, as a pytree with a field `policy`."""
        ...

    def improve(self, state: Any, episodes: Episodes, settings: Any, *, key: PRNGKeyArray) -> tuple[Any, Any]:
        """Improve the state with the episodes of one iteration.

        **Returns**

        The new state and a report. The report is a NamedTuple of numbers; metrics.jsonl gets a field for each of them.
        """
        ...


def find_finetuner(algorithm: str) -> FineTuner[Any]:
    """Return the algorithm with this name."""
    return importlib.import_module(module_by_finetuner_name(algorithm)).FINETUNER
