"""Compare the KL (E6) in float32 with float64 at log-weights of any size: `python -m benchmarks.kl_range OUT.json`.

In three sets of 2000 particles, the half with the smaller x has log-weights around the given number. "Before" takes
the logarithms of masses that end at float32's smallest number, about e⁻⁸⁷.
"""

import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from rich.console import Console

from alphamepol import nearest_neighbours
from alphamepol.estimation import entropy
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.figures.tables import plain_table

LOG_WEIGHTS = 0, -10, -50, -87, -100, -200, -500, -1000
SETS, PARTICLES = 3, 2000


def main() -> None:
    found = {f"k = {k}": [_measure(log_weight, k) for log_weight in LOG_WEIGHTS] for k in (30, 500)}
    for name, rows in found.items():
        shown = [
            (
                f"{row['log_weight']}",
                *(f"{row[part]:.5f}" for part in ("before", "now", "float64")),
                *("" if row[part] is None else f"{row[part]:.1e}" for part in ("error_before", "error_now")),
            )
            for row in rows
        ]
        header = ("log-weight", "before", "now", "float64", "relative error before", "now")
        Console(width=120).print(plain_table(f"KL (E6), {name} of {PARTICLES} particles", header, shown))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({"sets": SETS, "particles": PARTICLES, **found}, indent=1) + "\n")


def _measure(log_weight: float, k: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    points = random.uniform(size=(SETS, PARTICLES, 2)).astype(np.float32)
    chosen = points[..., 0] < 0.5
    log_weights = np.where(chosen, log_weight * random.uniform(0.95, 1.05, chosen.shape), 0.0).astype(np.float32)
    neighbourhood = nearest_neighbours(points, k)
    masses = jax.vmap(entropy.neighbour_masses_for_entropy)(neighbourhood, jnp.asarray(log_weights))
    given = neighbourhood, jnp.asarray(log_weights), masses
    now = float(entropy.kl_of_masses(*given))
    with mock.patch.object(entropy, "log_masses_for_kl", lambda neighbourhood, log_weights, masses: jnp.log(masses)):
        before = float(entropy.kl_of_masses(*given))
    truth = _kl_in_float64(neighbourhood, log_weights)
    errors = [abs(kl - truth) / truth if truth > 0 else None for kl in (before, now)]
    found = {"log_weight": log_weight, "before": before, "now": now, "float64": truth}
    return found | {"error_before": errors[0], "error_now": errors[1]}


def _kl_in_float64(neighbourhood: Neighbourhood, log_weights: Float[Array | np.ndarray, "sets particles"]) -> float:
    weights = np.asarray(log_weights, np.float64)
    log_masses = np.empty(weights.shape)
    for i, t in np.ndindex(weights.shape):
        if neighbourhood.indices is not None:
            terms = weights[i][np.asarray(neighbourhood.indices[i, t])]
        else:
            assert neighbourhood.among is not None
            terms = weights[i][np.asarray(neighbourhood.among[i, t])]
        log_masses[i, t] = np.logaddexp.reduce(terms)
    log_masses -= np.logaddexp.reduce(weights, axis=None)
    return max(0.0, float(np.log(neighbourhood.k / weights.size) - log_masses.mean()))


if __name__ == "__main__":
    main()
