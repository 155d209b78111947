"""A measurement of policies with fresh samples and the settings of a run, as the run measures its final policies."""

from collections.abc import Mapping

from alphamepol import Evaluation, Policy, PretrainConfig
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.measuring.exploration import measure_exploration


def measured(
    policies: Mapping[int, Policy] | Policy, environment_class: AnyClass | str, config: PretrainConfig
) -> Evaluation:
    policies = {config.seed: policies} if isinstance(policies, Policy) else policies
    environment_class = make_class(environment_class, config.probabilities)
    return measure_exploration(
        policies, environment_class, config, alpha=config.alpha, batches=config.evaluation_batches
    )
