"""Pictures of a gridworld as pixel arrays."""

from functools import lru_cache
from itertools import pairwise, product

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw

from alphamepol.environments.gridworld.gridworld import START_EAST, START_SOUTH, Gridworld

SIZE = 400
SMOOTHING = 2
"""The factor by which pictures are drawn larger before they are reduced. This smooths the lines."""

GROUND, WALL, START, ARROW = (250, 250, 248), (64, 68, 75), (214, 230, 245), (150, 158, 168)
GOAL = (120, 190, 120)
TRAIL_OLD, TRAIL_NEW, AGENT = np.array([253, 208, 162]), np.array([217, 72, 1]), (127, 39, 4)


def draw_gridworld_trail(
    member: Gridworld, trail: Float[np.ndarray, "steps 2"], goal: tuple[list[float], float] | None = None
) -> UInt8[np.ndarray, "size size 3"]:
    """Draw the map (walls, start square, slope arrows), the goal, and the positions visited. Older ones are paler.

    `goal` is the place and the radius of the goal, or None if there is no goal.
    """
    image = _draw_gridworld_background(
        np.asarray(member.walls).tobytes(),
        member.walls.shape,
        tuple((np.asarray(member.slope_direction) * np.asarray(member.slope_mean)).tolist()),
        float(member.slope_above),
    ).copy()
    canvas = ImageDraw.Draw(image)
    if goal is not None:
        (x, y), radius = goal
        canvas.ellipse(
            [*_gridworld_drawing_pixel(x - radius, y + radius), *_gridworld_drawing_pixel(x + radius, y - radius)],
            fill=GOAL,
        )
    points = [_gridworld_drawing_pixel(x, y) for x, y in trail.tolist()]
    for i, (start, end) in enumerate(pairwise(points)):
        age = (i + 1) / len(points)
        colour = tuple(int(c) for c in TRAIL_OLD + age * (TRAIL_NEW - TRAIL_OLD))
        canvas.line([start, end], fill=colour, width=SMOOTHING)
    x, y = points[-1]
    radius = 5 * SMOOTHING
    canvas.ellipse([x - radius, y - radius, x + radius, y + radius], fill=AGENT)
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BOX))


@lru_cache(maxsize=32)
def _draw_gridworld_background(
    walls: bytes, shape: tuple[int, int], slope: tuple[float, float], slope_above: float
) -> Image.Image:
    rows, columns = shape
    side = SIZE * SMOOTHING
    image = Image.new("RGB", (side, side), GROUND)
    canvas = ImageDraw.Draw(image)
    canvas.rectangle(
        [*_gridworld_drawing_pixel(-1.0, 1.0), *_gridworld_drawing_pixel(START_EAST, START_SOUTH)], fill=START
    )
    if any(slope):
        places = np.linspace(-0.9, 0.9, 10).tolist()
        for x, y in product(places, places):
            if y >= slope_above:
                _draw_gridworld_slope_arrow(canvas, (x, y), slope)
    for row, column in np.argwhere(np.frombuffer(walls, dtype=bool).reshape(shape)).tolist():
        west, north = 2 * column / columns - 1, 1 - 2 * row / rows
        canvas.rectangle(
            [*_gridworld_drawing_pixel(west, north), *_gridworld_drawing_pixel(west + 2 / columns, north - 2 / rows)],
            fill=WALL,
        )
    canvas.rectangle([0, 0, side - 1, side - 1], outline=WALL, width=2 * SMOOTHING)
    return image


def _draw_gridworld_slope_arrow(
    canvas: ImageDraw.ImageDraw, centre: tuple[float, float], slope: tuple[float, float]
) -> None:
    """Draw an arrow that is as long as the mean displacement by the slope in one step."""
    tail = np.array(centre) - np.array(slope) / 2
    head = np.array(centre) + np.array(slope) / 2
    canvas.line(
        [_gridworld_drawing_pixel(*tail.tolist()), _gridworld_drawing_pixel(*head.tolist())],
        fill=ARROW,
        width=SMOOTHING,
    )
    along = (head - tail) / np.linalg.norm(head - tail)
    aside = np.array([-along[1], along[0]])
    corners = [head + 0.01 * along, head - 0.03 * along + 0.02 * aside, head - 0.03 * along - 0.02 * aside]
    canvas.polygon([_gridworld_drawing_pixel(*corner.tolist()) for corner in corners], fill=ARROW)


def _gridworld_drawing_pixel(x: float, y: float) -> tuple[float, float]:
    side = SIZE * SMOOTHING
    return (x + 1) / 2 * side, (1 - y) / 2 * side
