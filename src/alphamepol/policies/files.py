"""The files that hold policies: safetensors, or zips of Stable-Baselines3."""

import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from alphamepol.environments.image_spaces import Shape, image_space_is_large_enough
from alphamepol.errors import InputError
from alphamepol.files.arrays import fill_with_arrays, seal_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import ActionRange, Memory
from alphamepol.policies.policy import CategoricalPolicy, GaussianPolicy, Policy, SquashedPolicy
from alphamepol.policies.scaling import Scaling

FORMAT = "alphamepol-policy-1"


def save_policy(policy: Policy, path: str | Path) -> None:
    """Write a policy as safetensors, its architecture in the metadata; equal policies give equal files."""
    write_atomically(Path(path), seal_arrays(policy, {"format": FORMAT, "architecture": policy.architecture}))


def released_policy_files() -> dict[str, Path]:
    """The policies that come with the package, by name, e.g. `gridworld-slope/alpha-0.2`: class, then method."""
    package = Path(__file__).parents[1]
    # In a checkout they are among the results, in an installed package beside the code.
    folder = next(
        (one for one in (package / "released", package.parents[1] / "results/policies") if one.is_dir()), None
    )
    found = sorted(folder.glob("*/*.safetensors")) if folder else []
    return {f"{path.parent.name}/{path.stem}": path for path in found}


def load_policy(path: str | Path) -> Policy:
    """Read a policy that `save_policy`, a run or `export` wrote; the file is all it takes, and nothing in it runs.

    Policies that come with the package have names: `load_policy("gridworld-slope/alpha-0.2")`.
    """
    name, path = str(path), Path(path)
    if not path.is_file():
        released = released_policy_files()
        if name not in released:
            raise InputError(
                f"policy: there is no file {path}, and no policy of that name comes with the package, only "
                f"{', '.join(released) or 'none'}"
            )
        path = released[name]
    try:
        if zipfile.is_zipfile(path):
            from alphamepol.policies.stable_baselines3 import read_sb3_zip

            return read_sb3_zip(path)
        header, arrays = unpack_arrays(path)
        if header.get("format") != FORMAT:
            raise ValueError("it holds something else")
        if len(header["architecture"]["hidden"]) > len(arrays):
            raise ValueError("it says that it has more layers than it has")
        policy = fill_with_arrays(_policy_file_template(Architecture(**header["architecture"])), arrays)
        check_numbers_in_policy_file(policy)
        return policy
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, OSError, AttributeError, AssertionError) as error:
        raise InputError(f"policy: {path} cannot be read as a policy ({error})") from error


class Architecture(NamedTuple):
    """The shape of a policy, as its file describes it."""

    kind: str
    observation_size: int
    action_size: int
    hidden: Sequence[int]
    memory: dict[str, Any] | None = None
    scaling: dict[str, Any] | None = None
    image: Sequence[int] | None = None
    actions: dict[str, Any] | None = None


def _policy_file_template(of: Architecture) -> Policy:
    """The shapes of a policy, nothing allocated."""
    kinds: dict[str, Callable[..., Policy]] = {"gaussian": GaussianPolicy, "categorical": CategoricalPolicy}
    if of.kind not in (*kinds, "squashed"):
        raise ValueError(f"its kind is {of.kind!r}, only {', '.join(kinds)} and squashed are known")
    squashed, memory, scaling = of.kind == "squashed", of.memory, of.scaling
    if squashed != (of.actions is not None) or (squashed and (memory or scaling)):
        raise ValueError("a squashed policy has a range of actions, and neither memory nor scaling")

    described = [of.actions] if of.actions else [part["actions"] for part in (memory, scaling) if part]
    applied = read_actions_in_policy_file(described[0], of.kind, of.action_size) if described else ActionRange()
    if any(other != described[0] for other in described):
        raise ValueError("its memory and its scaling are of different actions")
    if squashed and not all(applied.bounded):
        raise ValueError("a squashed policy needs a finite range of actions")

    def build() -> Policy:
        key = jax.random.key(0)
        trunk = Trunk(_image_shape_in_policy_file(of.image, of.observation_size), key=key) if of.image else None
        if squashed:
            return SquashedPolicy(of.observation_size, applied, of.hidden, trunk, key=key)
        remembered = memory and Memory(of.observation_size, applied, memory["recurrent_units"], key=key)
        scaled = scaling and Scaling(of.observation_size, scaling["features"], applied)
        sizes = of.observation_size, of.action_size, of.hidden
        return kinds[of.kind](*sizes, memory=remembered, scaling=scaled, trunk=trunk, key=key)

    return eqx.filter_eval_shape(build)


def _image_shape_in_policy_file(shape: Sequence[int], observation_size: int) -> Shape:
    """The shape of images that a file speaks of. Raises ValueError if its policy cannot see such images."""
    height, width, channels = (int(size) for size in shape)
    found = height, width, channels
    if not image_space_is_large_enough(found) or math.prod(found) != observation_size:
        raise ValueError(f"its images {list(shape)} cannot be seen, or have not {observation_size} numbers")
    return found


def read_actions_in_policy_file(description: dict[str, Any], kind: str, action_size: int) -> ActionRange:
    """The actions that a part of a policy in a file speaks of. Raises ValueError if they are not the policy's."""
    actions = ActionRange.from_description(description)
    sizes = (actions.choices,) if kind == "categorical" else (len(actions.low), len(actions.high))
    if set(sizes) != {action_size} or (kind != "categorical" and actions.choices):
        raise ValueError("its memory, scaling or range is of other actions than its own")
    return actions


def check_numbers_in_policy_file(policy: Policy) -> None:
    """Raise ValueError if a parameter is not finite, or if a policy divides by what is no size."""
    scales = [] if policy.memory is None else [policy.memory.change_scale, policy.memory.action_scale]
    if policy.scaling is not None:
        if not np.all(np.asarray(policy.scaling.variance) >= 0):
            raise ValueError("the variance of its scaling must not be below 0")
        scales += [policy.scaling.deviation, policy.scaling.particle_deviation]
    for scale in scales:
        if not (np.all(np.isfinite(scale)) and np.all(np.asarray(scale) > 0)):
            raise ValueError("what its memory or scaling divides by must be finite and above 0")
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(policy)):
        raise ValueError("its numbers are not all finite")
