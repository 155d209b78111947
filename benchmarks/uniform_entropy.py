"""Estimate the entropy of perfect exploration: `python -m benchmarks.uniform_entropy OUT.json [CLASS …]`.

The positions are drawn uniformly from the free space of each member, as many as a mini-batch has particles. k is the
paper's. The true entropy is ln of the free area. The estimate is higher, because balls around particles near a wall
reach into the wall. `results/uniform-entropies.json` has the estimates: means over 40 sets of positions.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np

from alphamepol import make, nearest_neighbours, preset
from alphamepol.estimation.entropy import particle_entropy

SETS = 40


def main() -> None:
    estimates: dict[str, dict[str, float]] = {}
    for name in sys.argv[2:] or ["gridworld-slope", "multigrid"]:
        config, environment_class = preset("paper", name), make(name)
        particles = config.batch * config.horizon
        for number, member_name in enumerate(environment_class.names):
            member = environment_class[number]
            keys = jax.random.split(jax.random.key(0), (SETS, particles))
            places = jax.vmap(jax.vmap(lambda key, member=member: member.draw_place(key=key)))(keys)
            entropies = jax.vmap(particle_entropy)(nearest_neighbours(np.asarray(places), config.neighbours))
            estimates.setdefault(name, {})[member_name] = round(float(entropies.mean()), 4)
            found = f"estimate {float(entropies.mean()):.3f} ± {float(entropies.std()):.3f}"
            print(f"{member_name}: true entropy {member.entropy_ceiling:.3f}, {found}")
    Path(sys.argv[1]).write_text(json.dumps(estimates, indent=2) + "\n")


if __name__ == "__main__":
    main()
