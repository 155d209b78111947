"""The records of a run of pre-training: the metrics of each epoch, and the summary of the run."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.update import EpochReport
from alphamepol.environments.host import AnyClass
from alphamepol.measuring.exploration import Evaluation
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import GaussianPolicy
from alphamepol.runs.context import RunContext
from alphamepol.runs.loop import LoopState
from alphamepol.sampling.trajectories import Trajectories

FIRST_EPOCHS = 10
"""The number of epochs, from the first on, whose tails the summary reports as `first_tail_share`.

The members in these tails are those that the run learned from at its beginning."""


def alphamepol_record_lines(
    epoch: int,
    environment_class: AnyClass,
    config: PretrainConfig,
    trajectories: Trajectories,
    report: EpochReport,
    state: LoopState,
    seconds: dict[str, float],
) -> list[dict[str, Any]]:
    """Return the lines of an epoch for metrics.jsonl, one per seed.

    `objective`, `mean_entropy`, `entropy` and `tail_share` describe the policy that sampled the epoch, which has
    learned from `epoch` epochs before. `objective_after`, `kl`, `effective_share` and `sigma` describe the policy after
    the update. `seconds` are those of all seeds together.
    """
    names = environment_class.names
    # All numbers come from the device in one transfer, which is faster than one transfer per number.
    policies = state.learners.policy
    report, members, sigma = jax.device_get((report, trajectories.members, _recorded_sigma(policies)))
    lines = []
    for i, seed in enumerate(config.seed_list):
        of_member = [members[i] == number for number in range(len(names))]
        entropies, tail = report.entropies[i], report.tail[i]
        lines.append(
            {
                "epoch": epoch,
                "seed": seed,
                "objective": float(report.objective[i]),
                "mean_entropy": float(entropies.mean()),
                "entropy": {
                    name: float(entropies[of].mean()) for name, of in zip(names, of_member, strict=True) if of.any()
                },
                "tail_share": {
                    name: float(tail[of].sum() / tail.sum()) for name, of in zip(names, of_member, strict=True)
                },
                "objective_after": float(report.objective_after[i]),
                "kl": float(report.kl[i]),
                "effective_share": float(np.median(report.effective_shares[i])),
                "iterations": int(report.iterations[i]),
                "backtracks": int(report.backtracks[i]),
                **({} if sigma is None else {"sigma": sigma[i].tolist()}),
                "seconds": seconds,
            }
        )
    return lines


def _recorded_sigma(policies: Policy) -> Float[Array, "seeds action"] | None:
    """Return the σ of each seed's actions, in the units of the actions, or None if the policies are not Gaussian."""
    if not isinstance(policies, GaussianPolicy):
        return None
    sigma = jnp.exp(policies.log_std)
    return sigma if policies.scaling is None else sigma * jnp.array(policies.scaling.actions.half_ranges)


def summarise_alphamepol_records(
    config: PretrainConfig, evaluation: Evaluation, metrics: list[dict[str, Any]], context: RunContext
) -> dict[str, Any]:
    """Return the content of summary.json: the final numbers of a run."""
    first = [line for line in metrics if line["epoch"] < FIRST_EPOCHS]
    steps = config.epochs * config.trajectories * config.horizon * config.seeds
    return {
        "method": config.method,
        "memory": config.memory,
        "epochs": config.epochs,
        **evaluation.to_dict(),
        "first_tail_share": {
            name: [
                float(np.mean([line["tail_share"][name] for line in first if line["seed"] == seed]))
                for seed in config.seed_list
            ]
            for name in evaluation.members
        },
        "evaluation_batches": config.evaluation_batches,
        **context.totals(steps),
    }
