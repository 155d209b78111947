"""Store pytrees of arrays as safetensors files (never as pickle)."""

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from alphamepol.files.json_files import LARGEST_JSON, from_json
from alphamepol.files.reading import open_regular_file

Tree = TypeVar("Tree")
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U32": "<u4", "U8": "u1", "BOOL": "?"}
"""The types of numbers in our files, by their names in safetensors."""
PIECE = 2**20
"""The number of bytes that are read at a time. It is a multiple of the size of every number."""


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
        found.update(_checksum_title(name, array.dtype, array.shape))
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _checksum_title(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    return f"{name} {dtype} {shape}".encode()


class PackedArray(NamedTuple):
    """An array in a safetensors file that has not been read yet."""

    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    """The position of its first byte in the file."""

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


def unpack_arrays(
    path: Path,
    check: Callable[[dict[str, Any], Mapping[str, PackedArray]], None] = lambda header, packed: None,
    *,
    finite: bool = False,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the header and the arrays of a file that `pack_arrays` or `seal_arrays` wrote.

    `check` is called with the header and the shapes before any array is read. It raises an error if they are not as
    they should be. With `finite`, numbers that are not finite are an error, too. Memory for the arrays is allocated
    only after all this and the checksum were found right. A file of any size is therefore refused in little memory.

    Raises ValueError or OSError if the file is anything else.
    """
    with open_regular_file(path) as file:
        header, packed = _read_packed_header(path, file)
        check(header, packed)
        if "sha256" in header or finite:
            found = hashlib.sha256()
            for name in sorted(packed):
                found.update(_checksum_title(name, packed[name].dtype, packed[name].shape))
                for piece in _pieces_of_packed_array(file, packed[name]):
                    found.update(piece)
                    if finite and not _all_finite(np.frombuffer(piece, packed[name].dtype)):
                        raise ValueError("its numbers are not all finite")
            if header.get("sha256", found.hexdigest()) != found.hexdigest():
                raise ValueError("it is damaged: its checksum does not agree")
        return header, {name: _read_packed_array(file, array) for name, array in packed.items()}


def _all_finite(numbers: np.ndarray) -> bool:
    # A finite sum has finite terms, and is faster than a look at every number. Large finite terms can have a sum that
    # is not finite.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(numbers.sum()) or np.all(np.isfinite(numbers)))


def _read_packed_header(path: Path, file: io.BufferedReader) -> tuple[dict[str, Any], dict[str, PackedArray]]:
    """Return the header of a safetensors file of ours, and its arrays."""
    size = int.from_bytes(file.read(8), "little")
    if size > LARGEST_JSON:
        raise ValueError(f"its header has {size} bytes, more than {LARGEST_JSON}")
    described = from_json(file.read(size))
    try:
        with safe_open(path, framework="numpy"):  # this checks everything that is used below
            pass
    except SafetensorError as error:
        raise ValueError(f"not a whole safetensors file: {error}") from error
    header = from_json(described.pop("__metadata__", {}).get("alphamepol", "null"))
    if not isinstance(header, dict):
        raise ValueError("it is a safetensors file, but not one of alphamepol")
    packed = {}
    for name, array in described.items():
        if array["dtype"] not in DTYPES:
            raise ValueError(f"{name} is of type {array['dtype']}, which is not used here")
        start, end = array["data_offsets"]
        packed[name] = PackedArray(np.dtype(DTYPES[array["dtype"]]), tuple(array["shape"]), 8 + size + start)
        if packed[name].bytes != end - start:
            raise ValueError(f"{name} has {end - start} bytes instead of {packed[name].bytes}")
    return header, packed


def _pieces_of_packed_array(file: io.BufferedReader, array: PackedArray) -> Iterator[bytes]:
    file.seek(array.start)
    for start in range(0, array.bytes, PIECE):
        yield file.read(min(PIECE, array.bytes - start))


def _read_packed_array(file: io.BufferedReader, array: PackedArray) -> np.ndarray:
    file.seek(array.start)
    return np.fromfile(file, array.dtype, math.prod(array.shape)).reshape(array.shape)


def check_packed_arrays(template: Any, arrays: Mapping[str, PackedArray | np.ndarray]) -> None:
    """Raise ValueError if the names, shapes or dtypes of arrays differ from those of the leaves of a template."""
    expected = named_array_leaves(template)
    if expected.keys() != arrays.keys():
        raise ValueError(f"it holds the arrays {_some_names(arrays)} instead of {_some_names(expected)}")
    for name, leaf in expected.items():
        found = arrays[name]
        if (tuple(found.shape), found.dtype) != (tuple(leaf.shape), leaf.dtype):
            raise ValueError(f"{name} is {found.dtype}{list(found.shape)} instead of {leaf.dtype}{list(leaf.shape)}")


def _some_names(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:20]) + (f" and {len(found) - 20} more" if len(found) > 20 else "")


def fill_with_arrays(template: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """Return the arrays in the structure of `template`, whose leaves are arrays or their shapes.

    Raises ValueError if the names, shapes or dtypes of the arrays differ from those of the template.
    """
    check_packed_arrays(template, arrays)
    found = [jax.device_put(arrays[name]) for name in named_array_leaves(template)]
    return jax.tree.unflatten(jax.tree.structure(template), found)


def named_array_leaves(tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree by their paths, such as `layers.0.weight`, in the order of the tree."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree.leaves_with_path(tree)
    }
