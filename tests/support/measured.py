"""Fresh samples of policies with the settings of a run, as the run itself measures its final policies."""

from collections.abc import Mapping

from alphamepol import Evaluation, Policy, PretrainConfig
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import resolve_class
from alphamepol.measuring.evaluation import measure_policies


def measured(
    policies: Mapping[int, Policy] | Policy, environment_class: AnyClass | str, config: PretrainConfig
) -> Evaluation:
    policies = {config.seed: policies} if isinstance(policies, Policy) else policies
    environment_class = resolve_class(environment_class, config.probabilities)
    return measure_policies(policies, environment_class, config, alpha=config.alpha, batches=config.evaluation_batches)
