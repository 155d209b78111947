"""Convert settings to values that JSON can hold, and back."""

import dataclasses
from typing import Any, TypeVar

from alphamepol.files.json_files import value_has_type

Settings = TypeVar("Settings")


def settings_to_dict(settings: Any) -> dict[str, Any]:
    """Return the fields of a settings dataclass as a flat dict that JSON can hold."""
    fields = dataclasses.asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def settings_from_dict(kind: type[Settings], fields: dict[str, Any]) -> Settings:
    """Rebuild settings from a dict of `settings_to_dict`.

    Raises TypeError if a field is unknown or a value has another type than its field.
    """
    known: Any = kind  # a dataclass
    fractions = {one.name for one in dataclasses.fields(known) if "float" in str(one.type)}
    settings = kind(**{name: _read_settings_value(value, name in fractions) for name, value in fields.items()})
    for one in dataclasses.fields(known):
        value = getattr(settings, one.name)
        if not value_has_type(value, one.type):
            raise TypeError(f"{one.name} is {value!r:.80}")
    return settings


def repr_of_settings(settings: Any) -> str:
    """Return an expression that makes the settings: their class, with the fields that differ from its defaults."""
    fields = [(one.name, getattr(settings, one.name), one.default) for one in dataclasses.fields(settings)]
    given = [f"{name}={value!r}" for name, value, usual in fields if value != usual]
    return f"{type(settings).__name__}({', '.join(given)})"


def _read_settings_value(value: Any, fraction: bool) -> Any:
    """Return a JSON value in the type of its field: a list becomes a tuple, and 1 becomes 1.0 in a field of floats."""
    if isinstance(value, list):
        return tuple(_read_settings_value(one, fraction) for one in value)
    if not fraction or not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        return float(value)
    except OverflowError as error:
        raise TypeError(f"a number has {value.bit_length()} bits, which is too large") from error
