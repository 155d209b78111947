"""Write JSON that people can read, and read JSON from files that may hold anything."""

import json
import re
from pathlib import Path
from typing import Any

LARGEST_JSON = 2**28


def to_json(content: Any) -> str:
    """Return JSON that people can read: indented, with every list of numbers on one line."""
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    # This is safe, because a JSON string holds no line break, and a list of plain numbers holds no bracket.
    return re.sub(r'\[\n\s*([^][{}"]*?)\s*\]', lambda numbers: f"[{' '.join(numbers[1].split())}]", text) + "\n"


def from_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError if the text is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises ValueError as `from_json` does, and if the file is larger than `LARGEST_JSON` bytes."""
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"it has {path.stat().st_size} bytes, more than {LARGEST_JSON}")
    return from_json(path.read_bytes())


def read_config_json(folder: Path) -> dict[str, Any]:
    """Return the content of a run's config.json.

    Return an empty dict if the folder has no readable config.json; the caller reports that.
    """
    try:
        described = read_json(folder / "config.json")
    except (OSError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}
