"""Draw the first unseen members of the generators, for docs/unseen.md: `python docs/draw_generators.py`."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from alphamepol.environments.gymnasium.member_environment import MemberEnvironment
from alphamepol.figures.style import STYLE

CLASSES = "generated-rooms", "generated-mazes", "generated-minigrid"
SHOWN = 5
"""The number of members that are drawn of each class."""


def main() -> None:
    """Draw a row of members for each class."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.5 * SHOWN, 1.6 * len(CLASSES)), layout="constrained")
        panels = figure.subplots(len(CLASSES), SHOWN)
        for row, name in zip(panels, CLASSES, strict=True):
            for number, axes in enumerate(row):
                env = MemberEnvironment(name, number, render_mode="rgb_array")
                env.reset(seed=number)
                axes.imshow(env.render())
                axes.set(xticks=[], yticks=[])
            row[0].set_ylabel(name.removeprefix("generated-"))
        figure.savefig(Path(__file__).with_name("generators.png"), dpi=120)


if __name__ == "__main__":
    main()
