"""Heat-maps of visits, and trails of trajectories, in every member."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.figure import Figure

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass
from alphamepol.estimation.statistics import text_of_statistic
from alphamepol.figures.map_backgrounds import (
    draw_map_background,
    frame_map_background,
    label_map_background,
    map_background_is_to_scale,
)
from alphamepol.figures.style import (
    COLOURS,
    COLUMN,
    PNG,
    STYLE,
    WALL_COLOUR,
    member_in_figure,
    save_figure_in_style,
    write_csv_of_figure,
)
from alphamepol.figures.tables import MOST
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.visits import (
    VisitMap,
    names_of_visited_places,
    visit_map,
    visit_maps_with_common_extent,
)


def draw_heat_maps(
    evaluations: Mapping[str, Evaluation],
    environment_class: AnyClass,
    folder: Path,
    name: str = "heat-maps",
    formats: Sequence[str] = PNG,
) -> None:
    """Draw the share of time at each place in each member, on a log scale, over all seeds.

    The figure has four members side by side, with one row per method; below follow the next four members. All methods
    have the same axes. Nothing is drawn if agents have no place in a plane.
    """
    maps = _comparable_heat_maps(evaluations)
    if not maps:
        return
    members = environment_class.names
    largest = max(float(visits.shares.max()) for visits in maps.values())
    norm = LogNorm(min(1e-5, largest / 10), largest)
    with matplotlib.rc_context(STYLE):
        figure, all_axes = _heat_map_axes(evaluations, maps, environment_class)
        for (method, i), axes in all_axes.items():
            _draw_heat_map(axes, maps[method].shares[i], maps[method].extent, environment_class[i], norm)
        colours = ScalarMappable(norm, "viridis")
        figure.colorbar(colours, ax=list(all_axes.values()), label="share of time", shrink=0.8, aspect=30)
        save_figure_in_style(figure, folder, name, formats)
    write_csv_of_figure(folder / f"{name}.csv", ("method", "member", "x", "y", "share"), _heat_map_rows(maps, members))


def draw_trails_like_heat_maps(
    evaluations: Mapping[str, Evaluation], environment_class: AnyClass, folder: Path
) -> None:
    """Draw a few trajectories in each member, each in its own colour. A dot marks the start.

    The panels are arranged as in `draw_heat_maps`.
    """
    shown = {method: one for method, one in evaluations.items() if one.trails is not None and one.visits is not None}
    if not shown:
        return
    maps = _comparable_heat_maps(shown)
    rows: list[tuple[Any, ...]] = []
    with matplotlib.rc_context(STYLE):
        figure, all_axes = _heat_map_axes(evaluations, maps, environment_class)
        for (method, i), axes in all_axes.items():
            trails, member = shown[method].trails, environment_class.names[i]
            assert trails is not None
            draw_map_background(axes, environment_class[i])
            for number, (trail, colour) in enumerate(zip(trails[i], cycle(COLOURS), strict=False)):
                axes.plot(*trail.T, color=colour, linewidth=0.7, alpha=0.8)
                axes.plot(*trail[0], "o", color=colour, markersize=3)
                steps = zip(range(len(trail)), trail[:, 0], trail[:, 1], strict=True)
                rows += [(method, member, number, *step) for step in steps if np.isfinite(step[1])]
            frame_map_background(axes, maps[method].extent, environment_class[i])
        save_figure_in_style(figure, folder, "trails")
    write_csv_of_figure(folder / "trails.csv", ("method", "member", "trajectory", "step", "x", "y"), rows)


def _comparable_heat_maps(evaluations: Mapping[str, Evaluation]) -> dict[str, VisitMap]:
    """Return the mean map of each method over its seeds. All maps have the same extent."""
    return visit_maps_with_common_extent(
        {
            method: VisitMap(evaluation.visits.shares.mean(axis=0), evaluation.visits.extent)
            for method, evaluation in evaluations.items()
            if evaluation.visits is not None
        }
    )


def _heat_map_axes(
    evaluations: Mapping[str, Evaluation], maps: Mapping[str, VisitMap], environment_class: AnyClass
) -> tuple[Figure, dict[tuple[str, int], Axes]]:
    """Return axes for every method and member: four members side by side, one row per method, then the next four."""
    members, methods = environment_class.names[:MOST], list(maps)
    columns = min(4, len(members))
    rows = math.ceil(len(members) / columns) * len(methods)
    west, east, south, north = maps[methods[0]].extent
    names = evaluations[methods[0]].place_names or names_of_visited_places(environment_class[0])
    # Maps that are wider than high need less height.
    height = (
        1.35
        * (min(1.0, abs(north - south) / (east - west)) if map_background_is_to_scale(environment_class[0]) else 1.0)
        + 0.62
    )
    figure = Figure(figsize=(max(COLUMN, 1.5 * columns + 0.6), height * rows + 0.3), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False)
    for axes in all_axes.flat:
        axes.set_axis_off()
    found = {}
    for i, member in enumerate(members):
        for j, method in enumerate(methods):
            axes = all_axes[i // columns * len(methods) + j, i % columns]
            axes.set_axis_on()
            axes.set_title(f"{member_in_figure(member)}\n{heat_map_caption(evaluations[method], i)}", fontsize=8.5)
            lowest = i + columns >= len(members) and j == len(methods) - 1
            row = method if len(methods) > 1 else ""
            label_map_background(axes, names, row, west=i % columns == 0, south=lowest)
            found[method, i] = axes
    return figure, found


def heat_map_caption(evaluation: Evaluation, member: int) -> str:
    """Return a short measure of exploration: the cells that a mini-batch visits, otherwise the entropy."""
    if evaluation.cells is not None:
        return f"{evaluation.cells['minibatch'][:, member].mean():.1f} cells"
    return f"entropy {text_of_statistic(float(evaluation.member_means[:, member].mean()))}"


def heat_map_pixels(places: np.ndarray, valid: np.ndarray, member: Member, size: int = 200) -> np.ndarray | None:
    """Return a heat-map without axes for TensorBoard, uint8, about `size` pixels wide.

    Return None if the places are not in a plane.
    """
    visits = visit_map(places, valid, member)
    if visits is None:
        return None
    shares = visits.shares[::-1]
    brightness = np.clip(np.log(np.maximum(shares, 1e-6) / 1e-5) / np.log(1e-2 / 1e-5), 0, 1)
    colours = matplotlib.colormaps["viridis"](brightness)[..., :3]
    colours[shares == 0] = 1.0
    enlarged = max(1, size // shares.shape[1])
    pixels = np.kron(colours, np.ones((enlarged, enlarged, 1)))
    ground = member.map
    if ground is None or (ground.cells is None and ground.extent != visits.extent):  # no map, or visits outside it
        return (255 * pixels).astype(np.uint8)
    west, east, south, north = visits.extent

    def part(corner: Sequence[float], opposite: Sequence[float]) -> tuple[slice, slice]:
        """Return the rows and columns of pixels of a rectangle of the map."""
        corners = (np.array([corner, opposite]) - (west, north)) / (east - west, south - north)
        x, y = (corners * pixels.shape[1::-1]).round().astype(int).T
        return slice(*sorted(y)), slice(*sorted(x))

    for patch in ground.patches:
        if patch.kind == "wall":
            pixels[part(patch.corner, np.add(patch.corner, patch.size).tolist())] = to_rgb(WALL_COLOUR)
    # The extent covers the largest map of the class: cut out the part of this member.
    own_west, own_east, own_south, own_north = ground.extent
    return (255 * pixels[part((own_west, own_south), (own_east, own_north))]).astype(np.uint8)


def _draw_heat_map(
    axes: Axes, shares: np.ndarray, extent: tuple[float, float, float, float], member: Member, norm: LogNorm
) -> None:
    """Draw the share of time per cell in one member, with walls in grey and ground without visits in white."""
    seen = np.ma.masked_equal(shares, 0)
    axes.imshow(seen, norm=norm, origin="lower", extent=extent, cmap="viridis", interpolation="nearest")
    draw_map_background(axes, member)
    frame_map_background(axes, extent, member)


def _heat_map_rows(maps: Mapping[str, VisitMap], members: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    for method, visits in maps.items():
        west, east, south, north = visits.extent
        rows, columns = visits.shares.shape[-2:]
        xs = west + (np.arange(columns) + 0.5) * (east - west) / columns
        ys = south + (np.arange(rows) + 0.5) * (north - south) / rows
        for i, member in enumerate(members):
            for row, column in np.argwhere(visits.shares[i] > 0):
                yield method, member, xs[column], ys[row], visits.shares[i, row, column]
