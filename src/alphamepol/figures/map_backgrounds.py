"""Maps of members as a background of figures."""

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import HostMember
from alphamepol.figures.style import WALL_COLOUR

OUTLINES = {"wall": (WALL_COLOUR, 0), "level": (WALL_COLOUR, 0.6), "door": ("#D08A2E", 2.0), "goal": ("#CC3377", 0.8)}
"""Colour and width of what is on maps."""


def draw_map_background(axes: Axes, member: Member) -> None:
    """What is on the ground: walls filled, all else as outlines, so that visits are seen."""
    ground = member.map
    for patch in ground.patches if ground is not None else ():
        line, width = OUTLINES[patch.kind]
        fill = WALL_COLOUR if patch.kind == "wall" else "none"
        axes.add_patch(Rectangle(patch.corner, *patch.size, facecolor=fill, edgecolor=line, linewidth=width))


def frame_map_background(axes: Axes, extent: tuple[float, float, float, float], member: Member) -> None:
    """The ends of a map, the member's own if it has one: the others of its class may be larger."""
    ground = member.map
    extent = extent if ground is None else ground.extent
    axes.set(xlim=extent[:2], ylim=extent[2:], xticks=[], yticks=[])
    axes.set_aspect("equal" if map_background_is_to_scale(member) else "auto")
    for spine in axes.spines.values():
        spine.set(visible=True, color=WALL_COLOUR)


def map_background_is_to_scale(member: Member) -> bool:
    """Whether both directions have the same unit, as far as one can know."""
    return not isinstance(member, HostMember) or member.map is not None
