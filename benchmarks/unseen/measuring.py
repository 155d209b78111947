"""The measurement of policies in many members at once, and the scores of members.

`am.evaluate` measures one member after the other, which takes minutes for 400 members on a GPU. Here one program
collects the samples of many members.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

import alphamepol as am
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.estimation.knn import nearest_neighbours
from alphamepol.estimation.statistics import Sample, estimate_statistic
from alphamepol.measuring.sample_checks import CoincidenceError
from alphamepol.measuring.samples import SamplePlan, entropies_of_samples
from alphamepol.measuring.visits import count_visited_cells
from alphamepol.policies.policy import Policy, stack_policies

AT_ONCE = 50
"""The number of members whose samples are collected at once."""
FIRST = 20
"""The number of unseen members whose scores are kept one by one. Specialists are trained on the same members."""


@dataclass(frozen=True)
class Measured:
    """The entropies of policies in members, as means over mini-batches, and the cells that they visit."""

    entropies: Float[np.ndarray, "seeds members"]
    cells: dict[str, Float[np.ndarray, "seeds members"]] | None
    """The mean number of cells that a trajectory and that a mini-batch visits; None if members have no cells."""


def measure_together(
    policies: Mapping[str, Mapping[int, Policy]],
    environment_class: EnvironmentClass,
    config: am.PretrainConfig,
    batches: int,
    numbers: Int[np.ndarray, "seeds members"] | None = None,
) -> dict[str, Measured]:
    """Measure several sets of policies alike. If the particles of one coincide, all are measured with noise.

    Args:
        policies: for each name, a policy for each seed.
        environment_class: the class, of listed members.
        config: the settings for sampling and measuring.
        batches: the number of mini-batches in each member.
        numbers: the members in which the policy of each seed is measured. By default these are all members.
    """
    plan = SamplePlan.of(environment_class, config, list(next(iter(policies.values()))))

    def measured(plan: SamplePlan) -> dict[str, Measured]:
        return {name: _measure(plan, one, batches, numbers) for name, one in policies.items()}

    try:
        return measured(plan)
    except CoincidenceError:
        return measured(plan.with_noise())


def _measure(
    plan: SamplePlan, policies: Mapping[int, Policy], batches: int, numbers: Int[np.ndarray, "seeds members"] | None
) -> Measured:
    if numbers is None:
        numbers = np.tile(np.arange(len(plan.environment_class)), (len(policies), 1))
    stacked, keys = stack_policies(list(policies.values())), split_keys_by_purpose(seed_keys(list(policies))).evaluation
    parts = []
    for first in range(0, numbers.shape[1], AT_ONCE):
        some = numbers[:, first : first + AT_ONCE]
        fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, first)
        members = jnp.asarray(np.repeat(some, batches, axis=1), jnp.int32)
        trajectories = plan.collect(stacked, members, "evaluation", keys=fold)
        neighbourhood = plan.measure(trajectories, None, "evaluation", keys=fold).neighbourhood
        found = {"entropy": np.asarray(entropies_of_samples(neighbourhood))}
        ground = plan.environment_class[0].map
        if ground is not None and ground.cells is not None:
            places, valid = np.asarray(trajectories.whereabouts), np.asarray(trajectories.valid)
            together = places.reshape(*places.shape[:2], -1, 2), valid.reshape(*valid.shape[:2], -1)
            found["trajectory"] = count_visited_cells(places, valid, ground.cells).mean(axis=-1)
            found["minibatch"] = count_visited_cells(*together, ground.cells)
        parts.append({name: values.reshape(*some.shape, batches).mean(axis=-1) for name, values in found.items()})
    found = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
    return Measured(found.pop("entropy"), found or None)


def uniform_entropies(environment_class: EnvironmentClass, config: am.PretrainConfig, sets: int = 4) -> np.ndarray:
    """Return the entropy of uniform draws from the free space of each member, measured as a mini-batch is."""
    keys = jax.random.split(jax.random.key(0), (sets, config.batch * config.horizon))

    @jax.jit
    def draw(members: Any) -> jax.Array:
        return jax.vmap(lambda member: jax.vmap(jax.vmap(lambda key: member.draw_place(key=key)))(keys))(members)

    found = []
    for first in range(0, len(environment_class), AT_ONCE):
        some = jax.tree.map(lambda leaf, first=first: leaf[first : first + AT_ONCE], environment_class.members)
        neighbourhood = nearest_neighbours(np.asarray(draw(some)), config.neighbours)
        found.append(np.asarray(jax.vmap(jax.vmap(particle_entropy))(neighbourhood)).mean(axis=1))
    return np.concatenate(found)


def score_of_members(
    entropies: Float[np.ndarray, "*seeds members"],
    random: Float[np.ndarray, " members"],
    uniform: Float[np.ndarray, " members"],
) -> Float[np.ndarray, "*seeds members"]:
    """Return the share of the way from the entropy of Random (0) to that of a uniform draw (1), for each member."""
    return (entropies - random) / (uniform - random)


def describe_scores(ours: Measured, random: Measured, uniform: Float[np.ndarray, " members"]) -> dict[str, Any]:
    """Return the entropies and the scores of all members for JSON, with intervals over seeds."""
    untrained = random.entropies.mean(axis=0)
    scores = score_of_members(ours.entropies, untrained, uniform)
    worst = np.sort(scores, axis=1)[:, : max(1, scores.shape[1] // 10)].mean(axis=1)
    return {
        "entropy": interval_over_seeds(ours.entropies.mean(axis=1)),
        "random": float(untrained.mean()),
        "uniform": float(uniform.mean()),
        "score": interval_over_seeds(scores.mean(axis=1)),
        "worst_tenth": interval_over_seeds(worst),
        "scores": rounded(scores.mean(axis=1)),
        "worst_tenths": rounded(worst),
        "first_members": rounded(scores[:, :FIRST].mean(axis=0)),
        "quantiles": rounded(np.quantile(scores.mean(axis=0), [0.0, 0.1, 0.5, 0.9, 1.0])),
    }


def describe_cells(ours: Measured, random: Measured) -> dict[str, Any]:
    """Return the numbers of visited cells and the entropies for JSON, beside those of Random."""

    def of(measured: Measured) -> dict[str, Any]:
        assert measured.cells is not None
        found = {f"cells_per_{per}": cells.mean(axis=1) for per, cells in measured.cells.items()}
        found["entropy"] = measured.entropies.mean(axis=1)
        return {name: interval_over_seeds(values) | {"seeds": rounded(values)} for name, values in found.items()}

    return {**of(ours), "random": of(random)}


def interval_over_seeds(values: Float[np.ndarray, " seeds"]) -> dict[str, Any]:
    return estimate_statistic(Sample.of_seeds(values)).to_dict()


def rounded(values: np.ndarray) -> Any:
    return np.round(np.asarray(values, float), 6).tolist()
