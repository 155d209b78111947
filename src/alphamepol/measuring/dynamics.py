"""The differences between the members of a class after one step."""

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from alphamepol.compute.keys import DYNAMICS
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.host import AnyClass
from alphamepol.estimation.member_distances import (
    StepSample,
    distances_by_step_contrasts,
    lipschitz_constant_of_distances,
)
from alphamepol.measuring.particles import encode_particles
from alphamepol.policies.image_networks import RandomEncoder
from alphamepol.policies.policy import Policy
from alphamepol.sampling.coupled import (
    act_with_coupled_draws,
    choose_coupled_steps,
    difference_of_coupled_steps,
    start_coupled_members,
    step_coupled_members,
    visit_for_coupled_steps,
)

TRAJECTORIES, STATES, DRAWS = 8, 150, 16
"""The sizes for `measure_dynamics`: trajectories per member, states chosen from them, and draws of a step per state."""


ASKED, KNOWN, LARGEST_OBSERVATION = 1000, 20_000, 1000
"""The limits for `measure_contrasts_of_dynamics`.

`ASKED` steps of each member are compared with `KNOWN` steps of each member, at most. An observation with more than
`LARGEST_OBSERVATION` numbers would take too long.
"""


COMPARED = 20
"""The most members of a class that are compared with each other, because there are many pairs.

In a larger class, the compared members are spread evenly over the class.
"""


@dataclass(frozen=True)
class Dynamics:
    """The differences between members at the start and after one step, with common random numbers.

    Rows and columns of a matrix are members. Only a compiled class has these numbers, because only its members can be
    put into a given state.
    """

    starts_differ: Float[np.ndarray, "members members"]
    """The share of starts that differ."""
    starts_distance: Float[np.ndarray, "members members"]
    """The mean distance between starts."""
    steps_differ: Float[np.ndarray, "members members"]
    """The share of steps in the row's member after which the column's member would be in another state, or would show
    the state differently."""
    steps_distance: Float[np.ndarray, "members members"]
    """The largest mean distance after a step from the same state, over the states chosen from all members."""
    lipschitz: float
    """The largest Lipschitz constant L of all members."""
    steps: int
    """The number of steps in each member that `steps_differ` is measured on; the smallest number of all members."""

    def of_members(self, numbers: Int[np.ndarray, " some"]) -> "Dynamics":
        """Return the part that belongs to some of the members."""
        some = np.ix_(numbers, numbers)
        return Dynamics(
            self.starts_differ[some],
            self.starts_distance[some],
            self.steps_differ[some],
            self.steps_distance[some],
            self.lipschitz,
            self.steps,
        )


def members_for_dynamics(members: int) -> Int[np.ndarray, " some"]:
    """Return the numbers of the members that are compared, in a class of `members` members."""
    return np.unique(np.linspace(0, members - 1, min(members, COMPARED)).round().astype(int))


def measure_dynamics(
    policy: Policy,
    environment_class: AnyClass,
    horizon: int,
    encoder: RandomEncoder | None,
    units: Float[Array, " features"] | None,
    *,
    key: PRNGKeyArray,
) -> Dynamics | None:
    """Start and step the compared members with common random numbers.

    Return None for a host class, whose members cannot be put into a given state.
    """
    if not isinstance(environment_class, EnvironmentClass):
        return None
    names = [environment_class.names[number] for number in members_for_dynamics(len(environment_class))]
    some = EnvironmentClass({name: environment_class[name] for name in names})
    keys = jax.random.split(jax.random.fold_in(key, DYNAMICS), 6)
    visited = visit_for_coupled_steps(policy, some, horizon=horizon, trajectories=TRAJECTORIES, key=keys[0])
    chosen = choose_coupled_steps(visited, count=STATES, key=keys[1])
    started = start_coupled_members(some, draws=STATES, key=keys[2])
    stepped = step_coupled_members(chosen, some, draws=DRAWS, key=keys[3])
    acted = act_with_coupled_draws(policy, chosen, some, draws=DRAWS, key=keys[4])
    measured = partial(_particles_for_dynamics, encoder=encoder, units=units)
    starts, steps = measured(started.particles), measured(stepped)
    members = range(len(some))
    points, reached = measured(chosen.particles), measured(acted)
    return Dynamics(
        starts_differ=np.asarray(started.differ),
        starts_distance=np.stack(
            [[_distance_for_dynamics(starts[i], starts[j]).mean() for j in members] for i in members]
        ),
        steps_differ=np.asarray(difference_of_coupled_steps(visited, some, key=keys[5])),
        steps_distance=np.stack(
            [[_distance_for_dynamics(steps[:, i], steps[:, j]).mean(axis=-1).max() for j in members] for i in members]
        ),
        lipschitz=max(lipschitz_constant_of_distances(points[i], reached[i]) for i in members),
        steps=int(np.asarray(visited.valid).sum(axis=1).min()),
    )


def measure_contrasts_of_dynamics(
    observations: Float[np.ndarray, "members trajectories time observation"],
    actions: Shaped[np.ndarray, "members trajectories time ..."],
    valid: Bool[np.ndarray, "members trajectories time"],
) -> Float[np.ndarray, "members members"] | None:
    """Measure how well the steps that were sampled tell members apart; ½ means that they do not.

    Return None if observations are too large (images, for example), or if a member has no steps to compare.
    """
    if observations.shape[-1] > LARGEST_OBSERVATION:
        return None
    members = len(observations)
    flat_actions = actions.reshape(*valid.shape, -1) if actions.ndim > 3 else _one_hot_for_dynamics(actions)
    before = np.concatenate([observations, flat_actions], axis=-1)[:, :, :-1]
    change = np.diff(observations, axis=2)
    inside = valid[:, :, 1:]
    before, change = (part / np.where(scale := part[inside].std(axis=0), scale, 1.0) for part in (before, change))
    random = np.random.default_rng(0)

    def some(member: int, half: int, most: int) -> StepSample:
        rows = np.argwhere(inside[member, half::2])
        chosen = rows[random.permutation(len(rows))[:most]]
        return StepSample(*(part[member, half::2][tuple(chosen.T)] for part in (before, change)))

    asked = [some(member, 0, ASKED) for member in range(members)]
    known = [some(member, 1, KNOWN) for member in range(members)]
    if any(not len(one.before) for one in (*asked, *known)):
        return None
    return distances_by_step_contrasts(asked, known)


def _one_hot_for_dynamics(choices: Int[np.ndarray, "*sets"]) -> Float[np.ndarray, "*sets choices"]:
    return np.eye(int(choices.max()) + 1)[choices]


def _particles_for_dynamics(
    features: Shaped[Array, "*sets features"],
    encoder: RandomEncoder | None,
    units: Float[Array, " features"] | None,
) -> Float[np.ndarray, "*sets measured"]:
    """Return particles as they are measured for entropies, but without noise."""
    if encoder is not None:
        features = encode_particles(encoder, features[None], jax.random.key(0)[None], noisy=False)[0]
    return np.asarray(features if units is None else features / units, float)


def _distance_for_dynamics(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.linalg.norm(first - second, axis=-1)
