"""Maps of members as the background of figures."""

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import HostMember
from alphamepol.figures.style import WALL_COLOUR

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
    """Set the limits of the axes to the map of the member, or to `extent` if the member has no map.

    `extent` may be larger than the map of the member, because it covers all members of the class.
    """
    ground = member.map
    extent = extent if ground is None else ground.extent
    axes.set(xlim=extent[:2], ylim=extent[2:], xticks=[], yticks=[])
    axes.set_aspect("equal" if map_background_is_to_scale(member) else "auto")
    for spine in axes.spines.values():
        spine.set(visible=True, color=WALL_COLOUR)


def map_background_is_to_scale(member: Member) -> bool:
    """Return True unless the two axes may have different units, as in a host member without a map."""
    return not isinstance(member, HostMember) or member.map is not None
