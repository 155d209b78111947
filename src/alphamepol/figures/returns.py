"""Returns along fine-tuning, and maps of the goals."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from alphamepol.environments.cmp import Member
from alphamepol.figures.curves import add_legend_above, draw_curves
from alphamepol.figures.map_backgrounds import draw_map_background, frame_map_background, label_map_background
from alphamepol.figures.style import (
    COLUMN,
    PNG,
    STYLE,
    ShownFigure,
    name_in_figure,
    save_figure_in_style,
    write_csv_of_figure,
)
from alphamepol.measuring.visits import names_of_visited_places

MAPS = 3
"""The number of maps of goals that lie side by side."""


def draw_returns(
    returns: Mapping[str, Float[np.ndarray, "tasks iterations"]],
    tasks: Sequence[Any],
    member: Member | None,
    folder: Path | None,
    name: str = "returns",
    formats: Sequence[str] = PNG,
) -> ShownFigure:
    """Draw the mean return along the iterations with 95 % bands, and below it a map of the goals for each start.

    Goals are coloured by their final return. Maps are drawn only if all tasks are goals in the plane, and if the member
    is given. No files are written if there is no folder.
    """
    planar = tasks_are_in_a_plane(tasks)
    maps = list(returns) if planar and member is not None else []
    final = np.concatenate([values[:, -1] for values in returns.values()])
    norm = Normalize(min(0.0, final.min()), max(1.0, final.max()))
    with matplotlib.rc_context(STYLE):
        below = math.ceil(len(maps) / MAPS)
        figure = ShownFigure(figsize=(COLUMN, 2.8 + 0.45 * bool(maps) + 1.95 * below), layout="constrained")
        grid = figure.add_gridspec(1 + below, MAPS, height_ratios=[1.5] + [1.0] * below)
        axes = figure.add_subplot(grid[0, :])
        rows = draw_curves(axes, returns)
        axes.set(xlabel="iteration", ylabel="return, mean over tasks")
        axes.set_ylim(bottom=min(0.0, axes.dataLim.ymin))
        add_legend_above(figure, axes)
        for place, init in enumerate(maps):
            assert member is not None
            map_axes = figure.add_subplot(grid[1 + place // MAPS, place % MAPS])
            _draw_returns_at_goals(map_axes, np.array(tasks, float), returns[init][:, -1], norm, member, init)
            lowest = place + MAPS >= len(maps)
            map_axes.tick_params(labelbottom=False, labelleft=False)
            label_map_background(map_axes, names_of_visited_places(member), west=place % MAPS == 0, south=lowest)
        if maps:
            colours = ScalarMappable(norm, "viridis")
            below_maps = {"location": "bottom", "shrink": 0.6, "aspect": 30, "pad": 0.02}
            figure.colorbar(colours, ax=figure.axes[1:], label="final return", **below_maps)
        if folder is None:
            return figure
        save_figure_in_style(figure, folder, name, formats)
    write_csv_of_figure(folder / f"{name}.csv", ("init", "iteration", "mean", "low", "high", "tasks"), rows)
    goal_rows = [
        (init, number, *(task if planar else [json.dumps(task)]), value)
        for init, values in returns.items()
        for number, (task, value) in enumerate(zip(tasks, values[:, -1].tolist(), strict=True))
    ]
    write_csv_of_figure(
        folder / f"{name.replace('returns', 'tasks')}.csv",
        ("init", "task", *(("x", "y") if planar else ("what",)), "final_return"),
        goal_rows,
    )
    return figure


def tasks_are_in_a_plane(tasks: Sequence[Any]) -> bool:
    """Tell whether all tasks, as summary.json describes them, are goals in a plane, so that a map can show them."""
    return all(isinstance(task, list) and len(task) == 2 for task in tasks)


def _draw_returns_at_goals(
    axes: Axes,
    places: Float[np.ndarray, "tasks 2"],
    values: Float[np.ndarray, " tasks"],
    norm: Normalize,
    member: Member,
    title: str,
) -> None:
    draw_map_background(axes, member)
    axes.scatter(*places.T, c=values, cmap="viridis", norm=norm, s=14, edgecolors="black", linewidths=0.4, zorder=3)
    space, extent = member.observation_space, (*axes.get_xlim(), *axes.get_ylim())
    if isinstance(space, gymnasium.spaces.Box) and space.shape == (2,) and space.is_bounded():
        (west, south), (east, north) = space.low.tolist(), space.high.tolist()
        extent = west, east, south, north
    frame_map_background(axes, extent, member)
    # Maps are small, so the memory of the policy gets its own line.
    label = name_in_figure(title).replace(", memory", "\nmemory")
    axes.set_title(f"{label}\nmean {values.mean():.2f}", fontsize=8.5)
