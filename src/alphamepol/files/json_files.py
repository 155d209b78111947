"""Write JSON that people can read, and read JSON from files that may hold anything."""

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from alphamepol.files.reading import read_small_file

LARGEST_JSON = 2**24
"""The most bytes of a JSON file."""
MOST_JSON_VALUES = 10**6
"""The most values of a JSON file. A short text can hold many values, each of which takes about a hundred bytes."""
_MARKS = b",", b"[", b"{"
"""The characters that come before a value of a list or an object."""


def to_json(content: Any) -> str:
    """Return JSON that people can read: indented, with every list of numbers on one line."""
    text = escape_surrogates_in_json(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False))
    # This is safe, because a JSON string holds no line break, and a list of plain numbers holds no bracket.
    return re.sub(r'\[\n\s*([^][{}"]*?)\s*\]', lambda numbers: f"[{' '.join(numbers[1].split())}]", text) + "\n"


def escape_surrogates_in_json(text: str) -> str:
    """Return JSON that UTF-8 can encode. A name may have half of a surrogate pair, which is written as an escape."""
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


def from_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError if the text is not JSON, is nested too deeply, or has too many values."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if sum(data.count(mark) for mark in _MARKS) > MOST_JSON_VALUES:
        raise ValueError(f"it has more than {MOST_JSON_VALUES} values")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises ValueError as `from_json` does, and if the file is larger than `LARGEST_JSON` bytes."""
    return from_json(read_small_file(path, LARGEST_JSON))


def read_config_json(folder: Path) -> dict[str, Any]:
    """Return the content of a run's config.json.

    Return an empty dict if the folder has no readable config.json; the caller reports that.
    """
    try:
        described = read_json(folder / "config.json")
    except (OSError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}


def value_has_type(value: Any, kind: Any) -> bool:
    """Return whether a value has a type, such as `str | None` or `dict[str, list[float]]`.

    True and False are not numbers here. A float must be finite.
    """
    return _test_of_type(kind)(value)


@lru_cache(1000)
def _test_of_type(kind: Any) -> Callable[[Any], bool]:
    """Return the function that tells whether a value has a type. Metrics files have millions of values."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: True
    if origin is Literal:
        return lambda value: any(value == one and type(value) is type(one) for one in parts)
    if origin is dict:
        fits = _test_of_type(parts[1])
        return lambda value: isinstance(value, dict) and all(map(fits, value.values()))
    if origin in (list, tuple):
        fits = _test_of_type(parts[0])
        return lambda value: isinstance(value, origin) and all(map(fits, value))
    if parts:  # a union
        tests = [_test_of_type(one) for one in parts]
        return lambda value: any(fits(value) for fits in tests)
    if kind in (None, type(None)):
        return lambda value: value is None
    if kind is float:
        return lambda value: isinstance(value, float) and math.isfinite(value)
    if kind is bool:
        return lambda value: isinstance(value, bool)
    return lambda value: isinstance(value, kind) and not isinstance(value, bool)
