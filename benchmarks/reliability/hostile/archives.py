"""Mutations of arrays in safetensors files, and of the zip files of Stable-Baselines3."""

import io
import json
import pickle
import random
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.hostile.sums import BROKEN, DTYPES, read_safetensors, write_safetensors
from benchmarks.reliability.hostile.values import NAMES, mutate_json, mutate_json_text

ZIP_KINDS = (
    *(*["settings"] * 3, *["weights"] * 3),
    *("part", "bomb", "pickle", "deflated", "doubled", "wide", "flags"),
)


class Attack:
    """An object that writes a canary when it is unpickled."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.canary,)


def mutate_safetensors(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Return a safetensors file with a changed header, changed arrays, or other sizes, and the kind of the change."""
    try:
        header, data = read_safetensors(content)
    except BROKEN:
        return content[: len(content) // 2], "cut"
    draw = chance.random()
    if draw < 0.4 and "alphamepol" in header.get("__metadata__", {}):
        text, kind = mutate_json_text(header["__metadata__"]["alphamepol"], chance)
        header["__metadata__"]["alphamepol"] = text
        return write_safetensors(header, data), f"description: {kind}"
    if draw < 0.55:
        changed, kind = mutate_json(header, chance)
        return write_safetensors(changed, data), f"header: {kind}"
    if draw < 0.65:
        length = chance.choice((0, 1, 2**62, 2**63, len(content), len(content) * 2, 10**8))
        return struct.pack("<Q", length) + content[8:], "header: length"
    return _mutate_arrays(header, data, chance)


def _mutate_arrays(header: dict[str, Any], data: bytes, chance: random.Random) -> tuple[bytes, str]:
    arrays: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            dtype = np.dtype(DTYPES[entry["dtype"]])
            arrays[name] = np.frombuffer(data[start:end], dtype).reshape(entry["shape"]).copy()
    if not arrays:
        return write_safetensors(header, data), "no arrays"
    names = list(arrays)
    name = chance.choice(names)
    array = arrays[name]
    kind = chance.choice(("numbers", "dtype", "shape", "missing", "more", "overlap", "gap", "count", "all numbers"))
    if kind in ("numbers", "all numbers"):
        value = chance.choice((np.nan, np.inf, -np.inf, 0.0, -1.0, 1e38, 65504.0, 1e-45, 1e6))
        for one in names if kind == "all numbers" else [name]:
            with np.errstate(all="ignore"):
                if kind == "all numbers" or chance.random() < 0.5:
                    arrays[one][...] = value
                elif array.size:
                    arrays[one].ravel()[chance.randrange(array.size)] = value
    elif kind == "dtype":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(chance.choice(list(DTYPES.values())))
    elif kind == "shape":
        shapes = [(), (0,), (array.size,), (1, *array.shape), array.shape[::-1], (*array.shape, 1), (1,) * 40]
        shape = chance.choice(shapes)
        arrays[name] = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
    elif kind == "missing":
        del arrays[name]
    elif kind == "more":
        more = chance.choice((*NAMES, f"{name}.1", "layers.99.weight", "visits", "trails", "cells_per_x"))
        arrays[more] = chance.choice((array, np.zeros((0,), np.float32), np.zeros((300, 300), np.float32)))
    elif kind == "count":
        factor = chance.choice((2, 3, 50))
        for one in names if chance.random() < 0.5 else [name]:
            axis = chance.randrange(arrays[one].ndim) if arrays[one].ndim else None
            arrays[one] = arrays[one] if axis is None else np.repeat(arrays[one], factor, axis)
    entries, parts, offset = {}, [], 0
    letters = {value: letter for letter, value in DTYPES.items()}
    for one, value in arrays.items():
        part = value.tobytes()
        entries[one] = {
            "dtype": letters[str(value.dtype)],
            "shape": list(value.shape),
            "data_offsets": [offset, offset + len(part)],
        }
        parts.append(part)
        offset += len(part)
    if kind == "overlap":
        entries[name]["data_offsets"] = [0, entries[name]["data_offsets"][1] - entries[name]["data_offsets"][0]]
    elif kind == "gap":
        parts.append(b"\0" * 64)
    if "__metadata__" in header:
        entries["__metadata__"] = header["__metadata__"]
    return write_safetensors(entries, b"".join(parts)), f"arrays: {kind}"


def mutate_zip(content: bytes, canary: Path, chance: random.Random) -> tuple[bytes, str]:
    """Return a zip file of Stable-Baselines3 with other parts, other weights, a bomb, or a program inside."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    compression = zipfile.ZIP_STORED
    kind = chance.choice(ZIP_KINDS)
    doubled: list[tuple[str, bytes]] = []
    if kind == "settings":
        text, changed = mutate_json_text(parts["data"].decode(), chance)
        parts["data"], kind = text.encode("utf-8", "surrogatepass"), f"settings: {changed}"
    elif kind == "weights":
        parts["policy.pth"], changed = _mutate_weights(parts["policy.pth"], canary, chance)
        kind = f"weights: {changed}"
    elif kind == "wide":
        parts["policy.pth"] = _wide_weights(parts["policy.pth"], chance)
    elif kind == "part":
        name = chance.choice(list(parts))
        what = chance.choice(("missing", "empty", "cut", "random", "more"))
        if what == "missing":
            del parts[name]
        elif what == "more":
            parts[chance.choice(("../evil", "/tmp/alphamepol-evil", "a" * 300, "data/data"))] = b"x" * 100
        else:
            size = len(parts[name])
            parts[name] = {"empty": b"", "cut": parts[name][: size // 2], "random": chance.randbytes(size)}[what]
    elif kind == "bomb":
        compression = zipfile.ZIP_DEFLATED
        parts[chance.choice((*parts, "more"))] = bytes(2 ** chance.choice((20, 24, 27)))
    elif kind == "pickle":
        attack = pickle.dumps(Attack(canary))
        place = chance.choice(("policy.pth", "pytorch_variables.pth", "data"))
        if place == "data":
            settings = json.loads(parts["data"])
            settings[chance.choice(("policy_class", "action_space", "alphamepol_memory"))] = {
                ":type:": "<class 'x.Box'>",
                ":serialized:": attack.hex(),
            }
            attack = json.dumps(settings).encode()
        parts[place] = attack
    elif kind == "deflated":
        compression = chance.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    elif kind == "doubled":
        name = chance.choice(list(parts))
        doubled = [(name, chance.choice((b"", parts[name], b"{}")))]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a doubled name
        for name, part in [*parts.items(), *doubled]:
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            file.writestr(info, part)
    changed = bytearray(packed.getvalue())
    if kind in ("deflated", "flags"):
        for _ in range(chance.choice((1, 3, 20))):
            # The middle of the file is compressed content, and its end is the directory.
            begin = 0 if kind == "deflated" else max(0, len(changed) - 400)
            changed[chance.randrange(begin, len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed), kind


def _mutate_weights(content: bytes, canary: Path, chance: random.Random) -> tuple[bytes, str]:
    import torch

    state: dict[str, Any] = dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    name = chance.choice(list(state))
    tensor = state[name]
    kind = chance.choice(
        ("nan", "shape", "dtype", "missing", "name", "stride", "other", "program", "empty", "sparse", "legacy", "bytes")
    )
    legacy = kind == "legacy"
    if kind == "nan":
        state[name] = torch.full_like(tensor, chance.choice((float("nan"), float("inf"), 1e38)))
    elif kind == "shape":
        shape = chance.choice(((0,), (), (1, *tensor.shape), tensor.shape[::-1], (tensor.numel(),), (0, 5), (5, 0)))
        state[name] = torch.zeros(shape)
    elif kind == "dtype":
        dtype = chance.choice((torch.bfloat16, torch.complex64, torch.int64, torch.bool, torch.float64, torch.uint8))
        state[name] = tensor.to(dtype)
    elif kind == "missing":
        del state[name]
    elif kind == "name":
        prefix = "mlp_extractor.policy_net."
        names = (
            f"{prefix}x.weight",
            f"{prefix}99999999999999999999.weight",
            prefix,
            "action_net.",
            "log_std.x",
            "x",
            "",
        )
        state[chance.choice(names)] = tensor
    elif kind == "stride":
        state[name] = torch.zeros(1).as_strided((2**16, 2**16), (0, 0))
    elif kind == "other":
        state[name] = chance.choice((None, 5, "x", [1, 2], {"a": 1}, {}))
    elif kind == "program":
        state[name] = Attack(canary)
    elif kind == "empty":
        state = {}
    elif kind == "sparse":
        state[name] = torch.sparse_coo_tensor(
            torch.zeros((1, 1), dtype=torch.int64), torch.ones(1), (10**6,), check_invariants=False
        )
    buffer = io.BytesIO()
    whole: Any = state if chance.random() < 0.95 else chance.choice(([state], 5, None, "x", tensor))
    torch.save(whole, buffer, _use_new_zipfile_serialization=not legacy)
    changed = bytearray(buffer.getvalue())
    if kind == "bytes":
        for _ in range(chance.choice((1, 5, 50))):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed), kind


def _wide_weights(content: bytes, chance: random.Random) -> bytes:
    """Return weights whose biases name layers of tens of thousands of units, which the weights do not have."""
    import torch

    state = dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    prefix = "mlp_extractor.policy_net."
    width = chance.choice((10_000, 40_000))
    for number in (0, 2):
        if chance.random() < 0.8:
            state[f"{prefix}{number}.bias"] = torch.zeros(width)
            state.setdefault(f"{prefix}{number}.weight", torch.zeros((1, 1)))
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()
