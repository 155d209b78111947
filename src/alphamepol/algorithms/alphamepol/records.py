"""The records of a run of pre-training: the metrics of each epoch, the best policies, and the summary of the run."""

from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.update import EpochReport
from alphamepol.environments.environment_class import MANY
from alphamepol.environments.host import AnyClass
from alphamepol.errors import InputError
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.samples import SamplePlan
from alphamepol.policies.files import load_policies_together
from alphamepol.policies.policy import Policy, unstack_policies
from alphamepol.policies.policy_kinds import GaussianPolicy
from alphamepol.runs.checkpoints import checkpoint_policies_file
from alphamepol.runs.context import RunContext
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.loop import LoopState
from alphamepol.runs.metrics import read_metrics
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.fields import LARGEST_COUNT

FIRST_EPOCHS = 10
"""The number of epochs, from the first on, whose tails the summary reports as `first_tail_share`.

The members in these tails are those that the run learned from at its beginning."""
SUMMARISED_METRICS: dict[str, Any] = {
    "seed": int,
    "objective": float,
    "entropy": dict[str, float],
    "tail_share": dict[str, float],
}
"""The fields of a metrics line that are read again at the end of a run, with their types."""


class BestPolicies:
    """The policy of each seed with the highest objective so far. The samples of an epoch tell the objective."""

    def __init__(self, folder: RunFolder, seeds: Sequence[int]):
        """Read the best policies from the newest checkpoint of a resumed run; there are none yet in a new run."""
        self._seeds = seeds
        self._policies: dict[int, Policy] = {}
        self._records: dict[int, tuple[float, int]] = {}
        try:
            saved = folder.saved_checkpoint()
            named = load_policies_together(checkpoint_policies_file(folder.checkpoints, *saved))
        except InputError:
            return
        self._policies = {seed: named[f"best-seed-{seed}"] for seed in seeds if f"best-seed-{seed}" in named}
        fields = {"epoch": int, "seed": int, "objective": float}
        if self._policies:
            # Lines after the checkpoint will be computed again. The loop refuses a damaged file later.
            lines = min(saved.done, LARGEST_COUNT) * len(seeds)
            for line in islice(read_metrics(folder.metrics, fields), lines):
                self._improves(line)

    def _improves(self, line: dict[str, Any]) -> bool:
        seed, objective = line["seed"], line["objective"]
        improves = seed not in self._records or objective > self._records[seed][0]
        if improves:
            self._records[seed] = objective, line["epoch"]
        return improves

    def record(self, policies: Policy, lines: Sequence[dict[str, Any]]) -> None:
        """Take the policies that sampled an epoch, and the lines of this epoch."""
        improved = [line["seed"] for line in lines if self._improves(line)]
        if improved:
            named = unstack_policies(policies, [str(seed) for seed in self._seeds])
            self._policies |= {seed: named[str(seed)] for seed in improved}

    def by_name(self) -> dict[str, Policy]:
        """Return the best policies by the names of their files."""
        return {f"best-seed-{seed}": policy for seed, policy in self._policies.items()}

    def summarise(self) -> dict[str, Any]:
        """Return the entries of summary.json: the objective of each seed's best policy, and after how many epochs."""
        records = [self._records[seed] for seed in self._seeds if seed in self._records]
        return {
            "best_objective": [objective for objective, _ in records],
            "best_epoch": [epoch for _, epoch in records],
        }


def first_noisy_epoch(folder: RunFolder, config: PretrainConfig) -> int | None:
    """Return the first epoch in which particles coincided and got noise, as metrics.jsonl says; None if there is none.

    In a resumed run, the file may have lines of epochs that will be computed again. They will be the same.
    """
    lines = islice(read_metrics(folder.metrics, {"epoch": int}), config.epochs * config.seeds)
    return next((line["epoch"] for line in lines if "feature_noise" in line), None)


def alphamepol_record_lines(
    epoch: int,
    plan: SamplePlan,
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
    noise = plan.settings.feature_noise
    # All numbers come from the device in one transfer, which is faster than one transfer per number.
    policies = state.learners.policy
    report, members, sigma = jax.device_get((report, trajectories.members, _recorded_sigma(policies)))
    lines = []
    for i, seed in enumerate(config.seed_list):
        entropies, tail = np.asarray(report.entropies[i]), report.tail[i]
        groups = _recorded_groups(plan.environment_class, members[i], entropies)
        lines.append(
            {
                "epoch": epoch,
                "seed": seed,
                "objective": float(report.objective[i]),
                "mean_entropy": float(entropies.mean()),
                "entropy": {name: float(entropies[of].mean()) for name, of in groups.items() if of.any()},
                "tail_share": {name: float(tail[of].sum() / tail.sum()) for name, of in groups.items()},
                "objective_after": float(report.objective_after[i]),
                "kl": float(report.kl[i]),
                "effective_share": float(np.median(report.effective_shares[i])),
                "iterations": int(report.iterations[i]),
                "backtracks": int(report.backtracks[i]),
                **({} if sigma is None else {"sigma": sigma[i].tolist()}),
                **({"feature_noise": noise} if noise > config.feature_noise else {}),
                "seconds": seconds,
            }
        )
    return lines


def _recorded_groups(
    environment_class: AnyClass, members: Int[np.ndarray, " minibatches"], entropies: Float[np.ndarray, " minibatches"]
) -> dict[str, Bool[np.ndarray, " minibatches"]]:
    """Return which mini-batches belong to each reported name: to a member, or to a part of a generated class.

    In a class of more than `MANY` members, only those that were drawn are named.
    """
    names = environment_class.reported_names
    if environment_class.generator is None:
        numbers = range(len(names)) if len(names) <= MANY else np.unique(members).tolist()
        return {names[number]: members == number for number in numbers}
    tenth = risk_tail_count(0.1, len(entropies))
    ranks = np.argsort(np.argsort(entropies))
    parts = ranks < tenth, (ranks >= tenth) & (ranks < len(ranks) - tenth), ranks >= len(ranks) - tenth
    return dict(zip(names, parts, strict=True))


def _recorded_sigma(policies: Policy) -> Float[Array, "seeds action"] | None:
    """Return the σ of each seed's actions, in the units of the actions, or None if the policies are not Gaussian."""
    if not isinstance(policies, GaussianPolicy):
        return None
    sigma = jnp.exp(policies.log_std)
    return sigma if policies.scaling is None else sigma * jnp.array(policies.scaling.actions.half_ranges)


def summarise_alphamepol_records(
    config: PretrainConfig,
    names: Sequence[str],
    evaluation: Evaluation,
    best: BestPolicies,
    context: RunContext,
) -> dict[str, Any]:
    """Return the content of summary.json: the final numbers of a run. `names` are those of the metrics."""
    noise = {}
    if evaluation.feature_noise > config.feature_noise:
        since = first_noisy_epoch(context.folder, config)
        noise["feature_noise_since"] = config.epochs if since is None else since
    first = list(takewhile(lambda line: line["epoch"] < FIRST_EPOCHS, read_metrics(context.folder.metrics)))
    steps = config.epochs * config.trajectories * config.horizon * config.seeds
    return {
        "method": config.method,
        "memory": config.memory,
        "epochs": config.epochs,
        **evaluation.to_dict(),
        "first_tail_share": {
            name: [
                float(np.mean([line["tail_share"].get(name, 0.0) for line in first[row :: config.seeds]]))
                for row in range(config.seeds)
            ]
            for name in names
        },
        **noise,
        **best.summarise(),
        "evaluation_batches": config.evaluation_batches,
        **context.totals(steps),
    }
