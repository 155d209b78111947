"""Make the checksums of mutated files right again, so that a mutation gets past the first check of a reader.

The sums are computed here anew, and not with the package's own functions.
"""

import contextlib
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16"},
    **{"I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool"},
}
"""The dtypes of safetensors that NumPy has, with their names there."""
BROKEN = (OSError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""The errors of opening a file that was mutated before."""
LARGEST = 2**24
"""The largest file whose sums are made right, in bytes."""


def read_safetensors(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of a safetensors file. Raises ValueError if it is none."""
    if len(content) < 8:
        raise ValueError("too short")
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + min(length, len(content))])
    if not isinstance(header, dict):
        raise ValueError("no object")
    return header, content[8 + length :]


def write_safetensors(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def correct_sums(folder: Path, *, write: bool) -> int:
    """Count the wrong sums in a folder, in files that can be read, and correct them if `write` is true."""
    count = 0
    for path in sorted(folder.rglob("*.safetensors")):
        with contextlib.suppress(*BROKEN):
            count += _correct_arrays(path, write)
    for path in sorted(path for path in folder.rglob("*.json") if path.parent.name == "checkpoints"):
        with contextlib.suppress(*BROKEN):
            count += _correct_checkpoint(path, write)
    return count


def is_plain_file(path: Path) -> bool:
    """Return whether a path is a file that the generator itself may open and change."""
    if path.is_symlink() or not path.is_file():
        return False
    return path.stat().st_size < LARGEST and path.stat().st_nlink == 1


def _correct_arrays(path: Path, write: bool) -> bool:
    """Correct the sum in the header of a sealed file of arrays."""
    if not is_plain_file(path):
        return False
    header, data = read_safetensors(path.read_bytes())
    ours = json.loads(header["__metadata__"]["alphamepol"])
    if "sha256" not in ours:
        return False
    found = hashlib.sha256()
    for name in sorted(name for name in header if name != "__metadata__"):
        start, end = header[name]["data_offsets"]
        dtype, shape = np.dtype(DTYPES[header[name]["dtype"]]), tuple(header[name]["shape"])
        found.update(f"{name} {dtype} {shape}".encode())
        found.update(data[start:end])
    if ours["sha256"] == found.hexdigest():
        return False
    ours["sha256"] = found.hexdigest()
    header["__metadata__"]["alphamepol"] = json.dumps(ours, sort_keys=True)
    if write:
        path.write_bytes(write_safetensors(header, data))
    return True


def _correct_checkpoint(path: Path, write: bool) -> bool:
    """Correct the mark in metrics.jsonl and the sum of a checkpoint."""
    if not is_plain_file(path) or not is_plain_file(path.with_suffix(".safetensors")):
        return False
    notes = json.loads(path.read_bytes())
    before = json.dumps(notes)
    metrics = path.parent.parent / "metrics.jsonl"
    mark = notes.get("metrics")
    if isinstance(mark, dict) and isinstance(mark.get("bytes"), int) and is_plain_file(metrics):
        content = metrics.read_bytes()
        # The mark stands after a whole line, as many lines as the checkpoint has seen.
        end = min(max(mark["bytes"], 0), len(content))
        if end < len(content) and content[end - 1 : end] != b"\n":
            end = content.find(b"\n", end) + 1 or len(content)
        mark |= {"bytes": end, "sha256": hashlib.sha256(content[:end]).hexdigest()}
    notes.pop("sha256", None)
    data = path.with_suffix(".safetensors").read_bytes()
    total = hashlib.sha256(data + json.dumps(notes, sort_keys=True).encode()).hexdigest()
    after = json.dumps({"sha256": total, **notes})
    if write and after != before:
        path.write_text(after)
    return after != before
