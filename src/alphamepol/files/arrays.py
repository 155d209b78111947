"""Store pytrees of arrays as safetensors files (never as pickle)."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from alphamepol.files.json_files import from_json

Tree = TypeVar("Tree")


def pack_arrays(tree: Any, header: dict[str, Any]) -> bytes:
    """Return a safetensors file of a pytree of arrays and a JSON header, as bytes. Equal inputs give equal bytes."""
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in named_array_leaves(tree).items()}
    # The header is one metadata key, because safetensors does not keep the order of several keys.
    return save(arrays, metadata={"alphamepol": json.dumps(header, sort_keys=True)})


def seal_arrays(tree: Any, header: dict[str, Any]) -> bytes:
    """Pack arrays as `pack_arrays` does, with a checksum by which `unpack_arrays` detects damaged arrays."""
    arrays = {name: np.asarray(leaf) for name, leaf in named_array_leaves(tree).items()}
    return pack_arrays(tree, {**header, "sha256": _checksum_of_arrays(arrays)})


def _checksum_of_arrays(arrays: dict[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def unpack_arrays(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the header and the arrays of a file that `pack_arrays` or `seal_arrays` wrote.

    Raises ValueError or OSError if the file is anything else. Whatever the header of the file says, no more bytes are
    read than the file has.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = from_json((file.metadata() or {}).get("alphamepol", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise ValueError(f"not a whole safetensors file: {error}") from error
    if not isinstance(header, dict):
        raise ValueError("it is a safetensors file, but not one of alphamepol")
    if "sha256" in header and header["sha256"] != _checksum_of_arrays(arrays):
        raise ValueError("it is damaged: its checksum does not agree")
    return header, arrays


def fill_with_arrays(template: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """Return the arrays in the structure of `template`, whose leaves are arrays or their shapes.

    Raises ValueError if the names, shapes or dtypes of the arrays differ from those of the template.
    """
    expected = named_array_leaves(template)
    if expected.keys() != arrays.keys():
        raise ValueError(f"it holds the arrays {sorted(arrays)} instead of {sorted(expected)}")
    for name, leaf in expected.items():
        found = arrays[name]
        if (found.shape, found.dtype) != (leaf.shape, leaf.dtype):
            raise ValueError(f"{name} is {found.dtype}{list(found.shape)} instead of {leaf.dtype}{list(leaf.shape)}")
    return jax.tree.unflatten(jax.tree.structure(template), [jax.device_put(arrays[name]) for name in expected])


def named_array_leaves(tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree by their paths, such as `layers.0.weight`, in the order of the tree."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree.leaves_with_path(tree)
    }
