"""`alphamepol demo`: show the effect of α on a small example."""

import dataclasses
from pathlib import Path

from rich.console import Console

from alphamepol.algorithms.alphamepol.presets import preset
from alphamepol.algorithms.alphamepol.run import pretrain
from alphamepol.environments.make import make
from alphamepol.errors import InputError
from alphamepol.figures.heat_maps import draw_heat_maps
from alphamepol.figures.histogram import draw_entropy_histogram
from alphamepol.figures.tables import comparison_table
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.reading import refusing_odd_files
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.interrupts import interrupts

CLASS = "gridworld-slope"
ALPHAS = {"mepol": 1.0, "alphamepol": 0.2}


def demo(folder: str | Path = "runs/demo", seed: int = 0) -> None:
    """Pre-train with MEPOL and αMEPOL on gridworld-slope, and print a table that compares them.

    Both runs have the quick preset. The demo also draws the heat-maps of both methods, `demo.png`, and a histogram of
    entropies. An interrupted demo continues where it stopped. A finished demo only shows its results again.

    **Arguments**

    - `folder`: the folder of the demo, with a run folder for each method: `mepol` and `alphamepol`.
    - `seed`: the seed of both runs.

    **Returns**

    Nothing; the results are printed and written into the folder.

    **Raises**

    - `InputError`: if the folder holds a demo with another seed or other settings.

    **Example**

    ```python
    import alphamepol as am

    am.demo("runs/demo")  # takes a minute or two on two CPU cores
    ```
    """
    console, folder = Console(), Path(folder)
    environment_class = make(CLASS)
    evaluations = {}
    with interrupts() as received:
        for method, alpha in ALPHAS.items():
            config = dataclasses.replace(preset("quick", CLASS), alpha=alpha, seed=seed)
            run_folder = folder / method
            run = pretrain(environment_class, config, folder=run_folder, resume=True)
            path = RunFolder(run.folder).evaluation
            evaluations[config.label] = load_evaluation(path)
            if evaluations[config.label].members != environment_class.names:
                raise InputError(f"run: {path} is not an evaluation of {CLASS}, it has other members")
            received.check()
        with refusing_odd_files(folder):
            draw_heat_maps(evaluations, environment_class, folder, name="demo")
            draw_entropy_histogram(evaluations, folder)
            table = comparison_table(evaluations, "state entropy (higher is better)")
    console.print()
    console.print(table)
    console.print(
        "MEPOL maximises the mean entropy and neglects the rare member GWN, which has probability 0.2. αMEPOL "
        "maximises the mean of the worst fifth of entropies and explores both members.",
        highlight=False,
    )
    say_in_terminal(console, f"Picture: {folder / 'demo.png'}    Runs: {folder}/mepol, {folder}/alphamepol")
    say_in_terminal(console, "Next: alphamepol pretrain gridworld-slope --preset paper --seeds 1")
