"""Measure where released policies go, for runs whose own maps of visits were not kept: results/maps/.

`python -m benchmarks.visit_maps` evaluates each policy in its class and writes a folder with summary.json and
evaluation.safetensors. `alphamepol report results` draws these maps where a run of the same name has none, and says
that they show one policy. It takes two minutes on two CPU cores.
"""

from pathlib import Path

from alphamepol.evaluation.evaluate import evaluate
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.measuring.evaluation_files import save_evaluation

RESULTS = Path(__file__).parents[1] / "results"
POLICIES = {
    **{
        f"gridworld-slope-alpha-{alpha}": (f"policies/gridworld-slope/alpha-{alpha}", f"αMEPOL ({alpha})")
        for alpha in (0.7, 0.5, 0.35, 0.1)
    },
    "gridworld-slope-memory-last-alpha-1": (
        "memory/gridworld-slope/last-alpha-1/policy/seed-0",
        "MEPOL with memory",
    ),
}
"""The file of each policy, relative to results/ and without suffix, and its name on the page, by the name of its folder
in results/maps/."""


def main() -> None:
    """Evaluate every policy, and write what pages draw."""
    for name, (policy, label) in POLICIES.items():
        folder = RESULTS / "maps" / name
        alpha = float(name.rpartition("-")[2])
        noise = 0.001 if "memory" in name else 0.0  # the noise that this policy was trained with
        path = RESULTS / f"{policy}.safetensors"
        done = evaluate(path, "gridworld-slope", alpha=alpha, feature_noise=noise, folder=folder)
        (evaluation,) = done.evaluations.values()
        save_evaluation(evaluation, folder / "evaluation.safetensors")
        write_atomically(folder / "summary.json", to_json({**done.summary, "label": label}))


if __name__ == "__main__":
    main()
