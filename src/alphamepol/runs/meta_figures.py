"""The pictures of meta-training, each a PNG with the CSV behind it."""

import math
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from matplotlib.figure import Figure

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.policies import Policy, stack_policies
from alphamepol.runs.plotting import PNG, STYLE, draw_curves, draw_walls, frame, save_figure, write_csv
from alphamepol.runs.visits import visit_map
from alphamepol.sampling.sampler import collect


def adaptation(
    before: Float[np.ndarray, "seeds iterations"],
    after: Float[np.ndarray, "seeds iterations"],
    folder: Path,
    name: str = "adaptation",
    formats: Sequence[str] = PNG,
) -> None:
    """The return before and after the inner step along meta-training, mean over seeds with 95 % bands."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        axes = figure.add_subplot()
        rows = draw_curves(axes, {"before the inner step": before, "after it": after})
        axes.set(xlabel="meta-iteration", ylabel="return, mean over tasks")
        save_figure(figure, folder, name, formats)
    write_csv(folder / f"{name}.csv", ("return", "iteration", "mean", "low", "high", "seeds"), rows)


def discriminability(
    values: Float[np.ndarray, "seeds epochs"],
    skills: int,
    folder: Path,
    name: str = "discriminability",
    formats: Sequence[str] = PNG,
) -> None:
    """How well skills are told apart along the epochs, mean over seeds with a 95 % band."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        axes = figure.add_subplot()
        rows = draw_curves(axes, {"DIAYN": values})
        axes.axhline(-math.log(skills), color="black", linewidth=0.8, linestyle="--", label=f"chance, ln 1/{skills}")
        axes.set(xlabel="epoch", ylabel="ln q(z|s), mean over steps", ylim=(None, 0.0))
        axes.legend(loc="best", frameon=True, framealpha=0.7, edgecolor="none")
        save_figure(figure, folder, name, formats)
    write_csv(folder / f"{name}.csv", ("method", "epoch", "mean", "low", "high", "seeds"), rows)


def skill_trails(
    skills: Sequence[Policy],
    environment_class: EnvironmentClass,
    horizon: int,
    folder: Path,
    *,
    key: PRNGKeyArray,
) -> None:
    """A trajectory of every skill of one seed in every member, one colour each, its number where it ends.

    An agent that is nowhere in a plane has no map; then nothing is drawn.
    """
    count, names = len(skills), environment_class.names
    keys = jax.random.split(key, count)
    members = jnp.tile(jnp.arange(len(names)), (count, 1))
    trajectories = collect(stack_policies(skills), environment_class, members, batch=1, horizon=horizon, keys=keys)
    places, valid = (np.asarray(part)[:, :, 0] for part in (trajectories.whereabouts, trajectories.valid))
    seen = visit_map(places, valid, environment_class[0]) if valid.any() else None
    if seen is None:
        return
    columns = min(5, len(names))
    rows = -(-len(names) // columns)
    colours = matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, count))
    table = []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.6 * columns + 0.2, 2.8 * rows), layout="constrained")
        all_axes = figure.subplots(rows, columns, squeeze=False)
        for axes in all_axes.flat[len(names) :]:
            axes.set_axis_off()
        for i, (axes, name) in enumerate(zip(all_axes.flat, names, strict=False)):
            draw_walls(axes, environment_class[i])
            for skill, colour in enumerate(colours):
                trail = places[skill, i][valid[skill, i]]
                if not len(trail):
                    continue
                axes.plot(*trail.T, color=colour, linewidth=0.6, alpha=0.7)
                axes.plot(*trail[-1], "o", color=colour, markersize=7, markeredgecolor="white", markeredgewidth=0.5)
                axes.annotate(
                    str(skill), trail[-1], ha="center", va="center", fontsize=4.5, color="white", annotation_clip=False
                )
                table += [(name, skill, step, *place) for step, place in enumerate(trail.tolist())]
            frame(axes, seen.extent, environment_class[i])
            axes.set_title(name)
        save_figure(figure, folder, "skill-trails")
    write_csv(folder / "skill-trails.csv", ("member", "skill", "step", "x", "y"), table)
