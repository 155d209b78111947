"""The gap between members of the training stream and held-out members of a generated class."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphamepol.environments.generated.generated_class import class_of_shown_members
from alphamepol.environments.host import AnyClass
from alphamepol.estimation.statistics import FEWEST, Estimate, Sample, estimate_statistic
from alphamepol.measuring.exploration import Evaluation


@dataclass(frozen=True)
class HeldOutGap:
    """The mean entropy in members of the training stream, and by how much it is larger than that in unseen members."""

    members: int
    """The number of members of the training stream that were evaluated."""
    seen_mean: tuple[float, ...]
    """Their mean entropy, for each seed."""
    gap: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of summary.json."""
        return {
            "seen_members": self.members,
            "seen_mean": list(self.seen_mean),
            "seen_gap": self.gap.to_dict(),
        }

    @classmethod
    def of_summary(cls, summary: Mapping[str, Any]) -> "HeldOutGap | None":
        """Return the gap that summary.json tells; None if it tells none."""
        if "seen_gap" not in summary:
            return None
        value, interval = summary["seen_gap"]["value"], summary["seen_gap"]["interval"]
        gap = Estimate(float(value), None if interval is None else (float(interval[0]), float(interval[1])))
        return cls(summary["seen_members"], tuple(map(float, summary["seen_mean"])), gap)


def measure_held_out_gap(
    environment_class: AnyClass, unseen: Evaluation, measure: Callable[[AnyClass], Evaluation]
) -> HeldOutGap | None:
    """Measure as many members of the training stream as an evaluation has unseen ones; None if none are generated."""
    if environment_class.generator is None:
        return None
    seen = measure(class_of_shown_members(environment_class, "seen"))
    return HeldOutGap(len(seen.members), tuple(seen.mean.tolist()), estimate_held_out_gap(seen, unseen))


def estimate_held_out_gap(seen: Evaluation, unseen: Evaluation) -> Estimate:
    """Estimate the mean entropy in seen members minus that in unseen ones, with its 95 % interval.

    Members and seeds are resampled, members of both kinds separately from each other. With fewer than three seeds only
    members are resampled.
    """
    means = seen.member_means.T, unseen.member_means.T
    if len(seen.seeds) < FEWEST:
        means = tuple(one.mean(axis=1, keepdims=True) for one in means)
    # The mean of these numbers is the difference of the two means. Without the common mean, a resample with more seen
    # members than unseen ones would have a larger difference.
    common, count = np.mean([one.mean() for one in means]), sum(map(len, means))
    values = [sign * count / len(one) * (one - common) for sign, one in zip((1, -1), means, strict=True)]
    together = np.concatenate(values)
    return estimate_statistic(Sample.of_tasks(together, together.shape[1] if together.shape[1] > 1 else 0))
