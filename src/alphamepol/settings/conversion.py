"""Settings as JSON can hold them, and back."""

import dataclasses
from typing import Any, Literal, TypeVar, get_args, get_origin

Settings = TypeVar("Settings")


def settings_to_dict(settings: Any) -> dict[str, Any]:
    """The fields of a dataclass of settings, flat, as JSON can hold them."""
    fields = dataclasses.asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def settings_from_dict(kind: type[Settings], fields: dict[str, Any]) -> Settings:
    """The inverse of `settings_to_dict`. Raises TypeError on an unknown field and on a value of another type."""
    known: Any = kind  # a dataclass
    fractions = {one.name for one in dataclasses.fields(known) if "float" in str(one.type)}
    settings = kind(**{name: _read_settings_value(value, name in fractions) for name, value in fields.items()})
    for one in dataclasses.fields(known):
        value = getattr(settings, one.name)
        if not _is_of_settings_type(value, one.type):
            raise TypeError(f"{one.name} is {value!r:.80}")
    return settings


def _is_of_settings_type(value: Any, kind: Any) -> bool:
    """Whether a value is of the type of a field."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_is_of_settings_type(part, get_args(kind)[0]) for part in value)
    if get_args(kind):  # a union
        return any(_is_of_settings_type(value, one) for one in get_args(kind))
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _read_settings_value(value: Any, fraction: bool) -> Any:
    """A value as its field holds it; JSON may have given 1 for 1.0."""
    if isinstance(value, list):
        return tuple(_read_settings_value(one, fraction) for one in value)
    return float(value) if fraction and isinstance(value, int) and not isinstance(value, bool) else value
