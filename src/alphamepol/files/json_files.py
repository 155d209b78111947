"""JSON as people read it, and JSON from files that may be anything."""

import json
import re
from pathlib import Path
from typing import Any

LARGEST_JSON = 2**28


def to_json(content: Any) -> str:
    """JSON as people read it: indented, but lists of numbers on one line."""
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    # A line break is never inside a JSON string, and neither kind of bracket inside a list of plain numbers.
    return re.sub(r'\[\n\s*([^][{}"]*?)\s*\]', lambda numbers: f"[{' '.join(numbers[1].split())}]", text) + "\n"


def from_json(text: str | bytes) -> Any:
    """Whatever JSON holds. Raises ValueError on anything else, and where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_json(path: Path) -> Any:
    """`from_json` of a file; raises ValueError on one that is too large to be what it should be."""
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"it has {path.stat().st_size} bytes, more than {LARGEST_JSON}")
    return from_json(path.read_bytes())


def read_config_json(folder: Path) -> dict[str, Any]:
    """The content of a run's config.json; an empty dict if there is none that can be read, which the caller reports."""
    try:
        described = read_json(folder / "config.json")
    except (OSError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}
