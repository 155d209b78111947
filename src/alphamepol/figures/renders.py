"""Pictures of members as Gymnasium environments render them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import gymnasium
import matplotlib
import numpy as np
from matplotlib.figure import Figure

from alphamepol.errors import InputError, RunError
from alphamepol.figures.style import COLUMN, PNG, STYLE, member_in_figure, save_figure_in_style


def draw_renders(ids: Mapping[str, str], folder: Path, name: str, formats: Sequence[str] = PNG) -> Figure | None:
    """Draw members at the start of an episode; `ids` maps titles to Gymnasium ids.

    Nothing is drawn if a member cannot be rendered.
    """
    try:
        pictures = {title: _render_for_figure(gymnasium_id) for title, gymnasium_id in ids.items()}
    except (ImportError, InputError, RunError):
        return None
    with matplotlib.rc_context(STYLE):
        high = max(pixels.shape[0] / pixels.shape[1] for pixels in pictures.values())
        figure = Figure(figsize=(COLUMN, high * COLUMN / len(pictures) + 0.3), layout="constrained")
        for axes, (title, pixels) in zip(figure.subplots(1, len(pictures)), pictures.items(), strict=True):
            axes.imshow(pixels)
            axes.set_title(member_in_figure(title))
            axes.set_axis_off()
        save_figure_in_style(figure, folder, name, formats)
    return figure


def _render_for_figure(gymnasium_id: str) -> np.ndarray:
    env = gymnasium.make(gymnasium_id, render_mode="rgb_array")
    env.reset(seed=0)
    pixels = env.render()
    env.close()
    return np.asarray(pixels)
