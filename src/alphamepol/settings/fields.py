"""Checks of single fields of settings. Each raises an `InputError` that names the field."""

import math
from typing import Any

from alphamepol.errors import InputError

LARGEST_COUNT = 2**31 - 1
"""The largest number of anything. Indices have 32 bits."""
WIDEST = 2**17
"""The most units of a layer."""
MOST_LAYERS = 100
"""The most hidden layers of a network."""
MOST_SEEDS = 10**5
"""The most seeds of a run."""


def check_field_at_least(settings: Any, field: str, least: int) -> None:
    value = getattr(settings, field)
    if value < least:
        raise InputError(f"{field}: {value} was given; it must be at least {least}")
    if value > LARGEST_COUNT:
        raise InputError(f"{field}: {value} was given; it must be at most {LARGEST_COUNT}")


def check_field_above_zero(settings: Any, field: str) -> None:
    value = getattr(settings, field)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{field}: {value} was given; it must be above 0 and finite")


def check_field_at_least_zero(settings: Any, field: str) -> None:
    value = getattr(settings, field)
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{field}: {value} was given; it must be at least 0 and finite")


def check_field_is_share(settings: Any, field: str) -> None:
    if not 0 <= getattr(settings, field) <= 1:
        raise InputError(f"{field}: {getattr(settings, field)} was given; it must be between 0 and 1")


def check_field_is_one_of(settings: Any, field: str, choices: tuple[str, ...]) -> None:
    if getattr(settings, field) not in choices:
        raise InputError(f"{field}: {getattr(settings, field)!r} was given; choose {' or '.join(choices)}")


def check_seed_field(first: int, count: int, field: str = "seed") -> None:
    if first < 0:
        raise InputError(f"{field}: {first} was given; it must be at least 0")
    if count > MOST_SEEDS:
        raise InputError(f"{field}s: {count} was given; it must be at most {MOST_SEEDS}")
    if first + count > 2**32:
        raise InputError(f"{field}: {first} was given; seeds must be below 2^32")


def check_widths_field(field: str, widths: tuple[int, ...]) -> None:
    if len(widths) > MOST_LAYERS:
        raise InputError(f"{field}: {len(widths)} layers were given; there may be at most {MOST_LAYERS}")
    if not all(1 <= width <= WIDEST for width in widths):
        raise InputError(f"{field}: {widths} was given; every layer needs at least one unit and at most {WIDEST}")


def check_field_is_multiple(settings: Any, field: str, of: str) -> None:
    """Refuse a field that is not a multiple of another field."""
    value, unit = getattr(settings, field), getattr(settings, of)
    if value % unit:
        raise InputError(f"{field}: {value} was given; it must be a multiple of {of}, which is {unit}")
