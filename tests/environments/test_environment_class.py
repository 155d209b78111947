"""Test classes of environments: their distribution, the access to members, and the inputs that are refused."""

import math
import re
from functools import cache

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import EnvironmentClass, check_class_probabilities, draw_members_of_class
from alphamepol.environments.gridworld.gridworld import Gridworld
from alphamepol.environments.make import make
from alphamepol.errors import InputError

pytestmark = pytest.mark.quick


class Line(CMP):
    """A point that moves on a line of a given length: the smallest member that one can write."""

    length: Float[Array, ""]
    largest_step: Float[Array, ""]

    def __init__(self, length: float, largest_step: float = 1.0):
        self.length = jnp.array(length)
        self.largest_step = jnp.array(largest_step)

    @property
    def observation_space(self) -> gymnasium.Space:
        return gymnasium.spaces.Box(0.0, float(self.length), (1,), np.float32)

    @property
    def action_space(self) -> gymnasium.Space:
        return gymnasium.spaces.Box(-float(self.largest_step), float(self.largest_step), (1,), np.float32)

    @property
    def entropy_ceiling(self) -> float:
        return math.log(float(self.length))

    def reset(self, *, key: PRNGKeyArray) -> Float[Array, "1"]:
        return jax.random.uniform(key, (1,), maxval=self.length)

    def step(self, state: Float[Array, "1"], action: Float[Array, "1"], *, key: PRNGKeyArray) -> Float[Array, "1"]:
        return jnp.clip(state + action, 0.0, self.length)

    def observe(self, state: Float[Array, "1"]) -> Float[Array, "1"]:
        return state

    def features(self, state: Float[Array, "1"]) -> Float[Array, "1"]:
        return state

    def ended(self, state: Float[Array, "1"]) -> Bool[Array, ""]:
        return jnp.array(False)


@cache
def three() -> EnvironmentClass[Gridworld]:
    slopes = {"level": None, "uphill": "north", "downhill": "south"}
    members = {name: Gridworld("..\n..", slope=slope, slope_mean=0.1) for name, slope in slopes.items()}
    return EnvironmentClass(members, [0.5, 0.3, 0.2], name="hills")


# ---------------------------------------------------------------- names and probabilities


def test_names_and_probabilities_are_kept_in_order():
    assert three().names == ("level", "uphill", "downhill")
    assert three().probabilities == (0.5, 0.3, 0.2)
    assert three().name == "hills"
    assert len(three()) == 3


def test_probabilities_are_uniform_unless_given():
    uniform = EnvironmentClass({name: Line(1.0) for name in "abcd"})
    assert uniform.probabilities == (0.25, 0.25, 0.25, 0.25)
    assert uniform.name == "custom"


@pytest.mark.parametrize(
    ("probabilities", "sentence"),
    [
        ([0.5, 0.5], "0.5 0.5 was given; one number per member is needed (level, uphill, downhill)"),
        ([0.25, 0.25, 0.25, 0.25], "one number per member is needed"),
        ([], "one number per member is needed"),
        ([0.6, 0.6, -0.2], "0.6 0.6 -0.2 was given; each must be between 0 and 1"),
        ([0.5, 0.5, math.nan], "0.5 0.5 nan was given; each must be between 0 and 1"),
        ([0.5, 0.5, math.inf], "each must be between 0 and 1"),
        ([0.5, 0.5, 0.5], "0.5 0.5 0.5 sum to 1.5; they must sum to 1"),
        ([0.0, 0.0, 0.0], "they must sum to 1"),
    ],
    ids=["too few", "too many", "none", "negative", "NaN", "infinite", "sum", "zeros"],
)
def test_what_is_no_distribution_is_refused(probabilities, sentence):
    with pytest.raises(InputError, match=f"probabilities: .*{re.escape(sentence)}"):
        three().with_probabilities(probabilities)
    with pytest.raises(InputError, match=f"probabilities: .*{re.escape(sentence)}"):
        check_class_probabilities(probabilities, three().names)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any))
@settings(deadline=None, derandomize=True)
def test_any_distribution_is_accepted_in_spite_of_rounding(weights):
    probabilities = [weight / sum(weights) for weight in weights]
    names = [f"member {i}" for i in range(len(weights))]
    assert check_class_probabilities(probabilities, names) == tuple(probabilities)


def test_with_probabilities_keeps_the_members():
    other = three().with_probabilities([0.0, 0.0, 1.0])
    assert other.probabilities == (0.0, 0.0, 1.0)
    assert three().probabilities == (0.5, 0.3, 0.2)
    assert (other.name, other.names) == ("hills", three().names)
    assert eqx.tree_equal(other.members, three().members)


# ---------------------------------------------------------------- draw


@pytest.mark.parametrize("class_name", ["gridworld-slope", "multigrid", "gridworld-counterexample"])
def test_members_are_drawn_as_often_as_they_are_probable(class_name):
    environment_class = make(class_name)
    drawn = np.asarray(draw_members_of_class(environment_class.probabilities, 20_000, key=jax.random.key(1)))
    counts = np.bincount(drawn, minlength=len(environment_class))
    assert len(counts) == len(environment_class)
    assert scipy.stats.chisquare(counts, 20_000 * np.array(environment_class.probabilities)).pvalue > 0.001


@pytest.mark.parametrize("probabilities", [[0.0, 0.7, 0.3], [0.7, 0.0, 0.3], [0.7, 0.3, 0.0], [0.0, 1.0, 0.0]])
def test_a_member_without_probability_is_never_drawn(probabilities):
    drawn = draw_members_of_class(probabilities, 100_000, key=jax.random.key(2))
    assert set(np.unique(drawn)) == set(np.flatnonzero(probabilities))


def test_draws_are_those_of_the_key():
    first, again, other = (
        np.asarray(draw_members_of_class(three().probabilities, 50, key=jax.random.key(seed))) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# ---------------------------------------------------------------- one member


def test_a_member_is_reached_by_name_and_by_number():
    for number, name in enumerate(three().names):
        assert three().index(name) == number
        assert eqx.tree_equal(three()[number], three()[name])
    assert eqx.tree_equal(three()["downhill"], Gridworld("..\n..", slope="south", slope_mean=0.1))
    np.testing.assert_array_equal(three()["uphill"].slope_direction, [0, 1])


def test_the_number_may_be_traced():
    multigrid = make("multigrid")
    numbers = jnp.array([9, 0, 4, 4])
    gathered = eqx.filter_jit(jax.vmap(lambda number: multigrid[number].walls))(numbers)
    np.testing.assert_array_equal(gathered, jnp.stack([multigrid[int(i)].walls for i in numbers]))
    one = eqx.filter_jit(lambda environment_class, number: environment_class[number])(multigrid, jnp.array(3))
    assert eqx.tree_equal(one, multigrid["MG3"])


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"member: class hills has no member 'uphil', only level, .*mean 'uphill'\?"):
        three()["uphil"]
    with pytest.raises(InputError, match=r"only level, uphill, downhill$"):
        three()["zzz"]


@pytest.mark.parametrize("number", [3, 100, -1])
def test_a_number_out_of_range_is_refused(number):
    with pytest.raises(InputError, match=f"member: {number} was given; class hills has members 0 to 2"):
        three()[number]


# ---------------------------------------------------------------- members that do not fit together


def test_a_member_of_ones_own_makes_a_class():
    lines = EnvironmentClass({"first": Line(2.0), "second": Line(2.0)}, [0.9, 0.1])
    np.testing.assert_array_equal(lines.members.length, [2.0, 2.0])
    reached = lines["second"].step(jnp.array([1.5]), jnp.array([1.0]), key=jax.random.key(0))
    np.testing.assert_array_equal(reached, [2.0])


def test_a_class_needs_a_member():
    with pytest.raises(InputError, match="members: a class needs at least one member"):
        EnvironmentClass({})


def test_members_of_different_types_are_refused():
    with pytest.raises(InputError, match=r"members: 'line' \(Line\) and 'grid' \(Gridworld\) differ in structure"):
        EnvironmentClass({"grid": Gridworld("..\n.."), "line": Line(1.0)})


def test_members_with_fields_of_different_shapes_are_refused():
    with pytest.raises(InputError, match=r"'big' and 'small' differ in the shape of .walls: \(3, 3\) and \(2, 2\)"):
        EnvironmentClass({"small": Gridworld("..\n.."), "big": Gridworld("...\n...\n...")})


def test_members_with_different_spaces_are_refused():
    with pytest.raises(InputError, match=r"'long' and 'short' differ in observation_space: .*2\.0.*1\.0"):
        EnvironmentClass({"short": Line(1.0), "long": Line(2.0)})
    with pytest.raises(InputError, match=r"'fast' and 'slow' differ in action_space: .*0\.2.*0\.1"):
        EnvironmentClass({"slow": Line(1.0, 0.1), "fast": Line(1.0, 0.2)})
