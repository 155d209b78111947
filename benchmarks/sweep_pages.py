"""Write the pages of sweeps from runs that the repository has, without doing a run: `python -m benchmarks.sweep_pages`.

The runs are those of the reproduction at the scale of the paper, done on an NVIDIA H200: six values of α on
gridworld-slope and two on multigrid, with ten seeds each, and the specialists. None of them has memory.
"""

from pathlib import Path

from alphamepol.reproduction.planned import Pretraining
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Store
from alphamepol.sweeping.page import write_sweep_page

RESULTS = Path(__file__).parents[1] / "results"
ALPHAS = {"gridworld-slope": (0.1, 0.2, 0.35, 0.5, 0.7, 1.0), "multigrid": (0.1, 1.0)}
SPECIALISTS = {"gridworld-slope": (2, 5), "multigrid": (10, 3)}
"""The number of members of each class, and the number of seeds of each specialist."""


def main() -> None:
    store, scale = Store(RESULTS), Scale("paper")
    for name, alphas in ALPHAS.items():
        members, seeds = SPECIALISTS[name]
        runs: list[Pretraining] = [scale.pretraining(name, alpha=alpha) for alpha in alphas]
        runs += [scale.specialist(name, member, members, seeds=seeds) for member in range(members)]
        print(write_sweep_page(name, runs, store, RESULTS / "sweeps" / name))


if __name__ == "__main__":
    main()
