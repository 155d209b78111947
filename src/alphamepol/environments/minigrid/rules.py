"""The rules of MiniGrid: what an action does to a state, and what the agent sees of it.

Every step does the same as in Farama's package (docs/method.md).
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8, UInt16

from alphamepol.environments.minigrid.map import (
    BALL,
    BOX,
    CLOSED,
    DOOR,
    EMPTY,
    GOAL,
    KEY,
    LAVA,
    LOCKED,
    NOTHING,
    OPEN,
    UNSEEN,
    WALL,
)

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
VIEW = 7
"""The width and height of the agent's view in cells. Its own cell belongs to the view."""
MIDDLE = VIEW // 2
OWN_CELL = np.outer(np.arange(VIEW) == MIDDLE, np.arange(VIEW) == VIEW - 1)
"""The mask of the agent's own cell in its view: the middle of the last row. In its view, the agent looks up."""
HEADING_VECTORS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)], np.int32)
"""The step (column, row) in each direction. Direction 0 is east, and the others follow clockwise."""

Code = UInt16[Array, "*cells"]


class MiniGridState(eqx.Module):
    """The state of a MiniGrid: the agent, and everything on the map that can change."""

    position: Int[Array, "2"]
    """The column and row of the agent."""
    direction: Int[Array, ""]
    """The direction in which the agent looks: 0 is east, and the others follow clockwise."""
    cells: UInt16[Array, "rows columns"]
    """The code of the object in each cell (`minigrid_map_code`)."""
    carried: UInt16[Array, ""]
    """The code of the object that the agent carries, or of an empty cell if the agent carries nothing."""
    steps: Int[Array, ""]
    """The number of steps since the start of the episode."""
    reward: Float[Array, ""]
    """MiniGrid's own reward for the step that led to this state: 1 − 0.9 · steps / max_steps for a goal, else 0."""


def begin_minigrid(
    cells: UInt16[Array, "rows columns"], position: Int[Array, "2"], direction: Int[Array, ""]
) -> MiniGridState:
    """Return the state in which an episode begins: the agent carries nothing."""
    return MiniGridState(
        position, direction, cells, jnp.array(NOTHING, jnp.uint16), jnp.array(0, jnp.int32), jnp.array(0.0)
    )


def step_minigrid(
    state: MiniGridState, action: Int[Array, ""], *, backward: Bool[Array, ""], max_steps: Int[Array, ""]
) -> MiniGridState:
    """Turn, walk, or act on the cell in front of the agent, or behind it if `backward` is True."""
    turn = jnp.where(action == LEFT, 3, jnp.where(action == RIGHT, 1, 0))
    sign = jnp.where(backward, -1, 1)
    in_front = state.position + sign * jnp.asarray(HEADING_VECTORS)[state.direction]
    column, row = in_front
    thing = state.cells[row, column]
    walks = (action == FORWARD) & minigrid_agent_can_overlap(thing)
    takes = (action == PICKUP) & minigrid_agent_can_pick_up(thing) & (state.carried == NOTHING)
    drops = (action == DROP) & (thing == NOTHING) & (state.carried != NOTHING)
    left_there = jnp.where(takes, NOTHING, jnp.where(drops, state.carried, thing)).astype(jnp.uint16)
    left_there = jnp.where(action == TOGGLE, toggle_minigrid_thing(thing, state.carried), left_there)
    carried = jnp.where(takes, thing, jnp.where(drops, NOTHING, state.carried)).astype(jnp.uint16)
    steps = state.steps + 1
    reaches_goal = walks & (kind_of_minigrid_thing(thing) == GOAL)
    return MiniGridState(
        position=jnp.where(walks, in_front, state.position),
        direction=(state.direction + turn) % 4,
        cells=state.cells.at[row, column].set(left_there),
        carried=carried,
        steps=steps,
        reward=jnp.where(reaches_goal, minigrid_success_reward(steps, max_steps), 0.0),
    )


def minigrid_success_reward(steps: Int[Array, ""], max_steps: Int[Array, ""]) -> Float[Array, ""]:
    """Return MiniGrid's reward for a success after so many steps: 1 − 0.9 · steps / max_steps."""
    # The division is the only rounding. So the result is MiniGrid's float64 reward, to the last bit of float32.
    return (10 * max_steps - 9 * steps).astype(float) / (10 * max_steps).astype(float)


def observe_minigrid(state: MiniGridState) -> UInt8[Array, "7 7 3"]:
    """Return the agent's view: the kind, colour and state of the object in each cell, of shape (7, 7, 3).

    The first axis grows to the agent's right, and the second grows towards the agent. Cells that the agent cannot
    see are 0. The agent's own cell shows the object that it carries.
    """
    things = _minigrid_things_in_view(state)
    shown = jnp.where(visible_minigrid_cells(minigrid_lets_light_through(things)), things, UNSEEN)
    # `at[…].set` would take as long as the rest of this function on a CPU.
    shown = jnp.where(OWN_CELL, state.carried, shown)
    kind = kind_of_minigrid_thing(shown)
    # The agent does not see what is in a box.
    return jnp.stack([kind, shown >> 4 & 7, jnp.where(kind == BOX, 0, shown >> 7)], axis=-1).astype(jnp.uint8)


def _minigrid_things_in_view(state: MiniGridState) -> UInt16[Array, "7 7"]:
    """Return the 7 × 7 cells in front of the agent, columns first, as if nothing was hidden."""
    ahead = jnp.asarray(HEADING_VECTORS)[state.direction]
    aside = jnp.stack([-ahead[1], ahead[0]])
    i, j = jnp.meshgrid(jnp.arange(VIEW) - MIDDLE, VIEW - 1 - jnp.arange(VIEW), indexing="ij")
    rows, columns = state.cells.shape
    # Everything outside the map is wall, as is the border of the map. So the border replaces the outside.
    column = jnp.clip(state.position[0] + i * aside[0] + j * ahead[0], 0, columns - 1)
    row = jnp.clip(state.position[1] + i * aside[1] + j * ahead[1], 0, rows - 1)
    return state.cells[row, column]


def kind_of_minigrid_thing(thing: Code) -> UInt16[Array, "*cells"]:
    return thing & 15


def minigrid_agent_can_overlap(thing: UInt16[Array, ""]) -> Bool[Array, ""]:
    """Tell whether the agent can walk onto an object."""
    what = kind_of_minigrid_thing(thing)
    return (what == EMPTY) | (what == GOAL) | (what == LAVA) | ((what == DOOR) & (thing >> 7 == OPEN))


def minigrid_agent_can_pick_up(thing: UInt16[Array, ""]) -> Bool[Array, ""]:
    what = kind_of_minigrid_thing(thing)
    return (what == KEY) | (what == BALL) | (what == BOX)


def toggle_minigrid_thing(thing: UInt16[Array, ""], carried: UInt16[Array, ""]) -> UInt16[Array, ""]:
    """Return the code of an object after toggling it.

    A door opens or closes. A locked door opens only if the agent carries the key of its colour. A box is replaced by
    its content. All other objects stay as they are.
    """
    what, state, colour = kind_of_minigrid_thing(thing), thing >> 7, thing & (7 << 4)
    unlocks = (kind_of_minigrid_thing(carried) == KEY) & (carried & (7 << 4) == colour)
    opens = (state == CLOSED) | ((state == LOCKED) & unlocks)
    after = jnp.where(opens, OPEN, jnp.where(state == OPEN, CLOSED, state)).astype(jnp.uint16)
    return jnp.where(what == DOOR, thing & 127 | after << 7, jnp.where(what == BOX, state, thing))


def minigrid_lets_light_through(things: UInt16[Array, "7 7"]) -> Bool[Array, "7 7"]:
    return (kind_of_minigrid_thing(things) != WALL) & ((kind_of_minigrid_thing(things) != DOOR) | (things >> 7 == OPEN))


def visible_minigrid_cells(clear: Bool[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Return which cells of the view the agent sees. `clear` marks the cells that it can see through.

    This is MiniGrid's rule, which goes row by row away from the agent. In each row light spreads to the right first,
    and then to the left. It spreads from every lit clear cell to its neighbour, to the cell ahead, and to the cell
    ahead of the neighbour. A row is stored as seven bits of a number, so that a few shifts replace loops over cells.
    """
    places = jnp.arange(VIEW)
    rows = jnp.sum(clear.astype(jnp.int32) << places[:, None], axis=0)
    lit, seen = jnp.array(1 << MIDDLE), []
    for row in reversed(range(VIEW)):
        through = rows[row]
        from_left = _spread_minigrid_light(lit & through, through, right=True) & ~(1 << VIEW - 1)
        lit = lit | from_left << 1
        from_right = _spread_minigrid_light(lit & through, through, right=False) & ~1
        seen.append(lit | from_right >> 1)
        lit = from_left | from_left << 1 | from_right | from_right >> 1
    return jnp.stack(seen[::-1])[None, :] >> places[:, None] & 1 == 1


def _spread_minigrid_light(sources: Int[Array, ""], through: Int[Array, ""], *, right: bool) -> Int[Array, ""]:
    """Return all clear cells that light from the sources reaches within a row."""
    for distance in (1, 2, 4):
        shift = (lambda bits, by=distance: bits << by) if right else (lambda bits, by=distance: bits >> by)
        sources = sources | through & shift(sources)
        through = through & shift(through)
    return sources
