"""Mutations of JSON: values that are removed, renamed, doubled, of another type, huge, nested, or hostile names."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

MARKUP = "<script>alphamepol_attack()</script>"
FORMULA = "=cmd|' /C calc'!A0"
NAMES = (
    "[bold]x[/bold]",
    "[/nothing]",
    "pendulum[heavy]",
    "a\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "../../guard/evil",
    "../evil",
    "/tmp/alphamepol-evil",
    "a/b",
    "$x_{",
    "$",
    "$\\frac{1}$",
    "\\",
    "x\0y",
    "\ud800",
    FORMULA,
    "+1+1",
    "@SUM(A1)",
    MARKUP,
    '"><img src=x onerror=alphamepol_attack()>',
    "a" * 235,
    "a" * 300,
    "b" * 20_000,
    "é" * 130,
    "",
    " ",
    ".",
    "..",
    "two\nlines",
    "\r",
    "\u202etxt",
    "%s%n{0}",
    "-x",
    "--folder",
    "_hidden",
    "GWS",
    "random",
    "none",
)
"""Names that a terminal, a shell, a page, a picture, a table or a file system could read as something else."""
NUMBERS = (
    *(0, 1, -1, 2, 0.5, -0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *(10**6, 10**9, -(10**9), 2**31, 2**31 - 1, 2**32, 2**53 + 1, 2**63, 2**64, 10**30, -(2**63), 7, 1000),
)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "x",
    "0",
    "nan",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    [1, "x"],
    [[1, 2], [3]],
)
KNOWN: dict[str, tuple[Any, ...]] = {
    "skills": (10**9, -1, 10**6, 1.5, "2"),
    "seeds": (10**9, [0] * 1000, list(range(5000)), ["0/../../../guard/evil"], [-1], [2**70], 0),
    "seed": (10**9, -1, 2**70, "x"),
    "horizon": (10**9, 10**6, 0, -1),
    "trajectories": (10**9, 10**6),
    "batch": (10**9, 0),
    "hidden": ([10**9], [10**5, 10**5], [1] * 5000, [], [0]),
    "recurrent_units": (10**9, 0, -1),
    "epochs": (10**9, 0, -1),
    "iterations": (10**9, 0),
    "tasks": ([], 5, [{}], None, [None] * 1000),
    "members": (5, [], "GWS", [["GWS"]], [5, 6], ["GWS"] * 1000, [MARKUP, FORMULA]),
    "probabilities": ([], [1.0], [float("nan"), 1.0], 5, [0.5] * 1000, ["a", "b"], [-1, 2]),
    "init": ("run", "../run", ".", 5, [], {}, "random", "/dev/zero", "run/config.json"),
    "diayn": ("run", ".", 5, [], {}),
    "class": ("own.py:attack", "run/attack.py:attack", 5, None, "minigrid", "gridworld-slope", "/dev/zero:x"),
    "command": ("pretrain", "finetune", "metatrain", "untrained", "gradient-variance", "evaluate", 5, []),
    "shape": ([10**9], [10**5, 10**5], [-1], [], [0], [2**62, 4], ["a"], 5, [1.5]),
    "n": (10**9, -1, 0, 2**63),
    "dtype": ("float128", "O", "S10", "datetime64", "U100000000", "x", 5, "complex64", "V1000000000", "bool"),
    "kind": ("attack", "Box", "Discrete", "squashed", "gaussian", "categorical", ["gaussian"]),
    "observation_size": (10**9, 2**62, -1, 0),
    "action_size": (10**9, 0, -1, []),
    "features": (10**9, [10**9], []),
    "extent": ([0, 0, 0, 0], [float("nan")] * 4, [1], [1e308, -1e308, 0, 0]),
    "units": ([], [0.0], [-1.0, 1.0], [1e308] * 50, "x", [float("nan")] * 2),
    "keys": ([], [[1]], None, [[2**40, 1]], "x", [[-1, 0]]),
    "metrics": (None, [], {"bytes": -1, "sha256": ""}, {"bytes": 10**12, "sha256": "x"}, {"x": 1}),
    "seconds": (None, {}, {"total": "x"}, {"total": float("nan")}, 5, {"x": []}),
    "epoch": (10**9, -1, "x", None, 1.5, 0),
    "iteration": (10**9, -1, "x", None, 1.5),
    "scale": ("paper", "quick", 5, [], None),
    "image": ([10**6, 10**6, 3], [7, 7, 3], [-1, -1, 2], []),
    "entropy": ({}, [], 5, {"GWS": "x"}, {"GWS": [None]}),
    "returns": ([], [[]], [[float("nan")]], 5, [[1], [1, 2]], [["x"]]),
    "policies": (10**9, 0, -1, "x"),
    "policy_kwargs": ({}, 5, {"activation_fn": 5}, None),
    "maps": ([], [None], 5, [{}], [{"patches": [5]}]),
    "alphamepol_memory": ({}, 5, {"actions": {}}, [1]),
}
"""Values of fields that some reader takes for a count, a size, a name or a structure."""
_RAW = {
    "number": "9" * 5000,
    "deep list": "[" * 1000 + "]" * 1000,
    "deepest list": "[" * 100_000 + "]" * 100_000,
    "deep object": '{"a":' * 500 + "1" + "}" * 500,
    "exponent": "1e400",
    "minus": "-0",
    "long text": '"' + "x" * 10**6 + '"',
    "long list": "[" + "0," * 200_000 + "0]",
    "no value": "",
    "bad escape": '"\\ud8"',
}
DEEPEST = 50
"""The depth to which JSON is changed."""
_MARK = "\x02raw\x03"


def json_text(value: Any) -> str:
    """Return JSON, with the raw parts that `mutate_json` has put in place of values."""
    text = json.dumps(value)
    for name, raw in _RAW.items():
        text = text.replace(json.dumps(_MARK + name), raw)
    return text


def mutate_json(value: Any, chance: random.Random) -> tuple[Any, str]:
    """Change JSON in one place. Return it, or another value in its place, and the kind of the change."""
    places = list(_places_in_json(value))
    if not places:
        return chance.choice(OTHERS), "whole"
    known = [place for place in places if place[1] in KNOWN]
    if known and chance.random() < 0.4:
        holder, key = chance.choice(known)
        holder[key] = copy.deepcopy(chance.choice(KNOWN[key]))
        return value, "known field"
    shallow = [place for place in places if place[0] is value]
    holder, key = chance.choice(shallow if shallow and chance.random() < 0.5 else places)
    change, kind = chance.choice(_CHANGES)
    change(holder, key, chance)
    return value, kind


def _places_in_json(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield (holder, key) for every value inside a JSON value. Long lists give only their ends."""
    if isinstance(value, dict | list) and depth < DEEPEST:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys if len(keys) < 100 else (keys[0], keys[1], keys[-1]):
            yield value, key
            yield from _places_in_json(value[key], depth + 1)


def _remove(holder: Any, key: Any, chance: random.Random) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, chance: random.Random) -> None:
    value = holder.pop(key)
    if isinstance(holder, dict):
        holder[chance.choice((*NAMES, f"{key} ", str(key).upper()))] = value


def _retype(holder: Any, key: Any, chance: random.Random) -> None:
    holder[key] = copy.deepcopy(chance.choice(OTHERS))


def _number(holder: Any, key: Any, chance: random.Random) -> None:
    old = holder[key]
    plain = isinstance(old, int | float) and not isinstance(old, bool)
    near = (-old, old + 1, old * 10**9, old + 0.5, float(old), str(old), [old]) if plain and abs(old) < 1e30 else ()
    holder[key] = chance.choice((*NUMBERS, *near))


def _hostile_name(holder: Any, key: Any, chance: random.Random) -> None:
    holder[key] = chance.choice(NAMES)


def _nest(holder: Any, key: Any, chance: random.Random) -> None:
    holder[key] = chance.choice(([holder[key]], {"a": holder[key]}, [[holder[key]]], [holder[key]] * 3))


def _raw(holder: Any, key: Any, chance: random.Random) -> None:
    holder[key] = _MARK + chance.choice(list(_RAW))


def _lengthen(holder: Any, key: Any, chance: random.Random) -> None:
    old = holder[key]
    if isinstance(old, list):
        holder[key] = chance.choice((old * 2, old * 1000 if len(old) < 100 else old, old[:-1], old[1:], [], old[::-1]))
    elif isinstance(old, str):
        holder[key] = chance.choice(
            (old * 2, old * 10_000 if len(old) < 100 else old, old[:-1], old.upper(), f"{old}\0")
        )
    elif isinstance(old, dict):
        holder[key] = {**old, **{f"more {number}": number for number in range(chance.choice((1, 3000)))}}
    else:
        holder[key] = [old, old]


def _swap(holder: Any, key: Any, chance: random.Random) -> None:
    other = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


_CHANGES: tuple[tuple[Callable[[Any, Any, random.Random], None], str], ...] = (
    (_remove, "removed"),
    (_rename, "renamed"),
    (_retype, "other type"),
    (_retype, "other type"),
    (_number, "number"),
    (_number, "number"),
    (_hostile_name, "name"),
    (_nest, "nested"),
    (_raw, "raw"),
    (_lengthen, "length"),
    (_swap, "swapped"),
)


def mutate_json_text(text: str, chance: random.Random) -> tuple[str, str]:
    """Return the text of a JSON file, changed in one to three places, and the kinds of the changes."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text[: len(text) // 2], "cut"
    kinds = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        value, kind = mutate_json(value, chance)
        kinds.append(kind)
        if not isinstance(value, dict | list):
            break
    changed = json_text(value)
    if isinstance(value, dict) and value and chance.random() < 0.05:
        key = chance.choice(list(value))
        other = json_text(chance.choice((*OTHERS, *NUMBERS)))
        changed = f"{changed[:-1]}, {json.dumps(key)}: {other}}}"
        kinds.append("doubled")
    if chance.random() < 0.03:
        changed = chance.choice(
            (f"\ufeff{changed}", f"{changed}{changed}", f" \n{changed}\n\n", f"{changed},", changed[1:])
        )
        kinds.append("around")
    return changed, "+".join(dict.fromkeys(kinds))
