"""Draw how many training members are needed, for docs/unseen.md: `python docs/draw_unseen.py`."""

import json
import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from alphamepol.figures.curves import add_legend_above
from alphamepol.figures.style import COLOURS, COLUMN, DASHES, STYLE, png_in_style
from alphamepol.files.atomic import write_atomically

DOCS = Path(__file__).parent
RUNS = DOCS.parent / "results/unseen/training-members.json"
STREAMS = {"seen": "rooms of the training stream", "unseen": "unseen rooms"}


def main() -> None:
    """Draw the scores on seen and on unseen rooms against the number of training members."""
    runs = sorted(json.loads(RUNS.read_text()).values(), key=lambda run: run["training"] or math.inf)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(COLUMN, 2.8), layout="constrained")
        axes = figure.subplots()
        places = np.arange(len(runs))
        for stream, colour, dash in zip(STREAMS, COLOURS, DASHES, strict=False):
            scores = [run[stream]["score"] for run in runs]
            values = np.array([score["value"] for score in scores])
            ends = np.array([score["interval"] for score in scores]).T
            axes.errorbar(
                places,
                values,
                np.abs(ends - values),
                color=colour,
                linestyle=dash,
                marker="o",
                markersize=3,
                capsize=2,
                label=STREAMS[stream],
            )
        axes.set_xticks(places, [str(run["training"] or "∞") for run in runs])
        axes.set(xlabel="rooms trained on", ylabel="score", ylim=(None, 1.0))
        add_legend_above(figure, axes)
        write_atomically(DOCS / "unseen-training.png", png_in_style(figure))


if __name__ == "__main__":
    main()
