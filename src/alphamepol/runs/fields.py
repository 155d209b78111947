"""What single fields of a configuration must be; each raises an `InputError` that names the field."""

import math
from typing import Any, Literal, get_args

from alphamepol.errors import InputError

MemoryKind = Literal["none", "last", "recurrent"]


def at_least(config: Any, field: str, least: int) -> None:
    value = getattr(config, field)
    if value < least:
        raise InputError(f"{field}: {value} was given; it must be at least {least}")


def above_zero(config: Any, field: str) -> None:
    value = getattr(config, field)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{field}: {value} was given; it must be above 0 and finite")


def at_least_zero(config: Any, field: str) -> None:
    value = getattr(config, field)
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{field}: {value} was given; it must be at least 0 and finite")


def check_share(config: Any, field: str) -> None:
    if not 0 <= getattr(config, field) <= 1:
        raise InputError(f"{field}: {getattr(config, field)} was given; it must be between 0 and 1")


def check_log_std(value: float) -> None:
    if not -20 <= value <= 20:
        raise InputError(f"initial_log_std: {value} was given; it must be between -20 and 20")


def check_seeds(first: int, count: int, field: str = "seed") -> None:
    if first < 0:
        raise InputError(f"{field}: {first} was given; it must be at least 0")
    if first + count > 2**32:
        raise InputError(f"{field}: {first} was given; seeds must be below 2^32")


def check_network(config: Any) -> None:
    check_log_std(config.initial_log_std)
    check_widths("hidden", config.hidden)
    if config.memory not in get_args(MemoryKind):
        raise InputError(f"memory: {config.memory!r} was given; choose {', '.join(get_args(MemoryKind))}")
    at_least(config, "recurrent_units", 1)


def check_widths(field: str, widths: tuple[int, ...]) -> None:
    if any(width < 1 for width in widths):
        raise InputError(f"{field}: {widths} was given; every layer needs at least one unit")
