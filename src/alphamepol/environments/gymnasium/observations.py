"""The observations of an environment as flat vectors, and the check that they belong to its space."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatten, flatten_space

LARGEST = np.finfo(np.float32).max

Path = tuple[Any, ...]
"""The names and numbers that lead to a part of an observation of type `Dict` or `Tuple`."""


class ObservationError(ValueError):
    """The error of an observation that its space cannot hold."""


class ObservationReader:
    """A reader that flattens the observations of one environment.

    It refuses an observation that the space cannot hold: one of another shape, or with a number that the type of the
    space does not have. It tells once if observations are of another type, or outside of the bounds.

    **Arguments**

    - `space`: the observation space of the environment. Gymnasium must be able to flatten it.
    - `tell`: a function that is called with a sentence for the user.
    """

    def __init__(self, space: gymnasium.Space, tell: Callable[[str], None]):
        self._space = space
        self._tell = tell
        self._told: set[tuple[Path, str]] = set()
        flat = flatten_space(space)
        assert isinstance(flat, gymnasium.spaces.Box)
        # With these bounds, one comparison finds numbers outside of the bounds as well as numbers that are not finite.
        low, high = (np.clip(bound.astype(float), -LARGEST, LARGEST) for bound in (flat.low, flat.high))
        self._low, self._high = low.astype(np.float32), high.astype(np.float32)
        # No image of bytes can be outside of its bounds, if these are 0 and 255.
        kind = np.iinfo(flat.dtype.name) if np.issubdtype(flat.dtype, np.integer) else None
        self._always = kind is not None and bool((flat.low == kind.min).all() and (flat.high == kind.max).all())

    def flatten(self, observation: Any) -> np.ndarray:
        """Return the observation as a flat vector of type float32."""
        conforming = self._conform(self._space, observation, ())
        if not isinstance(self._space, gymnasium.spaces.Box):
            conforming = flatten(self._space, conforming)
        return np.asarray(conforming, np.float32).ravel()

    def contains(self, flat: np.ndarray) -> bool:
        """Return True if all numbers are finite and within the bounds."""
        return self._always or bool(((flat >= self._low) & (flat <= self._high)).all())

    def tell_outside(self, flat: np.ndarray) -> None:
        """Tell that a finite number is outside of the bounds. From then on, only numbers that are not finite count."""
        index = int(np.argmax((flat < self._low) | (flat > self._high)))
        self._tell(
            f"its observation has {flat[index]:g} at index {index}, but its space has the bounds "
            f"[{self._low[index]:g}, {self._high[index]:g}] there; it is used as it is"
        )
        self._low, self._high = np.full_like(flat, -LARGEST), np.full_like(flat, LARGEST)

    def _conform(self, space: gymnasium.Space, value: Any, path: Path) -> Any:
        """Return a part of an observation in the type of its space."""
        if isinstance(space, gymnasium.spaces.Box):
            if isinstance(value, np.ndarray) and value.dtype == space.dtype and value.shape == space.shape:
                return value
            return self._convert(space, value, path)
        if isinstance(space, gymnasium.spaces.Dict):
            return {name: self._conform(part, value[name], (*path, name)) for name, part in space.spaces.items()}
        if isinstance(space, gymnasium.spaces.Tuple):
            parts = enumerate(zip(space.spaces, value, strict=True))
            return tuple(self._conform(part, one, (*path, number)) for number, (part, one) in parts)
        if not _space_has_choice(space, value):
            raise ObservationError(f"it gave {value!r} as its {_part_of_observation(path)}, which is not in {space}")
        return value

    def _convert(self, space: gymnasium.spaces.Box, value: Any, path: Path) -> np.ndarray:
        given, part = np.asarray(value), _part_of_observation(path)
        if given.shape != space.shape:
            raise ObservationError(f"it gave an {part} of shape {given.shape}, but its space has shape {space.shape}")
        if given.dtype.kind not in "biuf":
            raise ObservationError(f"it gave an {part} of type {given.dtype}, but its space has type {space.dtype}")
        if not np.can_cast(given.dtype, space.dtype):
            self._tell_once(path, f"its {part} is of type {given.dtype}, but its space has type {space.dtype}")
        whole = np.issubdtype(space.dtype, np.integer)
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = np.rint(given) if whole and given.dtype.kind == "f" else given
            converted = rounded.astype(space.dtype)
        if whole and not np.array_equal(converted, rounded):
            wrong = given[converted != rounded][0]
            raise ObservationError(f"it gave an {part} with {wrong:g}, but its space has type {space.dtype}")
        if whole and not np.array_equal(rounded, given):
            broken = given[rounded != given][0]
            text = f"its {part} has fractions such as {broken:g}, but its space has type {space.dtype}; it is rounded"
            self._tell_once(path, text)
        return converted

    def _tell_once(self, path: Path, text: str) -> None:
        kind = path, text.split(" such as ")[0]
        if kind not in self._told:
            self._told.add(kind)
            self._tell(text)


def _space_has_choice(space: gymnasium.Space, value: Any) -> bool:
    """Return False if a choice is not among those of its space. Gymnasium would flatten it to another choice."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return bool(0 <= value - space.start < space.n)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        chosen = np.asarray(value) - space.start
        return chosen.shape == space.nvec.shape and bool(((chosen >= 0) & (chosen < space.nvec)).all())
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return np.shape(value) == space.shape and bool(np.isin(value, (0, 1)).all())
    return True


def _part_of_observation(path: Path) -> str:
    return "observation" + "".join(f"[{name!r}]" for name in path)
