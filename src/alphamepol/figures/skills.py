"""The figure of skills: their trajectories."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.figures.map_backgrounds import draw_map_background, frame_map_background, label_map_background
from alphamepol.figures.style import COLUMN, STYLE, member_in_figure, save_figure_in_style, write_csv_of_figure
from alphamepol.measuring.visits import names_of_visited_places, visit_map
from alphamepol.sampling.trajectories import Trajectories


def draw_skill_trails(trails: Trajectories, environment_class: EnvironmentClass, folder: Path) -> None:
    """Draw a trajectory of every skill in every member, each skill in its own colour, with its number at the end.

    The axes of the trajectories are (skill, member, 1, time). Nothing is drawn if agents have no place in a plane.
    """
    names, axis_names = environment_class.names, names_of_visited_places(environment_class[0])
    places, valid = (np.asarray(part)[:, :, 0] for part in (trails.whereabouts, trails.valid))
    seen = visit_map(places, valid, environment_class[0]) if valid.any() else None
    if seen is None:
        return
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    colours = matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, len(places)))
    table = []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(max(COLUMN, 1.65 * columns), 1.9 * rows), layout="constrained")
        all_axes = figure.subplots(rows, columns, squeeze=False)
        for axes in all_axes.flat[len(names) :]:
            axes.set_axis_off()
        for i, (axes, name) in enumerate(zip(all_axes.flat, names, strict=False)):
            draw_map_background(axes, environment_class[i])
            for skill, colour in enumerate(colours):
                trail = places[skill, i][valid[skill, i]]
                if not len(trail):
                    continue
                axes.plot(*trail.T, color=colour, linewidth=0.6, alpha=0.7)
                axes.plot(*trail[-1], "o", color=colour, markersize=6.5, markeredgecolor="white", markeredgewidth=0.5)
                axes.annotate(
                    str(skill), trail[-1], ha="center", va="center", fontsize=4.5, color="white", annotation_clip=False
                )
                table += [(name, skill, step, *place) for step, place in enumerate(trail.tolist())]
            frame_map_background(axes, seen.extent, environment_class[i])
            label_map_background(axes, axis_names, west=i % columns == 0, south=i + columns >= len(names))
            axes.set_title(member_in_figure(name))
        save_figure_in_style(figure, folder, "skill-trails")
    write_csv_of_figure(folder / "skill-trails.csv", ("member", "skill", "step", "x", "y"), table)
