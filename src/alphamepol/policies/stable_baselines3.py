"""Policies in zip files of Stable-Baselines3.

The `save` of Stable-Baselines3 writes them. Reading them never runs a program from the file.
"""

import io
import pickle
import pickletools
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from alphamepol.errors import InputError
from alphamepol.files.json_files import LARGEST_JSON, from_json
from alphamepol.files.reading import open_regular_file
from alphamepol.policies.files import check_numbers_in_policy_file, read_actions_in_policy_file
from alphamepol.policies.memory import Memory
from alphamepol.policies.memory_observation import memory_observation_space
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import CategoricalPolicy, GaussianPolicy, SquashedPolicy
from alphamepol.policies.unscaled import unscaled_policy

CRITIC_HIDDEN = [64, 64]
MEMORY = "alphamepol_memory"
"""The attribute of a model that describes the memory in its observations."""
ACTOR, HEAD = "mlp_extractor.policy_net.", "action_net."
LARGEST_WEIGHTS = 48 * 2**20
"""The most bytes of the weights in a zip file. A policy of vectors with (1024, 1024) units has 10 million of them."""
ZIP_ENTRY = b"PK\1\2"
"""The first bytes of each entry in the list of a zip file's parts."""
MOST_ZIP_ENTRIES = 1000
TENSOR_NAMES = ("collections OrderedDict", "torch._utils _rebuild_tensor_v2")
"""The functions that the file of a plain tensor names, besides the types of its storage."""


def to_sb3_zip(policy: Policy, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> bytes:
    """Return the zip file of a PPO model with this policy and an untrained value network.

    Both PPO and sb3_contrib's TRPO can load the file and continue training. PPO saves it, because TRPO would save a
    gradient clipping of 0, with which PPO learns nothing. The model has the default `target_kl` of TRPO, because TRPO
    needs a value.

    Raises an `InputError` if Stable-Baselines3 has no such policy, or is not installed.
    """
    if policy.trunk is not None:
        raise InputError("to: Stable-Baselines3 has other networks for images than ours; export to safetensors")
    if isinstance(policy, SquashedPolicy):
        raise InputError("to: PPO and TRPO of Stable-Baselines3 have no squashed policies; export to safetensors")
    policy = unscaled_policy(policy)
    if policy.memory is not None:
        if policy.memory.recurrence is not None:
            raise InputError(
                "to: Stable-Baselines3 has no policy with a GRU, which memory recurrent needs; export to safetensors, "
                "or pre-train with --memory last"
            )
        observation_space = memory_observation_space(observation_space, policy.memory)
    if isinstance(action_space, gymnasium.spaces.Box) and not action_space.is_bounded():
        raise InputError(f"to: Stable-Baselines3 needs bounded actions, these are {action_space}")
    torch, PPO = _import_sb3()
    architecture = policy.architecture
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = PPO(
            "MlpPolicy",
            _Spaces(observation_space, action_space),
            gae_lambda=0.98,
            target_kl=0.01,
            policy_kwargs={
                "net_arch": {"pi": list(architecture["hidden"]), "vf": CRITIC_HIDDEN},
                "activation_fn": torch.nn.ReLU,
            },
            device="cpu",
        )
    weights = model.policy.state_dict()
    for name, array in _to_sb3_state_dict(policy).items():
        weights[name] = torch.from_numpy(np.array(array))
    model.policy.load_state_dict(weights)
    # `load` and `save` of Stable-Baselines3 keep the attributes that JSON can hold.
    setattr(model, MEMORY, policy.memory and _describe_sb3_memory(policy.memory))
    buffer = io.BytesIO()
    model.save(buffer)
    return buffer.getvalue()


def read_sb3_zip(path: Path) -> Policy:
    """Read the policy of a Stable-Baselines3 zip file. The weights are read with PyTorch's `weights_only`.

    Raises ValueError if the file holds no policy that we can represent: a ReLU network of vectors without a feature
    extractor.
    """
    torch, _ = _import_sb3()
    try:
        with open_regular_file(path) as file, _open_sb3_zip(file) as archive:
            settings = from_json(_read_part_of_sb3_zip(archive, "data", LARGEST_JSON))
            weights = _read_part_of_sb3_zip(archive, "policy.pth", LARGEST_WEIGHTS)
        _check_sb3_weights(weights)
        state = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError("its weights are not plain tensors; nothing else is read") from error
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
        raise ValueError("it is not a complete zip file of Stable-Baselines3") from error
    # Values that are not JSON are pickled, with a description as text beside the pickle. Only the description is read,
    # because opening a pickle can run a program.
    activation = str(settings.get("policy_kwargs", {}).get("activation_fn", "Tanh"))
    if not activation.endswith(".ReLU'>"):
        raise ValueError(f"its activation is {activation}, only ReLU is possible")
    actions = str(settings["action_space"][":type:"])
    if not actions.endswith((".Box'>", ".Discrete'>")):
        raise ValueError(f"its actions are {actions}, only Box and Discrete are possible")
    if not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise ValueError("its weights are not plain tensors; nothing else is read")
    if sum(tensor.nbytes for tensor in state.values()) > len(weights):
        raise ValueError("it says that its weights are larger than they are")
    policy = _from_sb3_state_dict({name: np.asarray(tensor) for name, tensor in state.items()})
    memory = settings.get(MEMORY) and _read_sb3_memory(policy, **settings[MEMORY])
    policy = eqx.tree_at(lambda policy: policy.memory, policy, memory, is_leaf=lambda leaf: leaf is None)
    check_numbers_in_policy_file(policy)
    return policy


def _open_sb3_zip(file: io.BufferedReader | io.BytesIO) -> zipfile.ZipFile:
    """Open a zip file. Raises ValueError if it has more than `MOST_ZIP_ENTRIES` parts.

    Opening a zip file reads the entries of all its parts, so we count them first.
    """
    if sum(piece.count(ZIP_ENTRY) for piece in iter(lambda: file.read(2**20), b"")) > MOST_ZIP_ENTRIES:
        raise ValueError(f"it has more than {MOST_ZIP_ENTRIES} parts")
    return zipfile.ZipFile(file)


def _read_part_of_sb3_zip(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return a part of a zip file. Raises ValueError if the part has more than `most` bytes."""
    part = archive.getinfo(name)
    if part.file_size > most:
        raise ValueError(f"its part {name} has {part.file_size} bytes, more than {most}")
    if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"its part {name} is compressed in an unusual way")
    return archive.read(part)  # no more than the size that was checked


def _check_sb3_weights(weights: bytes) -> None:
    """Raise ValueError if reading weights of PyTorch would take more memory than they have bytes, or run a program.

    PyTorch reads the weights in a restricted way. We allow even less: the names that plain tensors need.
    """
    with _open_sb3_zip(io.BytesIO(weights)) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > len(weights):
            raise ValueError("it says that its weights are larger than they are")
        pickles = [archive.read(part) for part in parts if part.filename.endswith("data.pkl")]
    for operation, argument, _ in (one for pickled in pickles for one in pickletools.genops(pickled)):
        if operation.name in ("INST", "STACK_GLOBAL") or (operation.name == "GLOBAL" and not _is_tensor_name(argument)):
            raise ValueError("its weights are not plain tensors; nothing else is read")


def _is_tensor_name(name: Any) -> bool:
    return name in TENSOR_NAMES or (name.startswith("torch ") and name.endswith("Storage"))


def _describe_sb3_memory(memory: Memory) -> dict[str, Any]:
    return {
        "actions": memory.actions.describe(),
        "change_scale": memory.change_scale.tolist(),
        "action_scale": memory.action_scale.tolist(),
        "measured_steps": float(memory.measured_steps),
    }


def _read_sb3_memory(
    policy: Policy,
    actions: dict[str, Any],
    change_scale: list[float],
    action_scale: list[float],
    measured_steps: float,
) -> Memory:
    """Build the memory that `_describe_sb3_memory` has described. Raises ValueError if it does not fit the policy."""
    applied = read_actions_in_policy_file(actions, policy.kind, policy.layers[-1].weight.shape[0])
    memory = Memory(len(change_scale), applied, key=jax.random.key(0))
    parts = lambda memory: (memory.change_scale, memory.action_scale, memory.measured_steps)  # noqa: E731
    arrays = tuple(jnp.array(number, jnp.float32) for number in (change_scale, action_scale, measured_steps))
    if [array.shape for array in arrays] != [part.shape for part in parts(memory)]:
        raise ValueError("the scales of its memory have wrong shapes")
    memory = eqx.tree_at(parts, memory, arrays)
    if memory.inputs != policy.observation_size:
        raise ValueError("its memory does not fit its network")
    return memory


def _to_sb3_state_dict(policy: Policy) -> dict[str, Any]:
    """Return the weights of a policy by their names in Stable-Baselines3's actor-critic policy."""
    *hidden, last = policy.layers
    # torch.nn.Sequential also counts the activations between the layers, so layers have even numbers.
    names = [f"{ACTOR}{2 * i}" for i in range(len(hidden))] + [HEAD.rstrip(".")]
    state = {}
    for name, layer in zip(names, [*hidden, last], strict=True):
        state |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    return state | ({"log_std": policy.log_std} if isinstance(policy, GaussianPolicy) else {})


def _from_sb3_state_dict(state: Mapping[str, np.ndarray]) -> Policy:
    """Build the policy from weights that are named as in `_to_sb3_state_dict`. The value network is left out."""
    known = (ACTOR, HEAD, "mlp_extractor.value_net.", "value_net.", "log_std")
    strange = sorted(name for name in state if not name.startswith(known))
    if strange:
        raise ValueError(f"it has the weights {strange[0]}, which a policy of vectors does not have")
    numbers = sorted({int(name[len(ACTOR) :].split(".")[0]) for name in state if name.startswith(ACTOR)})
    prefixes = [f"{ACTOR}{number}." for number in numbers] + [HEAD]
    weights = [(state[f"{prefix}weight"], state[f"{prefix}bias"]) for prefix in prefixes]
    sizes = weights[0][0].shape[1], weights[-1][0].shape[0], [len(bias) for _, bias in weights[:-1]]
    kind = GaussianPolicy if "log_std" in state else CategoricalPolicy
    template: Policy = eqx.filter_eval_shape(lambda: kind(*sizes, key=jax.random.key(0)))
    arrays = [array.astype(np.float32) for pair in weights for array in pair]
    if [array.shape for array in arrays] != [leaf.shape for leaf in jax.tree.leaves(template.layers)]:
        raise ValueError("its layers do not fit together")
    if isinstance(template, GaussianPolicy):
        if state["log_std"].shape != template.log_std.shape:
            raise ValueError("its σ depends on the state, which is not possible here")
        template = eqx.tree_at(lambda policy: policy.log_std, template, jnp.asarray(state["log_std"], jnp.float32))
    layers = jax.tree.unflatten(jax.tree.structure(template.layers), [jnp.asarray(array) for array in arrays])
    return eqx.tree_at(lambda policy: policy.layers, template, layers)


class _Spaces(gymnasium.Env):
    """An environment with nothing but spaces. Stable-Baselines3 takes the spaces of a model from an environment."""

    def __init__(self, observation_space: gymnasium.Space, action_space: gymnasium.Space):
        self.observation_space, self.action_space = observation_space, action_space


def _import_sb3() -> tuple[Any, Any]:
    try:
        import torch
        from stable_baselines3 import PPO
    except ImportError as error:
        raise InputError('sb3: Stable-Baselines3 is not installed; install "alphamepol[sb3]"') from error
    return torch, PPO
