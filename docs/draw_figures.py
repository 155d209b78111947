"""Draw the figures of the docs whose data are in results/, in the style of the page: `python docs/draw_figures.py`.

The figures of the paper's experiments are those that `alphamepol report results` writes to results/figures/.
"""

import tempfile
from pathlib import Path

from alphamepol.environments.make import make
from alphamepol.figures.heat_maps import draw_heat_maps, draw_trails_like_heat_maps
from alphamepol.files.atomic import write_atomically
from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.measuring.exploration import Evaluation
from alphamepol.reproduction.catalogue import catalogue_of_experiments
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Store

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
FIGURES = {
    "slope-GWN-returns": "finetuning-GWN",
    "minigrid-AdvG-returns": "finetuning-AdvG",
    "minigrid-heat-maps": "minigrid-maps",
    "minigrid-render": "minigrid",
    "ant-render": "ant-stairs",
    "meta-GWN-returns": "meta-GWN-returns",
    "meta-gridworld-slope-adaptation": "meta-gridworld-slope-adaptation",
    "meta-multigrid-discriminability": "meta-multigrid-discriminability",
}
"""The name of each picture in docs/, by the name of its drawing."""
TRAILS = {"αMEPOL (0.2)": "ant/alpha-0.2", "MEPOL": "ant/alpha-1", "Random": "ant-stairs-random-01715643"}
"""The runs whose trails docs/ant-trails.png shows."""
REMEMBERING = {
    "MEPOL": "runs/gridworld-slope-alpha-1-97f7162d",
    "MEPOL, memory last": "maps/gridworld-slope-memory-last-alpha-1",
}
"""The folders of the evaluations whose heat-maps docs/memory-slope.png shows."""


def main() -> None:
    """Draw every picture."""
    store = Store(RESULTS)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for experiment in catalogue_of_experiments(Scale("paper")):
            for drawing in experiment.drawings:
                if drawing.name in FIGURES:
                    found = {run: stored for run in drawing.runs if (stored := store.find(run)) is not None}
                    drawing.draw(found, folder, drawing.name)
                    _keep(folder / f"{drawing.name}.png", FIGURES[drawing.name])
        trails = {label: _evaluation_in_results(f"runs/{run}") for label, run in TRAILS.items()}
        draw_trails_like_heat_maps(trails, make("ant-stairs"), folder)
        _keep(folder / "trails.png", "ant-trails")
        maps = {label: _evaluation_in_results(place) for label, place in REMEMBERING.items()}
        draw_heat_maps(maps, make("gridworld-slope"), folder)
        _keep(folder / "heat-maps.png", "memory-slope")


def _evaluation_in_results(place: str) -> Evaluation:
    return load_evaluation(RESULTS / place / "evaluation.safetensors")


def _keep(picture: Path, name: str) -> None:
    write_atomically(DOCS / f"{name}.png", picture.read_bytes())


if __name__ == "__main__":
    main()
