"""Maps of members as the background of figures."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from alphamepol.environments.cmp import Member
from alphamepol.figures.style import WALL_COLOUR, member_in_figure, name_in_figure

OUTLINES = {"wall": (WALL_COLOUR, 0), "level": (WALL_COLOUR, 0.6), "door": ("#D08A2E", 2.0), "goal": ("#CC3377", 0.8)}
"""The colour and the line width of each kind of patch on a map."""


def draw_map_background(axes: Axes, member: Member) -> None:
    """Draw the map of a member: walls are filled, all other patches are outlines, so that visits stay visible."""
    ground = member.map
    for patch in ground.patches if ground is not None else ():
        line, width = OUTLINES[patch.kind]
        fill = WALL_COLOUR if patch.kind == "wall" else "none"
        axes.add_patch(Rectangle(patch.corner, *patch.size, facecolor=fill, edgecolor=line, linewidth=width))


def frame_map_background(axes: Axes, extent: tuple[float, float, float, float], member: Member) -> None:
    """Set the limits of the axes to the map of the member, or to `extent` if the member has no map. Draw few ticks.

    `extent` may be larger than the map of the member, because it covers all members of the class.
    """
    ground = member.map
    extent = extent if ground is None else ground.extent
    axes.set(xlim=extent[:2], ylim=extent[2:])
    axes.set_aspect("equal" if map_background_is_to_scale(member) else "auto")
    in_cells = ground is not None and ground.cells is not None
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4, integer=in_cells))
    axes.tick_params(labelsize=7, length=2, color=WALL_COLOUR)
    for spine in axes.spines.values():
        spine.set(visible=True, color=WALL_COLOUR)


def label_map_background(axes: Axes, names: Sequence[str], row: str = "", *, west: bool, south: bool) -> None:
    """Write the names of the coordinates at the axes, and the name of the `row` of panels above that of y.

    The name of y is written only at the `west` side of a figure, and the name of x only at its `south` side.
    """
    if south:
        axes.set_xlabel(member_in_figure(names[0]), fontsize=8)
    if west:
        axes.set_ylabel(member_in_figure(names[1]), fontsize=8)
    if west and row:
        centre = {"xycoords": axes.yaxis.label, "xy": (0, 0.5), "ha": "right", "va": "center"}
        axes.annotate(name_in_figure(row), rotation=90, xytext=(-3, 0), textcoords="offset points", **centre)


def map_background_is_to_scale(member: Member) -> bool:
    """Return True unless the two axes may have different units, as in a member without a map."""
    return member.map is not None
