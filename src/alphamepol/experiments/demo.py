"""`alphamepol demo`: what α is for, shown on the smallest example."""

import dataclasses
from pathlib import Path

from rich.console import Console

from alphamepol.environments.registry import make
from alphamepol.runs import figures
from alphamepol.runs.evaluate import evaluate
from alphamepol.runs.presets import preset
from alphamepol.runs.pretrain import pretrain
from alphamepol.runs.tables import comparison_table

CLASS = "gridworld-slope"
ALPHAS = {"mepol": 1.0, "alphamepol": 0.2}


def run_demo(folder: Path, seed: int) -> None:
    """Run MEPOL and αMEPOL with the quick preset, or go on where they were left; end with a table and a picture."""
    console = Console()
    environment_class = make(CLASS)
    evaluations = {}
    for method, alpha in ALPHAS.items():
        config = dataclasses.replace(preset("quick", CLASS), alpha=alpha, seed=seed)
        run_folder = folder / method
        run = pretrain(environment_class, config, folder=run_folder, resume=(run_folder / "config.json").is_file())
        evaluations[config.label] = evaluate(run.policies, environment_class, config)
    figures.heat_maps(evaluations, environment_class, folder, name="demo")
    figures.entropy_histogram(evaluations, folder)
    console.print()
    console.print(comparison_table(evaluations, "state entropy, the higher the better"))
    console.print(
        "MEPOL maximises the mean entropy and gives up the rare member (GWN, met one time in five). αMEPOL maximises "
        "the worst fifth and explores both.",
        highlight=False,
    )
    console.print(
        f"Picture: {folder / 'demo.png'}    Runs: {folder}/mepol, {folder}/alphamepol", highlight=False, soft_wrap=True
    )
    console.print("Next: alphamepol pretrain gridworld-slope --preset paper --seeds 1", highlight=False, soft_wrap=True)
