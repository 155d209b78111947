"""The generator of hostile inputs: it changes a copy of a real run folder or policy file, from a seed."""

import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reliability.hostile.archives import mutate_safetensors, mutate_zip
from benchmarks.reliability.hostile.sums import BROKEN, correct_sums, is_plain_file, read_safetensors, write_safetensors
from benchmarks.reliability.hostile.values import NAMES, mutate_json_text

LARGEST = 2**30
"""The largest size of a sparse file, in bytes."""
MOST_READ = 2**24
"""The most bytes of a file that a change keeps. An earlier change can have made the file a gigabyte large."""
REPLACEMENTS = (
    *("link to secret", "link to secret", "dangling link", "circular link", "link to device", "link to proc"),
    *("link to folder", "pipe", "socket", "folder", "hard link", "link to itself moved", "no rights"),
)
PROGRAM = """from pathlib import Path

Path({canary!r}).touch()


def attack():
    Path({canary!r}).touch()
"""


@dataclass(frozen=True)
class Place:
    """The folders of one input."""

    inside: Path
    """The working folder of the command, which holds the input."""
    guard: Path
    """A folder beside it, which no command may read or change."""

    @property
    def canary(self) -> Path:
        """The file that a program from the input would write."""
        return self.guard / "canary"

    @property
    def secrets(self) -> list[Path]:
        return sorted(self.guard.glob("secret*"))


def mutate_input(target: Path, place: Place, patterns: tuple[str, ...], chance: random.Random) -> tuple[list[str], str]:
    """Change a run folder or a policy file in one to three ways. Return their kinds, and what became of wrong sums.

    `patterns` describe the files that are changed more often than others.
    """
    kinds = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        try:
            if target.is_dir() and not target.is_symlink():
                kinds.append(_mutate_folder(target, place, patterns, chance))
            elif is_plain_file(target):
                kinds.append(_mutate_file(target, place, chance))
        except (OSError, ValueError, RuntimeError, LookupError):
            kinds.append("stopped: an earlier change is in the way")
    right = chance.random() < 0.5
    folder = target if target.is_dir() and not target.is_symlink() else target.parent
    wrong = correct_sums(folder, write=right)
    return kinds, "" if not wrong else "sums made right" if right else "sums left wrong"


def _files_of_input(folder: Path, chance: random.Random) -> list[Path]:
    """Return the files of a folder. Most of the time, pictures and tables are left out, which few readers open."""
    found = [path for path in sorted(folder.rglob("*")) if is_plain_file(path)]
    plain = [path for path in found if path.suffix in (".json", ".jsonl", ".safetensors", ".zip")]
    return plain if plain and chance.random() < 0.92 else found


def _mutate_folder(folder: Path, place: Place, patterns: tuple[str, ...], chance: random.Random) -> str:
    if chance.random() < 0.75:
        # A folder may have become a link to outside.
        found = [
            path for path in folder.glob(chance.choice(patterns)) if path.resolve().is_relative_to(folder.resolve())
        ]
        likely = [path for path in found if is_plain_file(path)]
        files = sorted(likely) if likely and chance.random() < 0.85 else _files_of_input(folder, chance)
        if files:
            return _mutate_file(chance.choice(files), place, chance)
    return chance.choice(_FOLDER_CHANGES)(folder, place, chance)


def _mutate_file(path: Path, place: Place, chance: random.Random) -> str:
    draw = chance.random()
    if draw < 0.72:
        return _mutate_content(path, place, chance)
    if draw < 0.87:
        return f"bytes: {_mutate_bytes(path, chance)}"
    return f"file: {_replace_file(path, place, chance)}"


def _mutate_content(path: Path, place: Place, chance: random.Random) -> str:
    with path.open("rb") as file:
        content = file.read(MOST_READ)
    if path.suffix == ".json":
        text, kind = mutate_json_text(content.decode("utf-8", "replace"), chance)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return f"json: {kind}"
    if path.suffix == ".jsonl":
        return f"metrics: {_mutate_metrics(path, content, chance)}"
    if path.suffix == ".safetensors":
        try:
            changed, kind = mutate_safetensors(content, chance)
        except BROKEN:  # a file that was changed before
            return f"bytes: {_mutate_bytes(path, chance)}"
        path.write_bytes(changed)
        return f"safetensors: {kind}"
    if path.suffix == ".zip":
        try:
            changed, kind = mutate_zip(content, place.canary, chance)
        except Exception:  # a file that was changed before can fail in many ways
            return f"bytes: {_mutate_bytes(path, chance)}"
        path.write_bytes(changed)
        return f"zip: {kind}"
    return f"bytes: {_mutate_bytes(path, chance)}"


def _mutate_metrics(path: Path, content: bytes, chance: random.Random) -> str:
    lines = content.splitlines(keepends=True) or [b"{}\n"]
    number = chance.randrange(len(lines))
    kind = chance.choice(
        ("field", "field", "field", "cut", "no object", "binary", "doubled", "removed", "many", "swapped")
    )
    if kind == "field":
        text, change = mutate_json_text(lines[number].decode("utf-8", "replace"), chance)
        lines[number] = text.encode("utf-8", "surrogatepass") + b"\n"
        kind = f"field {change}"
    elif kind == "cut":
        lines[number:] = [lines[number][: len(lines[number]) // 2]]
    elif kind == "no object":
        lines[number] = chance.choice((b"[]\n", b"5\n", b"null\n", b'"x"\n', b"{}\n", b"\n", b"[" * 100_000 + b"\n"))
    elif kind == "binary":
        lines[number] = chance.randbytes(200) + b"\n"
    elif kind == "doubled":
        lines.insert(number, lines[number])
    elif kind == "removed":
        del lines[number]
    elif kind == "many":
        lines *= min(chance.choice((100, 20_000)), 1 + 4 * MOST_READ // (1 + len(content)))
    else:
        chance.shuffle(lines)
    path.write_bytes(b"".join(lines))
    return kind


def _mutate_bytes(path: Path, chance: random.Random) -> str:
    size = path.stat().st_size
    kind = chance.choice(("cut", "padded", "flipped", "flipped", "empty", "random", "sparse", "removed", "line ends"))
    if kind == "sparse":
        os.truncate(path, chance.choice((2**20, 2**26, 2**28 + 1, LARGEST)))
    elif kind == "removed":
        path.unlink()
    elif kind == "empty" or not size:
        path.write_bytes(b"")
    else:
        with path.open("rb") as file:
            content = bytearray(file.read(MOST_READ))
        if kind == "cut":
            content = content[: chance.randrange(len(content))]
        elif kind == "padded":
            content += chance.choice((b"\0", b" " * 1000, chance.randbytes(1000), b"\0" * 10**6))
        elif kind == "random":
            content = bytearray(chance.randbytes(min(len(content), 4096)))
        elif kind == "line ends":
            content = content.replace(b"\n", b"\r\n")
        else:
            for _ in range(chance.choice((1, 1, 3, 30))):
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
    return kind


def _replace_file(path: Path, place: Place, chance: random.Random) -> str:
    """Put something else in the place of a file or folder: a link, a pipe, a socket or a folder."""
    kind = chance.choice(REPLACEMENTS)
    moved = path.with_name(f"{path.name}.moved")
    if kind == "no rights":
        path.chmod(0)
        return kind
    if kind == "link to itself moved":
        path.rename(moved)
        path.symlink_to(moved.name)
        return kind
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    if kind == "link to secret":
        alike = [secret for secret in place.secrets if secret.suffix == path.suffix]
        secret = chance.choice(alike or place.secrets)
        path.symlink_to(secret if chance.random() < 0.5 else os.path.relpath(secret, path.parent))
    elif kind == "dangling link":
        path.symlink_to(place.guard / "created")
    elif kind == "circular link":
        path.symlink_to(path.name)
    elif kind == "link to device":
        path.symlink_to(
            chance.choice(("/dev/zero", "/dev/stdin", "/dev/null", "/dev/full", "/dev/urandom", "/dev/tty"))
        )
    elif kind == "link to proc":
        path.symlink_to(
            chance.choice(("/proc/self/maps", "/proc/self/mem", "/proc/kmsg", "/proc/self/environ", "/proc"))
        )
    elif kind == "link to folder":
        path.symlink_to(chance.choice((place.guard, place.guard / "folder", Path("/"), path.parent)))
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        _bind_socket(path)
    elif kind == "folder":
        path.mkdir()
    else:
        os.link(place.guard / "linked", path)
    return kind


def _bind_socket(path: Path) -> None:
    """Make a socket. Its address may have at most 108 bytes, so that it is bound under a short relative name."""
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("s")
        os.rename("s", path.name)
    finally:
        os.chdir(before)


def _rename_everywhere(folder: Path, place: Place, chance: random.Random) -> str:
    """Give a member, the class or a label a hostile name, in all files alike."""
    runs = [path.parent for path in sorted(folder.rglob("config.json")) if is_plain_file(path)]
    if not runs:
        return "name: none"
    try:
        described = json.loads((chance.choice(runs) / "config.json").read_bytes())
        olds = [one for one in (*described.get("members", ()), described.get("member"), described["class"]) if one]
        old = str(chance.choice(olds))
    except BROKEN:
        return "name: none"
    before, after = json.dumps(old), json.dumps(chance.choice(NAMES))
    for path in [*folder.rglob("*.json"), *folder.rglob("*.jsonl")]:
        if is_plain_file(path):
            text = path.read_bytes()
            path.write_bytes(text.replace(before.encode(), after.encode()))
    for path in folder.rglob("*.safetensors"):
        try:
            if not is_plain_file(path):
                continue
            header, data = read_safetensors(path.read_bytes())
            described = header["__metadata__"]["alphamepol"].replace(before, after)
            header["__metadata__"]["alphamepol"] = described
            path.write_bytes(write_safetensors(header, data))
        except BROKEN:
            continue
    return "name: everywhere"


def _change_checkpoints(folder: Path, place: Place, chance: random.Random) -> str:
    folders = [path for path in sorted(folder.rglob("checkpoints")) if path.is_dir() and not path.is_symlink()]
    files = [path for one in folders for path in sorted(one.iterdir()) if "-" in path.name and is_plain_file(path)]
    if not files:
        return "checkpoint: none"
    one = chance.choice(files)
    unit, number = one.stem.split("-")[:2]
    new = chance.choice(
        ("1000000", "-000001", "abc", "", "9" * 30, "9" * 5000, "000000", "٣", "1e3", "0x1", "000001", "00000000002")
    )
    new = new[:200]
    whole = chance.random() < 0.7
    for path in files:
        if (path.name.startswith(f"{unit}-{number}") if whole else path == one) and path.parent == one.parent:
            name = path.name.replace(f"-{number}", f"-{new}", 1)
            if path.exists() and not path.with_name(name).exists():
                shutil.copy(path, path.with_name(name)) if chance.random() < 0.5 else path.rename(path.with_name(name))
    return "checkpoint: names"


def _name_itself(folder: Path, place: Place, chance: random.Random) -> str:
    """Let runs begin from themselves, or from each other in a circle."""
    configs = [path for path in sorted(folder.rglob("config.json")) if is_plain_file(path)]
    names = [path.parent.name for path in configs]
    for number, path in enumerate(configs):
        try:
            described = json.loads(path.read_bytes())
            field = chance.choice(("init", "init", "diayn"))
            described[field] = chance.choice((names[number - 1], str(path.parent), names[number], f"x/{names[number]}"))
            path.write_text(json.dumps(described))
        except BROKEN:
            continue
    return "init: circle"


def _plant_program(folder: Path, place: Place, chance: random.Random) -> str:
    """Let config.json or class.json name a program as the class, which lies in the folder."""
    program = folder / "attack.py"
    program.write_text(PROGRAM.format(canary=str(place.canary)))
    names = (f"{folder.name}/attack.py:attack", f"{program}:attack", "attack.py:attack")
    for path in sorted(folder.rglob("*.json")):
        named = path.name in ("config.json", "class.json", "summary.json")
        if named and is_plain_file(path) and chance.random() < 0.8:
            try:
                described = json.loads(path.read_bytes())
                described["class"] = chance.choice(names)
                path.write_text(json.dumps(described))
            except BROKEN:
                continue
    for name in ("conftest.py", "jax.py", "sitecustomize.py", "usercustomize.py"):
        shutil.copy(program, folder / name)
    return "class: program"


def _replace_folder(folder: Path, place: Place, chance: random.Random) -> str:
    inner = [path for path in sorted(folder.rglob("*")) if path.is_dir() and not path.is_symlink()]
    inner = [*inner, folder] if chance.random() < 0.15 else inner
    if not inner:
        return "folder: none"
    path = chance.choice(inner)
    kind = _replace_file(path, place, chance)
    if path == folder and path.is_symlink() and path.is_dir() and kind != "link to itself moved":
        # A user may give a link to a folder as the name of a whole run. The link then leads to a harmless folder.
        path.unlink()
        (place.inside / "elsewhere").mkdir(exist_ok=True)
        path.symlink_to("elsewhere")
    return f"folder: {kind}"


def _leave_unfinished(folder: Path, place: Place, chance: random.Random) -> str:
    """Leave files as a crash would, or links under the names of temporary files."""
    inner = [folder, *(path for path in sorted(folder.rglob("*")) if path.is_dir() and not path.is_symlink())]
    for one in inner:
        for name in ("config.json", "summary.json", "metrics.jsonl"):
            path = one / f".{name}.{chance.choice((1, os.getpid() + 1))}.alphamepol-tmp"
            draw = chance.random()
            if path.exists() or path.is_symlink():
                continue
            if draw < 0.3:
                path.write_text("{")
            elif draw < 0.6:
                path.symlink_to(chance.choice(place.secrets))
            elif draw < 0.7:
                path.mkdir()
    if chance.random() < 0.5:
        lock = folder / ".lock"
        lock.unlink(missing_ok=True)
        lock.symlink_to(chance.choice((place.guard / "created", place.secrets[0], "/dev/zero", ".lock")))
    return "unfinished files"


def _add_picture(folder: Path, place: Place, chance: random.Random) -> str:
    """Put a picture among the figures that is a link, a pipe, a very large file, or no picture."""
    figures = folder / "figures"
    if figures.is_symlink() or (figures.exists() and not figures.is_dir()):
        return "picture: none"  # an earlier change may have made it a link to outside
    figures.mkdir(exist_ok=True)
    path = figures / chance.choice(("z.png", "a b.png", "<img>.png", "$x.png"))
    if os.path.lexists(path) and not path.is_dir():
        path.unlink()  # an earlier change may have made it a pipe, for which writing would wait for ever
    path.write_bytes(b"no picture")
    if chance.random() < 0.3:
        os.truncate(path, chance.choice((2**26, LARGEST)))
        return "picture: sparse"
    return f"picture: {_replace_file(path, place, chance)}"


def _mix_runs(folder: Path, place: Place, chance: random.Random) -> str:
    """Exchange two files of the same kind."""
    files = _files_of_input(folder, chance)
    first = chance.choice(files) if files else None
    others = [path for path in files if first and path.suffix == first.suffix and path != first]
    if first is None or not others:
        return "mixed: none"
    other = chance.choice(others)
    content = first.read_bytes()
    first.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return "mixed: files"


_FOLDER_CHANGES: tuple[Callable[[Path, Place, random.Random], str], ...] = (
    _rename_everywhere,
    _rename_everywhere,
    _rename_everywhere,
    _change_checkpoints,
    _name_itself,
    _plant_program,
    _replace_folder,
    _replace_folder,
    _leave_unfinished,
    _add_picture,
    _mix_runs,
)
