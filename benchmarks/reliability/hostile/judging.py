"""Judge the end of a command that was given a hostile input."""

import base64
import os
import re
import shutil
from pathlib import Path

from benchmarks.reliability.hostile.confinement import PEAK, SECONDS, Outcome
from benchmarks.reliability.hostile.mutations import Place
from benchmarks.reliability.hostile.values import FORMULA, MARKUP

SECRET = "alphamepol-secret-7b1f0c55a9e24d3c8a6d-" * 4
EVIL = (Path("/tmp/alphamepol-evil"),)
LONGEST = 100_000
"""The most bytes that a command may print about a hostile input."""
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def make_guard(guard: Path) -> None:
    """Make the folder that no command may read or change, with a secret in several formats."""
    shutil.rmtree(guard, ignore_errors=True)
    (guard / "folder").mkdir(parents=True)
    (guard / "secret.json").write_text(f'{{"{SECRET}": "{SECRET}", "command": "{SECRET}", "class": "{SECRET}"}}')
    (guard / "secret.jsonl").write_text(f'{{"epoch": 0, "seed": 0, "{SECRET}": 1}}\n')
    (guard / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n" + SECRET.encode() * 3)
    (guard / "secret.txt").write_text(SECRET * 3)
    (guard / "secret.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0" + SECRET.encode())
    (guard / "folder" / "kept").write_text("kept")
    (guard / "folder" / "epoch-000001.json").write_text("{}")
    (guard / "linked").write_text("linked")


def guard_state(guard: Path) -> dict[str, tuple[int, bytes]]:
    """Return the modes and contents of all files in the guarded folder."""
    found = {}
    for path in sorted(guard.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() and state.st_size < 2**20 else b""
        found[str(path.relative_to(guard))] = (state.st_mode, content)
    return found


def violations(outcome: Outcome, place: Place, guard: dict[str, tuple[int, bytes]], *, function: bool) -> list[str]:
    """Return the kinds of all violations. `guard` is the state of the guarded folder before the command."""
    worked = bool(outcome.noted("work"))
    found = []
    uncaught = {name for note in outcome.noted("exception") for name in note["types"]}
    if function and uncaught & {"InputError", "RunError"}:
        uncaught = set()
    said = outcome.out + outcome.err
    if uncaught or (not function and b"Traceback (most recent call last)" in outcome.err):
        found.append("traceback")
    elif outcome.status not in (0, 1, 2, 130) and not outcome.timed_out:
        found.append("status")
    elif not function and outcome.status in (1, 2) and not outcome.err.strip() and not outcome.out.strip():
        found.append("no sentence")
    if not worked and outcome.seconds > SECONDS:
        found.append("time")
    if not worked and (outcome.peak > PEAK or b"not enough memory" in outcome.err or "MemoryError" in uncaught):
        found.append("memory")
    if outcome.noted("write") or guard_state(place.guard) != guard or any(os.path.lexists(one) for one in EVIL):
        found.append("written outside")
    if outcome.noted("program") or place.canary.exists():
        found.append("program")
    if not function and CONTROL.search(said):
        found.append("control characters")
    if len(said) > LONGEST:
        found.append("flood")
    found += _violations_in_outputs(said, place.inside)
    return found


def _violations_in_outputs(said: bytes, inside: Path) -> list[str]:
    contents = [("", said)]
    for folder, _, names in os.walk(inside):
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink() and path.is_file() and path.stat().st_size < 2**24:
                try:
                    contents.append((path.suffix, path.read_bytes()))
                except OSError:
                    continue
    found = set()
    for suffix, content in contents:
        if any(part in content for part in _SECRETS):
            found.add("secret")
        if suffix == ".html" and (MARKUP.encode() in content or b"<img src=x onerror" in content):
            found.add("markup in a page")
        if suffix == ".csv" and re.search(rb"(^|[,\n])\"?" + re.escape(FORMULA.encode()), content):
            found.add("formula in a table")
    return sorted(found)


def _secret_forms() -> tuple[bytes, ...]:
    """Return the secret as text, and as it looks in base64 at each of the three offsets."""
    text = SECRET.encode()
    coded = [base64.b64encode(b"x" * shift + text)[8:100] for shift in range(3)]
    return (text[:60], *coded)


_SECRETS = _secret_forms()


def signature(outcome: Outcome) -> str:
    """Return the place and the type of an exception, by which equal violations are counted together."""
    text = next((note["text"] for note in outcome.noted("exception")), outcome.err.decode("utf-8", "replace"))
    frames = re.findall(r'File "[^"]*?alphamepol/([^"]+)", line (\d+), in (\w+)', text)
    place = "{}:{} {}".format(*frames[-1]) if frames else ""
    last = text.strip().splitlines()[-1][:300] if text.strip() else ""
    return f"{place} | {last}" if "Traceback" in text else last
