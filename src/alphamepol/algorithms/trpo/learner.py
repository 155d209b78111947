"""TRPO as a `FineTuner`."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from alphamepol.algorithms.trpo.config import OWN, TrpoConfig
from alphamepol.algorithms.trpo.critic import Critic
from alphamepol.algorithms.trpo.update import TrpoReport, TrpoSettings, TrpoState, improve_by_trpo
from alphamepol.algorithms.trust_region import trust_region_from_settings
from alphamepol.compute.mapping import traced_number
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Episodes


@dataclass(frozen=True)
class Trpo:
    """The `FineTuner` of TRPO: trust-region policy optimisation with generalised advantages and a value network."""

    name = "trpo"
    label = "TRPO"
    own = OWN

    def settings(self, config: TrpoConfig) -> TrpoSettings:
        return TrpoSettings(
            traced_number(config.discount),
            traced_number(config.gae_lambda),
            traced_number(config.critic_learning_rate),
            trust_region_from_settings(config),
            config.critic_passes,
            config.critic_batch,
            config.critic_targets == "returns",
        )

    def start(self, policy: Policy, config: TrpoConfig, *, key: PRNGKeyArray) -> TrpoState:
        image = policy.trunk and policy.trunk.shape
        biases = config.critic_biases == "uniform"
        critic = Critic(policy.perceived_size, config.critic_hidden, image, config.critic_gain, biases, key=key)
        return TrpoState(policy, critic, jnp.array(False))

    def improve(
        self, state: TrpoState, episodes: Episodes, settings: TrpoSettings, *, key: PRNGKeyArray
    ) -> tuple[TrpoState, TrpoReport]:
        return improve_by_trpo(state, episodes, settings, key=key)


FINETUNER = Trpo()
