"""The pictures of a run, each a PNG with the CSV behind it."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, to_rgb
from matplotlib.figure import Figure

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass
from alphamepol.environments.maps import map_of
from alphamepol.runs.evaluate import Evaluation
from alphamepol.runs.plotting import (
    COLOURS,
    PNG,
    STYLE,
    WALL_COLOUR,
    draw_curves,
    draw_walls,
    frame,
    is_a_map,
    save_figure,
    write_csv,
)
from alphamepol.runs.tables import MOST
from alphamepol.runs.visits import VisitMap, visit_map


def learning_curves(metrics: Sequence[dict[str, Any]], environment_class: AnyClass, folder: Path) -> None:
    """Entropy of each member along the epochs: mean over seeds, and a band from the smallest to the largest."""
    by_member: dict[str, dict[int, list[float]]] = {name: {} for name in environment_class.names}
    for line in metrics:
        for name, entropy in line["entropy"].items():
            by_member[name].setdefault(line["epoch"], []).append(entropy)
    rows = [
        (name, epoch, np.mean(v), min(v), max(v), len(v))
        for name, by_epoch in by_member.items()
        for epoch, v in sorted(by_epoch.items())
    ]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.5, 3.4), layout="constrained")
        axes = figure.add_subplot()
        met = [name for name, by_epoch in by_member.items() if by_epoch]
        for name, colour in zip(met[:MOST], cycle(COLOURS), strict=False):
            curve = np.array([row[1:5] for row in rows if row[0] == name], float)
            axes.plot(curve[:, 0], curve[:, 1], color=colour, label=name, linewidth=1.4)
            axes.fill_between(curve[:, 0], curve[:, 2], curve[:, 3], color=colour, alpha=0.2, linewidth=0)
        axes.set(xlabel="epoch", ylabel="entropy of a mini-batch")
        axes.legend(loc="best", ncols=2 if len(environment_class) > 4 else 1)
        save_figure(figure, folder, "learning-curves")
    write_csv(folder / "learning-curves.csv", ("member", "epoch", "mean", "lowest", "highest", "seeds"), rows)


def entropy_histogram(
    evaluations: Mapping[str, Evaluation],
    folder: Path,
    name: str = "entropy-histogram",
    formats: Sequence[str] = PNG,
) -> None:
    """Distribution of the entropy of single trajectories under p_M, one histogram per method, members stacked."""
    shown = {}
    for method, evaluation in evaluations.items():
        values = evaluation.trajectory_entropies
        weights = np.broadcast_to(np.array(evaluation.probabilities)[:, None], values.shape[1:]) / max(
            1, values.shape[-1]
        )
        shown[method] = [
            (values[:, i].ravel(), np.tile(weights[i], len(values)) / len(values))
            for i in range(len(evaluation.members))
        ]
    everything = np.concatenate([values for parts in shown.values() for values, _ in parts])
    everything = everything[np.isfinite(everything)]
    if not everything.size:
        return
    edges = np.linspace(everything.min(), everything.max() + 1e-6, 41)
    rows = []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.5, 2.4 * len(shown) + 0.6), layout="constrained")
        all_axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (method, parts) in zip(all_axes, shown.items(), strict=True):
            below = np.zeros(len(edges) - 1)
            for i, (member, colour, (values, weights)) in enumerate(
                zip(evaluations[method].members, cycle(COLOURS), parts, strict=False)
            ):
                shares = np.histogram(values, edges, weights=weights)[0]
                if i < MOST:
                    axes.bar(edges[:-1], shares, np.diff(edges), below, align="edge", color=colour, label=member)
                    below += shares
                rows += [(method, member, *row) for row in zip(edges[:-1], edges[1:], shares, strict=True)]
            axes.set(ylabel="share of trajectories", title=method)
            axes.legend(loc="best", ncols=2 if len(parts) > 4 else 1)
        all_axes[-1].set_xlabel("entropy of one trajectory")
        save_figure(figure, folder, name, formats)
    write_csv(folder / f"{name}.csv", ("method", "member", "from", "to", "share"), rows)


def heat_maps(
    evaluations: Mapping[str, Evaluation],
    environment_class: AnyClass,
    folder: Path,
    name: str = "heat-maps",
    formats: Sequence[str] = PNG,
) -> None:
    """Where the agent goes in each member, on a log scale, all seeds together.

    Five members side by side, one row per method, then the next five. An agent that is nowhere in a plane has no map;
    then nothing is drawn.
    """
    maps = {
        method: VisitMap(evaluation.visits.shares.mean(axis=0), evaluation.visits.extent)
        for method, evaluation in evaluations.items()
        if evaluation.visits is not None
    }
    if not maps:
        return
    members = environment_class.names
    norm = LogNorm(1e-5, max(float(visits.shares.max()) for visits in maps.values()))
    with matplotlib.rc_context(STYLE):
        figure, all_axes = _member_grid(evaluations, list(maps), environment_class)
        for (method, i), axes in all_axes.items():
            _draw_heat_map(axes, maps[method].shares[i], maps[method].extent, environment_class[i], norm)
        colours = ScalarMappable(norm, "viridis")
        figure.colorbar(colours, ax=list(all_axes.values()), label="share of time", shrink=0.8, aspect=30)
        save_figure(figure, folder, name, formats)
    write_csv(folder / f"{name}.csv", ("method", "member", "x", "y", "share"), _visit_rows(maps, members))


def trails(evaluations: Mapping[str, Evaluation], environment_class: AnyClass, folder: Path) -> None:
    """The ways of a few trajectories in each member, one colour each, from a dot on; arranged as the heat-maps are."""
    shown = {method: one for method, one in evaluations.items() if one.trails is not None and one.visits is not None}
    if not shown:
        return
    rows: list[tuple[Any, ...]] = []
    with matplotlib.rc_context(STYLE):
        figure, all_axes = _member_grid(evaluations, list(shown), environment_class)
        for (method, i), axes in all_axes.items():
            evaluation, member = shown[method], environment_class.names[i]
            assert evaluation.trails is not None
            assert evaluation.visits is not None
            draw_walls(axes, environment_class[i])
            for number, (trail, colour) in enumerate(zip(evaluation.trails[i], cycle(COLOURS), strict=False)):
                axes.plot(*trail.T, color=colour, linewidth=0.7, alpha=0.8)
                axes.plot(*trail[0], "o", color=colour, markersize=3)
                steps = zip(range(len(trail)), trail[:, 0], trail[:, 1], strict=True)
                rows += [(method, member, number, *step) for step in steps if np.isfinite(step[1])]
            frame(axes, evaluation.visits.extent, environment_class[i])
        save_figure(figure, folder, "trails")
    write_csv(folder / "trails.csv", ("method", "member", "trajectory", "step", "x", "y"), rows)


def _member_grid(
    evaluations: Mapping[str, Evaluation], methods: Sequence[str], environment_class: AnyClass
) -> tuple[Figure, dict[tuple[str, int], Axes]]:
    """Axes for every method and member: five members side by side, one row per method, then the next five."""
    members = environment_class.names[:MOST]
    columns = min(5, len(members))
    rows = math.ceil(len(members) / columns) * len(methods)
    extents = [one.visits.extent for one in evaluations.values() if one.visits is not None]
    west, east, south, north = extents[0]
    # Maps that are wider than high need less room above each other.
    height = 2.0 * (min(1.0, abs(north - south) / (east - west)) if is_a_map(environment_class[0]) else 1.0) + 0.6
    figure = Figure(figsize=(max(4.8, 2.3 * columns + 0.6), height * rows + 0.1), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False)
    for axes in all_axes.flat:
        axes.set_axis_off()
    found = {}
    for i, member in enumerate(members):
        for j, method in enumerate(methods):
            axes = all_axes[i // columns * len(methods) + j, i % columns]
            axes.set_axis_on()
            axes.set_title(f"{member}\n{_explored(evaluations[method], i)}")
            if len(methods) > 1 and i % columns == 0:
                axes.set_ylabel(method)
            found[method, i] = axes
    return figure, found


def _explored(evaluation: Evaluation, member: int) -> str:
    """How well, in a few words: the cells of a grid say more than its entropy."""
    if evaluation.cells is not None:
        return f"{evaluation.cells['minibatch'][:, member].mean():.1f} cells a mini-batch"
    return f"entropy {evaluation.member_means[:, member].mean():.2f}"


def returns(
    returns: Mapping[str, Float[np.ndarray, "tasks iterations"]],
    tasks: Sequence[Any],
    member: Member,
    folder: Path,
    name: str = "returns",
    formats: Sequence[str] = PNG,
) -> None:
    """Mean return along the iterations with 95 % bands, and a map of the goals coloured by final return per method.

    There are maps only where tasks are goals in the plane.
    """
    planar = all(isinstance(task, list) and len(task) == 2 for task in tasks)
    maps = list(returns) if planar else []
    final = np.concatenate([values[:, -1] for values in returns.values()])
    norm = Normalize(min(0.0, final.min()), max(1.0, final.max()))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.2 + 2.2 * len(maps), 3.3), layout="constrained")
        grid = figure.add_gridspec(1, 1 + len(maps), width_ratios=[1.6] + [1.0] * len(maps))
        axes = figure.add_subplot(grid[0])
        rows = draw_curves(axes, returns)
        axes.set(xlabel="iteration", ylabel="return, mean over tasks")
        axes.set_ylim(bottom=min(0.0, axes.dataLim.ymin))
        for column, init in enumerate(maps, start=1):
            map_axes = figure.add_subplot(grid[column])
            _draw_goals(map_axes, np.array(tasks, float), returns[init][:, -1], norm, member, init)
        if maps:
            colours = ScalarMappable(norm, "viridis")
            figure.colorbar(colours, ax=figure.axes[1:], label="final return", shrink=0.75, aspect=30)
        save_figure(figure, folder, name, formats)
    write_csv(folder / f"{name}.csv", ("init", "iteration", "mean", "low", "high", "tasks"), rows)
    goal_rows = [
        (init, number, *(task if planar else [json.dumps(task)]), value)
        for init, values in returns.items()
        for number, (task, value) in enumerate(zip(tasks, values[:, -1].tolist(), strict=True))
    ]
    write_csv(
        folder / f"{name.replace('returns', 'tasks')}.csv",
        ("init", "task", *(("x", "y") if planar else ("what",)), "final_return"),
        goal_rows,
    )


def _draw_goals(
    axes: Axes,
    places: Float[np.ndarray, "tasks 2"],
    values: Float[np.ndarray, " tasks"],
    norm: Normalize,
    member: Member,
    title: str,
) -> None:
    draw_walls(axes, member)
    axes.scatter(*places.T, c=values, cmap="viridis", norm=norm, s=22, edgecolors="black", linewidths=0.4, zorder=3)
    ground, space = map_of(member), member.observation_space
    if ground is not None:
        axes.set(xlim=ground.extent[:2], ylim=ground.extent[2:])
    elif isinstance(space, gymnasium.spaces.Box) and space.shape == (2,) and space.is_bounded():
        (west, south), (east, north) = space.low.tolist(), space.high.tolist()
        axes.set(xlim=(west, east), ylim=(south, north))
    axes.set(xticks=[], yticks=[], aspect="equal")
    # The memory, if one is named, on a line of its own: maps are small.
    label = title.replace(", memory", "\nmemory")
    axes.set_title(f"{label}\nmean {values.mean():.2f}")
    for spine in axes.spines.values():
        spine.set(visible=True, color=WALL_COLOUR)


def heat_map_pixels(places: np.ndarray, valid: np.ndarray, member: Member, size: int = 200) -> np.ndarray | None:
    """A quick heat-map without axes, for TensorBoard: about `size` wide, uint8; None unless places are in a plane."""
    visits = visit_map(places, valid, member)
    if visits is None:
        return None
    shares = visits.shares[::-1]
    brightness = np.clip(np.log(np.maximum(shares, 1e-6) / 1e-5) / np.log(1e-2 / 1e-5), 0, 1)
    colours = matplotlib.colormaps["viridis"](brightness)[..., :3]
    colours[shares == 0] = 1.0
    enlarged = max(1, size // shares.shape[1])
    pixels = np.kron(colours, np.ones((enlarged, enlarged, 1)))
    ground = map_of(member)
    if ground is None or (ground.cells is None and ground.extent != visits.extent):  # no map, or away from it
        return (255 * pixels).astype(np.uint8)
    west, east, south, north = visits.extent

    def part(corner: Sequence[float], opposite: Sequence[float]) -> tuple[slice, slice]:
        """The rows and columns of a rectangle of the map."""
        corners = (np.array([corner, opposite]) - (west, north)) / (east - west, south - north)
        x, y = (corners * pixels.shape[1::-1]).round().astype(int).T
        return slice(*sorted(y)), slice(*sorted(x))

    for patch in ground.patches:
        if patch.kind == "wall":
            pixels[part(patch.corner, np.add(patch.corner, patch.size).tolist())] = to_rgb(WALL_COLOUR)
    # The member's own part, where a class has larger maps, too.
    own_west, own_east, own_south, own_north = ground.extent
    return (255 * pixels[part((own_west, own_south), (own_east, own_north))]).astype(np.uint8)


def _draw_heat_map(
    axes: Axes, shares: np.ndarray, extent: tuple[float, float, float, float], member: Member, norm: LogNorm
) -> None:
    """One member's map: share of time per cell, walls in grey, never-visited ground in white."""
    seen = np.ma.masked_equal(shares, 0)
    axes.imshow(seen, norm=norm, origin="lower", extent=extent, cmap="viridis", interpolation="nearest")
    draw_walls(axes, member)
    frame(axes, extent, member)


def _visit_rows(maps: Mapping[str, VisitMap], members: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    for method, visits in maps.items():
        west, east, south, north = visits.extent
        rows, columns = visits.shares.shape[-2:]
        xs = west + (np.arange(columns) + 0.5) * (east - west) / columns
        ys = south + (np.arange(rows) + 0.5) * (north - south) / rows
        for i, member in enumerate(members):
            for row, column in np.argwhere(visits.shares[i] > 0):
                yield method, member, xs[column], ys[row], visits.shares[i, row, column]
