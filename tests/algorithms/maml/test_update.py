"""Test MAML against finite differences of NumPy formulas through the inner step, and on a line with two sides."""

from functools import cache
from typing import NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

import alphamepol.algorithms.maml.update as maml
from alphamepol import CMP, make
from alphamepol.algorithms.maml.update import (
    Experience,
    MamlSettings,
    adapt_by_maml_inner_step,
    behaviour_in_maml_update,
    experience_for_maml_update,
    log_probs_in_maml_update,
    maml_outer_step,
)
from alphamepol.algorithms.trust_region import Stepped, TrustRegion
from alphamepol.environments.tasks import Goal, Task
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import ActionRange, Memory
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import CategoricalPolicy, GaussianPolicy

ADAPT = eqx.filter_jit(adapt_by_maml_inner_step)
META_STEP = eqx.filter_jit(maml_outer_step)
EXPERIENCE = eqx.filter_jit(experience_for_maml_update)
SEEN = eqx.filter_jit(lambda policy, observation: policy.distribution(observation))
RATE = 0.1
KINDS = ["gaussian", "categorical"]


def settings(max_kl: float = 1e-2, *, discount: float = 0.9, first_order: bool = False) -> MamlSettings:
    region = TrustRegion(jnp.array(max_kl, float), jnp.array(1e-3, float))
    return MamlSettings(jnp.array(RATE, float), jnp.array(discount, float), region, first_order)


def tiny_policy(kind: str) -> Policy:
    key = jax.random.key(3)
    if kind == "categorical":
        return CategoricalPolicy(2, 3, (4,), key=key)
    policy = GaussianPolicy(2, 2, () if kind == "linear gaussian" else (4,), key=key)
    return eqx.tree_at(lambda policy: policy.log_std, policy, jnp.array([-0.5, 0.2]))


def made_up(kind: str, seed: int) -> Experience:
    """Return two tasks of 3 trajectories of 5 steps, with arbitrary values at steps that are not valid."""
    random = np.random.default_rng(seed)
    valid = np.arange(5) < np.array([[5, 2, 4], [3, 5, 1]])[..., None]
    perceived = np.where(valid[..., None], random.uniform(-1, 1, size=(2, 3, 5, 2)), 9.0)
    advantages = np.where(valid, 3 * random.normal(size=valid.shape), 50.0)
    if kind == "categorical":
        actions = jnp.array(random.integers(0, 3, size=valid.shape))
    else:
        actions = jnp.array(np.where(valid[..., None], random.normal(size=(2, 3, 5, 2)), -7.0), float)
    return Experience(
        jnp.array(perceived, float), actions, jnp.array(advantages, float), jnp.array(valid), jnp.zeros(2)
    )


class Rows(NamedTuple):
    """The valid steps of one task, as NumPy arrays."""

    perceived: np.ndarray
    actions: np.ndarray
    advantages: np.ndarray


def rows_of(samples: Experience) -> list[Rows]:
    """Return the valid steps of each task."""
    perceived, actions, advantages, valid = (
        np.asarray(part) for part in (samples.perceived, samples.actions, samples.advantages, samples.valid)
    )
    perceived, advantages = perceived.astype(float), advantages.astype(float)
    return [Rows(perceived[i][kept], actions[i][kept], advantages[i][kept]) for i, kept in enumerate(valid)]


def flat(policy: Policy) -> np.ndarray:
    """Return the parameters in the order of `ravel_pytree`."""
    return np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(policy)])


class Formulas:
    """The formulas of a policy without memory, in float64. The parameters are one vector, as `flat` returns it."""

    def __init__(self, policy: Policy):
        self.shapes = [leaf.shape for leaf in jax.tree.leaves(policy)]
        self.gaussian = isinstance(policy, GaussianPolicy)
        self.start = flat(policy)

    def parts(self, vector: np.ndarray) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """Return the weights and biases of each layer, and ln σ."""
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes])
        leaves = [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), self.shapes, strict=True)]
        log_std = leaves.pop() if self.gaussian else np.zeros(0)
        return list(zip(leaves[::2], leaves[1::2], strict=True)), log_std

    def run(self, vector: np.ndarray, inputs: np.ndarray) -> list[np.ndarray]:
        """Return the inputs of each layer, and the outputs of the last layer."""
        layers, _ = self.parts(vector)
        seen = [inputs]
        for weight, bias in layers[:-1]:
            seen.append(np.maximum(seen[-1] @ weight.T + bias, 0.0))
        weight, bias = layers[-1]
        return [*seen, seen[-1] @ weight.T + bias]

    def log_probs(self, vector: np.ndarray, rows: Rows) -> np.ndarray:
        outputs = self.run(vector, rows.perceived)[-1]
        if not self.gaussian:
            log_softmax = outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))
            return log_softmax[np.arange(len(outputs)), rows.actions]
        _, log_std = self.parts(vector)
        densities = np.exp(-(((rows.actions - outputs) / np.exp(log_std)) ** 2) / 2) / np.sqrt(2 * np.pi)
        return np.log(densities / np.exp(log_std)).sum(axis=1)

    def reinforce(self, vector: np.ndarray, rows: Rows) -> np.ndarray:
        """Return the gradient of the mean of advantage · ln π: by the outputs in closed form, then layer by layer."""
        layers, log_std = self.parts(vector)
        *seen, outputs = self.run(vector, rows.perceived)
        weights = rows.advantages[:, None] / len(rows.advantages)
        if self.gaussian:
            variance = np.exp(2 * log_std)
            off = rows.actions - outputs
            slopes = weights * off / variance
            by_log_std = np.sum(weights * (off**2 / variance - 1), axis=0)
        else:
            probabilities = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
            slopes = weights * (np.eye(outputs.shape[1])[rows.actions] - probabilities)
            by_log_std = log_std
        gradients = [by_log_std]
        for (weight, _), inputs in zip(reversed(layers), reversed(seen), strict=True):
            gradients += [slopes.sum(axis=0), (slopes.T @ inputs).ravel()]
            slopes = (slopes @ weight) * (inputs > 0)
        return np.concatenate(gradients[::-1])

    def adapted(self, vector: np.ndarray, rows: Rows) -> np.ndarray:
        return vector + RATE * self.reinforce(vector, rows)

    def surrogate(self, old: np.ndarray, new: np.ndarray, rows: Rows) -> float:
        ratios = np.exp(self.log_probs(new, rows) - self.log_probs(old, rows))
        return float(np.mean(ratios * rows.advantages))

    def kl(self, old: np.ndarray, new: np.ndarray, rows: Rows) -> float:
        """Return the mean of KL(old ‖ new)."""
        one, other = (self.run(vector, rows.perceived)[-1] for vector in (old, new))
        if not self.gaussian:
            p, q = (np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True) for outputs in (one, other))
            return float(np.mean(np.sum(p * np.log(p / q), axis=1)))
        s, t = (np.exp(self.parts(vector)[1]) for vector in (old, new))
        return float(np.mean(np.sum(np.log(t / s) + (s**2 + (one - other) ** 2) / (2 * t**2) - 0.5, axis=1)))


class Composed:
    """The surrogate and the KL of (A3), as functions of the parameters before the inner steps."""

    def __init__(self, policy: Policy, before: Experience, after: Experience):
        self.formulas = Formulas(policy)
        self.start = self.formulas.start
        self.tasks = list(zip(rows_of(before), rows_of(after), strict=True))

    def surrogate(self, vector: np.ndarray) -> float:
        return self._mean(self.formulas.surrogate, vector)

    def kl(self, vector: np.ndarray) -> float:
        return self._mean(self.formulas.kl, vector)

    def _mean(self, of_task, vector: np.ndarray) -> float:
        adapted = self.formulas.adapted
        found = [of_task(adapted(self.start, before), adapted(vector, before), after) for before, after in self.tasks]
        return float(np.mean(found))


def slopes_of(function, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Return the gradient by central differences."""
    return np.array([(function(at + step * one) - function(at - step * one)) / (2 * step) for one in np.eye(len(at))])


def bends_of(function, at: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """Return the Hessian by central differences."""
    units, found = step * np.eye(len(at)), np.zeros((len(at), len(at)))
    for i, one in enumerate(units):
        for j, other in enumerate(units[: i + 1]):
            same = function(at + one + other) + function(at - one - other)
            found[i, j] = found[j, i] = (same - function(at + one - other) - function(at - one + other)) / (4 * step**2)
    return found


class Ingredients(NamedTuple):
    """The inputs that `maml_outer_step` gives to the trust-region step, as a vector, a matrix and two numbers."""

    gradient: np.ndarray
    fisher: np.ndarray
    kl: float
    improvement: float
    """The KL and the improvement are those of another policy, whose parameters differ by `CANDIDATE`."""


CANDIDATE = 0.05 * np.random.default_rng(8).normal(size=100)


@cache
def ingredients(kind: str, first_order: bool) -> tuple[Ingredients, Composed]:
    """Return the ingredients, and the functions whose derivatives they should be."""
    policy, before, after = tiny_policy(kind), made_up(kind, 1), made_up(kind, 2)
    parameters, as_policy = ravel_pytree(policy)
    seen = {}

    def remember(policy, gradient, fisher_product, judge, region):
        columns = jax.vmap(lambda vector: ravel_pytree(fisher_product(as_policy(vector)))[0])(jnp.eye(parameters.size))
        judged = judge(as_policy(parameters + CANDIDATE[: parameters.size]))
        seen["found"] = ravel_pytree(gradient)[0], columns.T, *judged
        return policy, Stepped(*(jnp.zeros(()),) * 3)

    @jax.jit
    def run(policy, before, after):
        maml_outer_step(policy, before, after, settings(first_order=first_order))
        return seen["found"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maml, "trust_region_step", remember)
        gradient, fisher, kl, improvement = run(policy, before, after)
    assert gradient.dtype == jnp.float64
    found = Ingredients(np.asarray(gradient), np.asarray(fisher), float(kl), float(improvement))
    return found, Composed(policy, before, after)


@pytest.mark.parametrize("kind", KINDS)
def test_the_outer_step_is_made_of_derivatives_through_the_inner_step(kind: str) -> None:
    with jax.enable_x64(True):
        found, expected = ingredients(kind, first_order=False)
    gradient = slopes_of(expected.surrogate, expected.start)
    np.testing.assert_allclose(found.gradient, gradient, rtol=0, atol=1e-8 * np.abs(gradient).max())

    fisher = bends_of(expected.kl, expected.start)
    np.testing.assert_allclose(found.fisher, fisher, rtol=0, atol=1e-6 * np.abs(fisher).max())
    np.testing.assert_allclose(found.fisher, found.fisher.T, rtol=0, atol=1e-14 * np.abs(fisher).max())
    eigenvalues = np.linalg.eigvalsh(found.fisher)
    assert eigenvalues.min() > -1e-14 * eigenvalues.max()

    # The KL and the improvement, by which a step is judged, need no derivatives.
    candidate = expected.start + CANDIDATE[: expected.start.size]
    improvement = expected.surrogate(candidate) - expected.surrogate(expected.start)
    assert (found.kl, found.improvement) == pytest.approx((expected.kl(candidate), improvement), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_order_variant_takes_the_inner_step_as_a_shift(kind: str) -> None:
    """Its derivatives are those at the adapted parameters. Its steps are judged as in the full variant."""
    with jax.enable_x64(True):
        whole, _ = ingredients(kind, first_order=False)
        found, expected = ingredients(kind, first_order=True)
    formulas = expected.formulas
    tasks = [(formulas.adapted(expected.start, before), after) for before, after in expected.tasks]
    # All ratios are 1 here, so that the gradient of the surrogate is that of advantage · ln π.
    gradient = np.mean([formulas.reinforce(adapted, after) for adapted, after in tasks], axis=0)
    np.testing.assert_allclose(found.gradient, gradient, rtol=0, atol=1e-12)

    def shifted_kl(shift):
        return np.mean([formulas.kl(adapted, adapted + shift, after) for adapted, after in tasks])

    fisher = bends_of(shifted_kl, 0 * expected.start)
    np.testing.assert_allclose(found.fisher, fisher, rtol=0, atol=1e-6 * np.abs(fisher).max())

    for ours, other in ((found.gradient, whole.gradient), (found.fisher, whole.fisher)):
        assert np.linalg.norm(ours - other) > 0.02 * np.linalg.norm(other)
    assert (found.kl, found.improvement) == pytest.approx((whole.kl, whole.improvement), rel=1e-12)


@pytest.mark.parametrize("kind", ["linear gaussian", *KINDS])
def test_the_inner_step_is_one_of_reinforce(kind: str) -> None:
    with jax.enable_x64(True):
        policy, samples = tiny_policy(kind), made_up(kind, 4)
        for task, rows in enumerate(rows_of(samples)):
            adapted = ADAPT(policy, jax.tree.map(lambda leaf, task=task: leaf[task], samples), settings())
            formulas = Formulas(policy)
            found = flat(adapted)
            np.testing.assert_allclose(found, formulas.adapted(formulas.start, rows), rtol=0, atol=1e-13)
            assert np.abs(found - formulas.start).max() > 0.01


def test_a_recurrent_policy_goes_along_its_samples() -> None:
    """The hidden values at a step depend on this step and on all earlier steps of the same trajectory."""
    memory = Memory(1, ActionRange(0, (-1.0,), (1.0,)), 3, key=jax.random.key(4))
    policy = GaussianPolicy(1, 1, (4,), -0.5, memory, key=jax.random.key(3))
    perceived = jax.random.normal(jax.random.key(5), (2, 4, memory.inputs))
    nothing = jnp.zeros((2, 4))
    samples = Experience(perceived, nothing[..., None] + 0.3, nothing, nothing == 0, jnp.zeros(()))

    @jax.jit
    def means_along(steps):
        hidden, means = jnp.zeros(3), []
        for inputs in steps:
            hidden = memory.listen(inputs, hidden)
            means.append(policy.network(jnp.concatenate([inputs, hidden])))
        return jnp.stack(means)

    found = jax.jit(behaviour_in_maml_update)(policy, samples)
    for i in range(2):
        np.testing.assert_allclose(found.mean[i], means_along(perceived[i]), rtol=1e-4, atol=1e-5)
    standardised = (0.3 - np.asarray(found.mean[..., 0])) / np.exp(-0.5)
    expected = -0.5 * standardised**2 + 0.5 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(jax.jit(log_probs_in_maml_update)(found, samples), expected, rtol=1e-4, atol=1e-5)


def test_a_policy_of_images_sees_each_of_its_samples() -> None:
    policy = CategoricalPolicy(49, 3, (4,), trunk=Trunk((7, 7, 1), key=jax.random.key(4)), key=jax.random.key(3))
    perceived = jax.random.randint(jax.random.key(5), (2, 3, 49), 0, 256).astype(jnp.uint8)
    nothing = jnp.zeros((2, 3))
    samples = Experience(perceived, nothing.astype(int), nothing, nothing == 0, jnp.zeros(()))
    found = jax.jit(behaviour_in_maml_update)(policy, samples)
    for row in np.ndindex(2, 3):
        np.testing.assert_allclose(found.logits[row], SEEN(policy, perceived[row]).logits, rtol=1e-4, atol=1e-5)


class Line(CMP):
    """A point on a line that starts at 0. The action moves it by at most 1. An episode ends when it leaves the line."""

    half_length: Array = eqx.field(converter=jnp.asarray, default=np.inf)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    @property
    def entropy_ceiling(self) -> float:
        return np.inf

    def reset(self, *, key):
        return jnp.zeros(1)

    def step(self, state, action, *, key):
        return state + jnp.clip(action, -1.0, 1.0)

    def observe(self, state):
        return state

    def features(self, state):
        return state

    def ended(self, state):
        return jnp.abs(state[0]) > self.half_length


class Side(Task):
    """A task with the reward `side` (+1 or −1) times the position, plus `more`. It also sets the ends of the line."""

    side: Array = eqx.field(converter=jnp.asarray)
    more: Array = eqx.field(converter=jnp.asarray, default=0.0)
    half_length: Array = eqx.field(converter=jnp.asarray, default=np.inf)

    def set_up(self, member):
        return Line(self.half_length)

    def reward(self, member, state, action, reached):
        return self.side * reached[0] + self.more

    def ended(self, member, reached):
        return jnp.array(False)

    def describe(self):
        return [float(self.side), float(self.more), float(self.half_length)]


def line_policy() -> GaussianPolicy:
    return GaussianPolicy(1, 1, (8,), -0.5, key=jax.random.key(0))


def test_advantages_are_normalised_returns_less_the_baseline() -> None:
    """A direct loop computes the expected returns. Some of the trajectories leave the line, others do not."""
    task, discount = Side(-1.0, half_length=2.0), 0.8
    samples = EXPERIENCE(
        line_policy(), Line(), task, jnp.array(discount), trajectories=20, horizon=8, key=jax.random.key(1)
    )
    perceived, actions, valid = (np.asarray(part) for part in (samples.perceived, samples.actions, samples.valid))
    reached = perceived[..., 0] + np.clip(actions[..., 0], -1.0, 1.0)
    returns, expected_valid, earned = np.zeros((20, 8)), np.zeros((20, 8), bool), []
    for i in range(20):
        off = np.flatnonzero(np.abs(reached[i]) > 2.0)
        steps = off[0] + 1 if off.size else 8
        expected_valid[i, :steps] = True
        for t in range(steps):
            returns[i, t] = sum(discount ** (later - t) * -reached[i, later] for later in range(t, steps))
        earned.append(-reached[i, :steps].sum())
    assert 0 < expected_valid.all(axis=1).sum() < 20
    np.testing.assert_array_equal(valid, expected_valid)
    assert float(samples.mean_return) == pytest.approx(np.mean(earned), rel=1e-5)

    x, t = perceived[valid][:, 0].astype(float), np.nonzero(valid)[1] / 100
    features = np.column_stack([x, x**2, t, t**2, t**3, np.ones_like(t)])
    left = returns[valid] - features @ np.linalg.lstsq(features, returns[valid], rcond=None)[0]
    np.testing.assert_allclose(samples.advantages[samples.valid], left / left.std(), atol=2e-4)


def test_advantages_in_a_gridworld_have_mean_0_and_deviation_1_over_the_valid_steps() -> None:
    """Episodes that reach the goal end there."""
    policy = GaussianPolicy(2, 2, (8,), -1.5, key=jax.random.key(0))
    samples = EXPERIENCE(
        policy,
        make("gridworld-slope")[1],
        Goal([-0.5, 0.5], 0.2),
        jnp.array(0.99),
        trajectories=12,
        horizon=25,
        key=jax.random.key(1),
    )
    valid, advantages = np.asarray(samples.valid), np.asarray(samples.advantages, float)
    lengths = valid.sum(axis=1)
    assert 0 < np.sum(lengths < 25) < 12
    np.testing.assert_array_equal(valid, np.arange(25) < lengths[:, None])
    # Each episode that ended early has the return 1. One more may have ended with its last step.
    ended = np.sum(lengths < 25)
    assert 12 * float(samples.mean_return) in (pytest.approx(ended), pytest.approx(ended + 1))
    assert np.mean(advantages[valid]) == pytest.approx(0.0, abs=1e-4)
    assert np.std(advantages[valid]) == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_allclose(advantages[~valid], 0.0, atol=1e-5)


@pytest.mark.parametrize("worth", [0.0, 1.0])
def test_where_there_is_nothing_to_learn_the_policy_stays_as_it_is(worth: float) -> None:
    """There is no reward, or the same reward at each step. Without discount, the baseline predicts both exactly."""
    policy = line_policy()
    samples = EXPERIENCE(
        policy, Line(), Side(0.0, worth), jnp.array(1.0), trajectories=20, horizon=8, key=jax.random.key(1)
    )
    np.testing.assert_array_equal(samples.advantages, 0.0)
    assert float(samples.mean_return) == 8 * worth
    adapted = ADAPT(policy, samples, settings())
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), samples)
    stepped, numbers = META_STEP(policy, stacked, stacked, settings())
    for one in (adapted, stepped):
        np.testing.assert_array_equal(flat(one), flat(policy))
    assert [float(number) for number in numbers] == [0, 0, 0]


def sampled_for_both_sides(policy: Policy, chosen: MamlSettings, trajectories: int, horizon: int, *, key):
    """Return the samples of both tasks that MAML needs: with the policy, then with the adapted policy of each task."""
    sides = Side(jnp.array([1.0, -1.0]), jnp.zeros(2), jnp.full(2, jnp.inf))

    def one_task(side, key):
        first, second = jax.random.split(key)
        sizes = {"trajectories": trajectories, "horizon": horizon}
        before = experience_for_maml_update(policy, Line(), side, chosen.discount, key=first, **sizes)
        after = experience_for_maml_update(
            adapt_by_maml_inner_step(policy, before, chosen), Line(), side, chosen.discount, key=second, **sizes
        )
        return before, after

    return jax.vmap(one_task)(sides, jax.random.split(key))


SAMPLED = eqx.filter_jit(sampled_for_both_sides)


@pytest.mark.parametrize("max_kl", [1e-4, 1e-2, 0.5])
def test_an_accepted_step_keeps_the_kl_and_improves_the_surrogate(max_kl: float) -> None:
    """The test computes the KL and the surrogate again in float64, through the inner steps."""
    policy = line_policy()
    before, after = SAMPLED(policy, settings(), 20, 8, key=jax.random.key(1))
    stepped, (kl, gained, fraction) = META_STEP(policy, before, after, settings(max_kl))
    anew = Composed(policy, before, after)
    there = flat(stepped)
    improvement = anew.surrogate(there) - anew.surrogate(anew.start)
    assert 0 < anew.kl(there) < max_kl
    assert improvement > 0
    assert float(kl) == pytest.approx(anew.kl(there), rel=0.01, abs=1e-7)
    assert float(gained) == pytest.approx(improvement, rel=0.01, abs=1e-6)
    assert np.log2(float(fraction)) in range(-9, 1)


def test_one_inner_step_comes_to_lead_to_the_right_side() -> None:
    """No policy is good at both tasks: its two returns add up to 0, however it is trained.

    Full steps to the rewarded side give a return of 1 + 2 + … + 8 = 36.
    """
    policy, chosen = line_policy(), settings(discount=1.0)
    returns = []
    for key in jax.random.split(jax.random.key(1), 40):
        before, after = SAMPLED(policy, chosen, 20, 8, key=key)
        policy, _ = META_STEP(policy, before, after, chosen)
        returns.append([np.mean(samples.mean_return) for samples in (before, after)])
    before, after = np.transpose(returns)
    assert np.mean(before[-10:]) == pytest.approx(0.0, abs=1.0)
    assert np.mean(after[:3]) < 10
    assert np.mean(after[-10:]) > 18
