"""Test that exported files act like the policy, by the programs of docs/policy-files.md as they stand."""

import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from alphamepol.cli.main import main
from alphamepol.policies.files import save_policy
from alphamepol.policies.memory import ActionRange
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import CategoricalPolicy, GaussianPolicy, SquashedPolicy
from alphamepol.policies.shape import PolicyShape, fresh_policy
from alphamepol.runs.sources import load_policy
from alphamepol.settings.policy import PolicySettings

PAGE = (Path(__file__).parents[2] / "docs/policy-files.md").read_text()
READ, GAUSSIAN, CATEGORICAL, SQUASHED, LOOP, RANGE, PERCEIVE, LAST, RECURRENT, IMAGES, SEE, STRETCH = re.findall(
    r"```python\n(.*?)```", PAGE, re.DOTALL
)
HEADS = {"gaussian": GAUSSIAN, "categorical": CATEGORICAL, "squashed": SQUASHED}
STEPS = 6
VECTOR = ActionRange(0, (-3.0, 0.5, -np.inf, -1e9, 2.0), (1.0, 2.0, np.inf, 3e9, 2.0))
"""Actions whose ranges are not ±1: two are finite, one is infinite, one is huge, and one has no width."""
MEASURED = np.array([5.0, -2.0, -40.0]), np.array([0.5, 1.0, 9.0])
"""The mean and the deviation of observations that are vectors."""


def policy_of(kind: str, memory: str = "none", image: tuple[int, int, int] | None = None, *, scaled: bool) -> Policy:
    """Build a policy whose scales are random and far from those of an untrained policy."""
    size = int(np.prod(image)) if image else 3
    actions = ActionRange(4) if kind == "categorical" else VECTOR
    if kind == "squashed":
        return SquashedPolicy(3, ActionRange(0, (-3.0, 0.5), (1.0, 2.0)), (16, 8), key=jax.random.key(0))
    settings = PolicySettings((16, 8), -0.7, memory, 5, normalise=scaled)
    policy = fresh_policy(PolicyShape(kind, size, actions.size, actions, image), settings, 2, key=jax.random.key(1))
    random = np.random.default_rng(2)
    if memory != "none":
        measured = random.uniform(0.5, 3.0, size), random.uniform(0.1, 1.0, actions.size)
        where = lambda policy: (policy.memory.change_scale, policy.memory.action_scale)  # noqa: E731
        policy = eqx.tree_at(where, policy, tuple(jnp.array(part, jnp.float32) for part in measured))
    if scaled:
        mean, deviation = (random.uniform(50, 200, size), random.uniform(20, 60, size)) if image else MEASURED
        variance = np.where(np.arange(size) == 1, 0.0, deviation**2)  # the second component has never changed
        where = lambda policy: (policy.scaling.mean, policy.scaling.variance)  # noqa: E731
        policy = eqx.tree_at(where, policy, (jnp.array(mean, jnp.float32), jnp.array(variance, jnp.float32)))
    return policy


class Played:
    """An environment with random observations. It keeps what a program sees, what it computes, and how it acts."""

    def __init__(self, policy: Policy, names: dict):
        random = np.random.default_rng(3)
        if policy.trunk is None:
            mean, deviation = (0.0, 1.0) if policy.scaling is None else MEASURED
            self.observations = random.normal(mean, deviation, (STEPS + 1, 3)).astype(np.float32)
        else:
            self.observations = random.integers(0, 256, (STEPS + 1, *policy.trunk.shape), np.uint8)
        self.names, self.distributions, self.actions = names, [], []

    def reset(self, seed: int):
        return self.observations[0], {}

    def step(self, action: np.ndarray):
        self.distributions.append(self.names["distribution"])
        self.actions.append(action)
        return self.observations[len(self.actions)], 0.0, False, len(self.actions) == STEPS, {}


def play(policy: Policy, parts: list[str], monkeypatch) -> Played:
    """Run a program, which is made of parts of the page, in an environment that `gymnasium.make` returns."""
    names: dict = {}
    env = Played(policy, names)
    monkeypatch.setattr("gymnasium.make", lambda _: env)
    torch.manual_seed(0)
    exec(compile("\n".join(parts), "policy-files.md", "exec"), names)
    assert len(env.actions) == STEPS
    for name in names["weights"]:  # the tables of the page name every array and every field
        assert f"`{re.sub(r'layers.[0-9]', 'layers.N', re.sub(r'filters.[0-9]', 'filters.0', name))}`" in PAGE
    for field in names["header"]:
        assert f"`architecture.{field}`" in PAGE
    return env


def program_for(policy: Policy) -> list[str]:
    """Return the parts of the page that act with a file of this policy, as the page names them."""
    parts = [READ, RANGE, *([IMAGES] if policy.trunk else []), HEADS[policy.kind]]
    if policy.scaling is not None:
        parts += [SEE, *([STRETCH] if policy.kind == "gaussian" else [])]
    if policy.memory is None:
        return [*parts, LOOP]
    return [*parts, PERCEIVE, LAST if policy.memory.kind == "last" else RECURRENT]


def check_that_it_acts_alike(policy: Policy, env: Played) -> None:
    """Compare the distributions of the program with those of the policy, which remembers the program's actions."""

    @jax.jit
    def follow(observation, recollection, action):
        outputs, hidden = policy._run(observation, recollection)
        remembered = policy.memory and policy.memory.remember(policy._scaled(observation), action, hidden)
        if isinstance(policy, CategoricalPolicy):
            return (policy.probabilities(observation, recollection),), remembered
        if isinstance(policy, GaussianPolicy):
            return (policy.mean(observation, recollection), jnp.exp(policy.head(outputs).log_std)), remembered
        return (policy.median(observation), jnp.exp(policy.head(outputs).normal.log_std)), remembered

    recollection, answers = policy.begin(), []
    for observation, distribution, action in zip(env.observations[:-1], env.distributions, env.actions, strict=True):
        if isinstance(policy, CategoricalPolicy):
            found = (distribution.probs,)
        elif isinstance(policy, GaussianPolicy):
            found = distribution.mean, distribution.stddev
        else:
            normal, (squash, stretch) = distribution.base_dist, distribution.transforms
            found = stretch(squash(normal.mean)), normal.stddev
        expected, recollection = follow(observation, recollection, action)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
        answers.append(expected[0])
    assert np.all(np.std(answers, axis=0) > 0.01)  # the policy acts differently at each step, so that errors show


@pytest.mark.parametrize(
    ("kind", "memory", "image"),
    [
        ("gaussian", "none", None),
        ("gaussian", "last", None),
        ("gaussian", "recurrent", None),
        ("categorical", "none", None),
        ("categorical", "last", None),
        ("categorical", "recurrent", None),
        ("gaussian", "last", (3, 8, 9)),
        ("categorical", "none", (9, 8, 3)),
    ],
)
def test_the_documented_program_acts_with_exported_and_other_files(kind, memory, image, tmp_path, monkeypatch) -> None:
    """An exported file needs no scaling, unless the policy scales images. A file of a run needs it."""
    monkeypatch.chdir(tmp_path)
    policy = policy_of(kind, memory, image, scaled=True)
    save_policy(policy, "policy.safetensors")
    check_that_it_acts_alike(policy, play(policy, program_for(policy), monkeypatch))
    if image is None:
        with pytest.raises(AssertionError, match="export the policy first"):
            play(policy, [part for part in program_for(policy) if part not in (SEE, STRETCH)], monkeypatch)
    main(["export", "policy.safetensors", "--to", "safetensors", "policy.safetensors"])
    exported = load_policy("policy.safetensors")
    assert (exported.scaling is None) == (image is None)
    check_that_it_acts_alike(policy, play(policy, program_for(exported), monkeypatch))


@pytest.mark.parametrize(
    ("kind", "memory", "image"), [("categorical", "recurrent", (7, 7, 3)), ("squashed", "none", None)]
)
def test_the_documented_program_acts_with_policies_without_scaling(kind, memory, image, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = policy_of(kind, memory, image, scaled=False)
    save_policy(policy, "policy.safetensors")
    check_that_it_acts_alike(policy, play(policy, program_for(policy), monkeypatch))
