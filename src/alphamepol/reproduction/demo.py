"""`alphamepol demo`: what α is for, shown on the smallest example."""

import dataclasses
from pathlib import Path

from rich.console import Console

from alphamepol.algorithms.alphamepol.presets import preset
from alphamepol.algorithms.alphamepol.run import pretrain
from alphamepol.environments.make import make
from alphamepol.figures.heat_maps import draw_heat_maps
from alphamepol.figures.histogram import draw_entropy_histogram
from alphamepol.figures.tables import comparison_table
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.runs.folder import RunFolder

CLASS = "gridworld-slope"
ALPHAS = {"mepol": 1.0, "alphamepol": 0.2}


def demo(folder: str | Path = "runs/demo", seed: int = 0) -> None:
    """Run MEPOL and αMEPOL on gridworld-slope with the quick preset; end with a table and a picture.

    A demo that was interrupted goes on; one that is done is shown again.
    """
    console, folder = Console(), Path(folder)
    environment_class = make(CLASS)
    evaluations = {}
    for method, alpha in ALPHAS.items():
        config = dataclasses.replace(preset("quick", CLASS), alpha=alpha, seed=seed)
        run_folder = folder / method
        run = pretrain(environment_class, config, folder=run_folder, resume=(run_folder / "config.json").is_file())
        evaluations[config.label] = load_evaluation(RunFolder(run.folder).evaluation)
    draw_heat_maps(evaluations, environment_class, folder, name="demo")
    draw_entropy_histogram(evaluations, folder)
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
