"""Policy files: safetensors files, or zip files of Stable-Baselines3."""

import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from alphamepol.environments.image_spaces import Shape, image_space_is_large_enough
from alphamepol.errors import InputError
from alphamepol.files.arrays import PackedArray, check_packed_arrays, fill_with_arrays, seal_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import value_has_type
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import ActionRange, Memory
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import CategoricalPolicy, GaussianPolicy, SquashedPolicy
from alphamepol.policies.scaling import Scaling

FORMAT = "alphamepol-policy-1"
FORMAT_OF_SEVERAL = "alphamepol-policies-1"


def save_policy(policy: Policy, path: str | Path) -> None:
    """Write a policy to a safetensors file.

    The file holds the parameters by name, and the architecture in its metadata. `load_policy` needs nothing else to
    read the policy. Equal policies give equal files.

    **Arguments**

    - `policy`: the policy of one seed.
    - `path`: the file to write, usually with the suffix `.safetensors`. An existing file is replaced, and missing
      folders are made.

    **Example**

    ```python
    import alphamepol as am
    import jax
    import numpy as np

    policy = am.GaussianPolicy(2, 2, hidden=(8, 8), key=jax.random.key(0))
    am.save_policy(policy, "policies/mine.safetensors")
    loaded = am.load_policy("policies/mine.safetensors")
    assert np.array_equal(loaded.mean(np.zeros(2)), policy.mean(np.zeros(2)))
    ```
    """
    write_atomically(Path(path), seal_arrays(policy, {"format": FORMAT, "architecture": policy.architecture}))


def released_policy_files() -> dict[str, Path]:
    """Return the files of the released policies, which come with the package, by name.

    A name consists of the class and the method, e.g. `gridworld-slope/alpha-0.2`.
    """
    package = Path(__file__).parents[1]
    # In an installed package the policies are beside the code, in a checkout they are among the results.
    folder = next(
        (one for one in (package / "released", package.parents[1] / "results/policies") if one.is_dir()), None
    )
    found = sorted(folder.glob("*/*.safetensors")) if folder else []
    return {f"{path.parent.name}/{path.stem}": path for path in found}


def read_policy_file(path: str | Path) -> Policy:
    """Read a policy from a safetensors file or a zip file of Stable-Baselines3, or read a released policy by its name.

    Raises an `InputError` if there is no such file or released policy, or if the file cannot be read as a policy.
    """
    name, path = str(path), Path(path)
    if not path.is_file():
        released = released_policy_files()
        if name not in released:
            raise InputError(
                f"policy: there is no file {path}, and no released policy has this name; the released policies are "
                f"{', '.join(released) or 'none'}"
            )
        path = released[name]
    try:
        if zipfile.is_zipfile(path):
            from alphamepol.policies.stable_baselines3 import read_sb3_zip

            return read_sb3_zip(path)
        header, arrays = unpack_arrays(path, _check_policy_file, finite=True)
        policy = fill_with_arrays(_described_policy_template(header, arrays), arrays)
        check_numbers_in_policy_file(policy)
        return policy
    except InputError:
        raise
    except Exception as error:  # a foreign file can make the libraries that read it raise anything
        raise InputError(f"policy: {path} cannot be read as a policy ({error})") from error


def _check_policy_file(header: dict[str, Any], packed: Mapping[str, PackedArray]) -> None:
    if header.get("format") != FORMAT:
        raise ValueError("it holds something other than a policy")
    check_packed_arrays(_described_policy_template(header, packed), packed)


def save_policies_together(policies: Mapping[str, Policy], path: Path) -> None:
    """Write policies of equal architecture to one safetensors file, by name."""
    rows = list(policies.values())
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *rows)
    header = {"format": FORMAT_OF_SEVERAL, "architecture": rows[0].architecture, "names": list(policies)}
    write_atomically(path, seal_arrays(stacked, header))


def load_policies_together(path: Path) -> dict[str, Policy]:
    """Read the policies of a file that `save_policies_together` wrote, by name.

    Raises an `InputError` if the file cannot be read.
    """
    try:
        header, arrays = unpack_arrays(path, _check_file_of_several_policies, finite=True)
        names: list[str] = header["names"]
        template = _described_policy_template(header, arrays)
        rows = [{of: array[number] for of, array in arrays.items()} for number in range(len(names))]
        found = {name: fill_with_arrays(template, row) for name, row in zip(names, rows, strict=True)}
        for policy in found.values():
            check_numbers_in_policy_file(policy)
        return found
    except Exception as error:  # a foreign file can make the libraries that read it raise anything
        raise InputError(f"policy: {path} cannot be read as policies ({error})") from error


def _check_file_of_several_policies(header: dict[str, Any], packed: Mapping[str, PackedArray]) -> None:
    if header.get("format") != FORMAT_OF_SEVERAL:
        raise ValueError("it holds something other than several policies")
    names = header["names"]
    if not value_has_type(names, list[str]) or len(set(names)) != len(names):
        raise ValueError("its names are not a list of different words")
    if any(array.shape[:1] != (len(names),) for array in packed.values()):
        raise ValueError("it does not hold as many policies as names")
    rows = {name: array._replace(shape=array.shape[1:]) for name, array in packed.items()}
    check_packed_arrays(_described_policy_template(header, packed), rows)


def _described_policy_template(header: dict[str, Any], arrays: Mapping[str, PackedArray | np.ndarray]) -> Policy:
    """Build the template of the policy that the header of a file describes."""
    if len(header["architecture"]["hidden"]) > len(arrays):
        raise ValueError("its header names more layers than the file holds")
    return _policy_file_template(Architecture(**header["architecture"]))


class Architecture(NamedTuple):
    """The architecture of a policy, as the header of its file describes it."""

    kind: str
    observation_size: int
    action_size: int
    hidden: Sequence[int]
    memory: dict[str, Any] | None = None
    scaling: dict[str, Any] | None = None
    image: Sequence[int] | None = None
    actions: dict[str, Any] | None = None


def _policy_file_template(of: Architecture) -> Policy:
    """Build the template of a policy: its structure and shapes, without allocating arrays.

    Raises ValueError if there is no policy of this architecture.
    """
    kinds: dict[str, Callable[..., Policy]] = {"gaussian": GaussianPolicy, "categorical": CategoricalPolicy}
    if of.kind not in (*kinds, "squashed"):
        raise ValueError(f"its kind is {of.kind!r:.80}; it must be one of {', '.join(kinds)}, squashed")
    squashed, memory, scaling = of.kind == "squashed", of.memory, of.scaling
    if squashed != (of.actions is not None) or (squashed and (memory or scaling)):
        raise ValueError(
            "a squashed policy needs a range of actions, and has neither memory nor scaling; other kinds have no range"
        )

    described = [of.actions] if of.actions else [part["actions"] for part in (memory, scaling) if part]
    applied = read_actions_in_policy_file(described[0], of.kind, of.action_size) if described else ActionRange()
    if any(other != described[0] for other in described):
        raise ValueError("its memory and its scaling describe different actions")
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
    """Return the shape of images that a file names. Raises ValueError if its policy cannot see such images."""
    height, width, channels = (int(size) for size in shape)
    found = height, width, channels
    if not image_space_is_large_enough(found) or math.prod(found) != observation_size:
        raise ValueError(f"its images are {list(shape)}; they must be at least 7 x 7, with {observation_size} numbers")
    return found


def read_actions_in_policy_file(description: dict[str, Any], kind: str, action_size: int) -> ActionRange:
    """Return the actions that a part of a policy file describes: the memory, the scaling or the range.

    Raises ValueError if they are not the policy's own actions.
    """
    actions = ActionRange.from_description(description)
    sizes = (actions.choices,) if kind == "categorical" else (len(actions.low), len(actions.high))
    if set(sizes) != {action_size} or (kind != "categorical" and actions.choices):
        raise ValueError("its memory, scaling or range describes other actions than its own")
    return actions


def check_numbers_in_policy_file(policy: Policy) -> None:
    """Raise ValueError if a parameter is not finite, or if a scale that the policy divides by is not above 0."""
    scales = [] if policy.memory is None else [policy.memory.change_scale, policy.memory.action_scale]
    if policy.scaling is not None:
        if not np.all(np.asarray(policy.scaling.variance) >= 0):
            raise ValueError("the variance of its scaling must not be below 0")
        scales += [policy.scaling.deviation, policy.scaling.particle_deviation]
    for scale in scales:
        if not (np.all(np.isfinite(scale)) and np.all(np.asarray(scale) > 0)):
            raise ValueError("the divisors of its memory and its scaling must be finite and above 0")
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(policy)):
        raise ValueError("its numbers are not all finite")
