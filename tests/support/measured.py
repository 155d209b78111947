"""A measurement of policies with fresh samples and the settings of a run, as the run measures its final policies."""

from collections.abc import Mapping

from alphamepol import Evaluation, Policy, PretrainConfig
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.measuring.exploration import measure_exploration
from alphamepol.measuring.particles import units_of_particles


def measured(
    policies: Mapping[int, Policy] | Policy, environment_class: AnyClass | str, config: PretrainConfig
) -> Evaluation:
    policies = {config.seed: policies} if isinstance(policies, Policy) else policies
    environment_class = make_class(environment_class, config.probabilities)
    units = units_of_particles(next(iter(policies.values())))
    return measure_exploration(
        policies, environment_class, config, alpha=config.alpha, batches=config.evaluation_batches, units=units
    )
