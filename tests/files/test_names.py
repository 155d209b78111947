"""Test names: any string becomes a path inside its folder, and a text by which it can be told from all others."""

import json
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest
from hostile_names import HOSTILE_NAMES
from hypothesis import example, given, settings
from hypothesis import strategies as st

import alphamepol as am
from alphamepol.errors import LONGEST_MESSAGE, InputError
from alphamepol.files.json_files import from_json, to_json
from alphamepol.files.names import (
    LARGEST_COMPONENT,
    LARGEST_PART,
    join_command_words,
    join_path_words,
    message_as_text,
    name_as_csv,
    name_as_path,
    name_as_tag,
    name_as_text,
)

pytestmark = pytest.mark.quick

ALL = list(HOSTILE_NAMES.values())
# Letters of few kinds meet each other more often than arbitrary ones.
NASTY = st.text("aAbB/\\.~_ \n\x1bux0e\u0301\u00e9ßẞſ…-=+'\u202e\ud800", max_size=8)
NAMES = st.one_of(st.sampled_from(ALL), NASTY, st.text(max_size=300))
SETS = st.lists(NAMES, unique=True, max_size=12)
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


def in_any_file_system(path: str) -> str:
    """Return a path without the differences that some file system ignores."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold().upper())


@pytest.mark.parametrize(
    "name", ["GWS", "Up", "gridworld-slope", "alpha-0.2", "heavy", "seed-0", "g=9.81, m=2 (slow)", "schräg", "x.y_z+1"]
)
def test_usual_names_stay_as_they_are(name: str) -> None:
    assert name_as_path(name) == name_as_text(name) == name_as_tag(name) == name_as_csv(name) == name


@given(NAMES)
@settings(max_examples=300, deadline=None)
@example("..")
@example("com¹.txt")
def test_a_path_stays_in_its_folder(name: str) -> None:
    path = name_as_path(name)
    assert 0 < len(path.encode()) <= LARGEST_PART
    assert (Path("folder") / path).resolve().parent == Path("folder").resolve()
    assert not set(path) & set('/\\<>:"|?*')
    assert path.isprintable()
    assert path[0] not in "-. "
    assert path[-1] not in ". "
    assert unicodedata.normalize("NFKC", path).partition(".")[0].strip().casefold() not in RESERVED


@given(SETS)
@settings(max_examples=300, deadline=None)
@example(ALL)
@example(["straße", "STRASSE", "\ufb01", "fi", "K", "k", "\u212a"])
def test_no_two_names_have_one_path(names: list[str]) -> None:
    paths = [in_any_file_system(name_as_path(name, names)) for name in names]
    assert len(set(paths)) == len(paths)


def test_a_name_can_be_taken() -> None:
    assert name_as_path("figures", ["figures", "other"]) == "figures"
    assert name_as_path("Figures", ["Figures", "other", "figures"]).startswith("Figures~")


def test_joined_words_have_a_limited_length() -> None:
    words = ["finetune", name_as_path("x" * 3000), name_as_path("y" * 3000), "", "seed-0"]
    assert len(join_path_words(*words)) == LARGEST_COMPONENT
    assert join_path_words(*words) != join_path_words(*words[:-1], "seed-1")
    assert join_path_words("finetune", "GWS", "", "seed-0") == "finetune-GWS-seed-0"


@given(SETS, st.sampled_from([None, 28, 60]))
@settings(max_examples=300, deadline=None)
@example(ALL, 28)
@example(["x" * 60, "x" * 61, name_as_text("x" * 61, 60)], 60)
def test_texts_are_printable_and_different(names: list[str], width: int | None) -> None:
    texts = [name_as_text(name, width) for name in names]
    assert len(set(texts)) == len(names)
    assert all(text.isprintable() and text.strip() for text in texts)
    assert all(len(text) <= width for text in texts if width)
    assert len({name_as_tag(name) for name in names}) == len(names)
    assert not any("/" in name_as_tag(name) for name in names)


@given(NAMES.filter(bool))
@settings(max_examples=300, deadline=None)
def test_a_text_holds_the_whole_name(name: str) -> None:
    text = name_as_text(name)
    # Python's own escapes express the characters that are written as they are, too.
    ascii_text = "".join(one if one.isascii() else one.encode("unicode_escape").decode() for one in text)
    assert ascii_text.encode().decode("unicode_escape") == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines", "two\\nlines"),
        ("two\\nlines", "two\\\\nlines"),
        ("abc\u202etxt", "abc\\u202etxt"),
        ("\ud800", "\\ud800"),
        ("", "\\empty"),
        (" a  b ", "\\x20a \\x20b\\x20"),
        ("$x$ [/red] α 山", "$x$ [/red] α 山"),
        ("e\u0301", "e\\u0301"),
    ],
)
def test_what_cannot_be_seen_is_shown(name: str, text: str) -> None:
    assert name_as_text(name) == text


def test_a_long_name_keeps_its_ends() -> None:
    text = name_as_text("begin" + "x" * 3000 + "end", 40)
    assert text.startswith("beginx")
    assert "xend~" in text
    assert "…" in text
    assert len(text) == 40


def test_a_message_keeps_its_lines() -> None:
    said = 'environment a: it failed\n  File "C:\\new.py", line 3\n\tValueError\r\nend'
    assert message_as_text(said) == said.replace("\r\n", "\n")
    assert message_as_text("\x1b[2Jgone\x07\ud800") == "\\x1b[2Jgone\\x07\\ud800"


def test_a_message_with_a_name_of_megabytes_is_short() -> None:
    text = message_as_text(f"class: {'x' * 10**6} was given")
    assert len(text) < 1.01 * LONGEST_MESSAGE
    assert text.startswith("class: x")
    assert f"({10**6 + 17 - LONGEST_MESSAGE} characters are left out here)" in text
    assert text.endswith("x was given")
    assert str(InputError(f"class: {'x' * 10**6} was given")) == text


@given(NAMES)
@settings(max_examples=300, deadline=None)
def test_no_cell_is_a_formula(name: str) -> None:
    cell = name_as_csv(name)
    assert cell.isprintable()
    if cell[:1] in ("=", "+", "-", "@"):
        float(cell)
    cell.encode()


def test_cells_are_different_and_numbers_stay_numbers() -> None:
    assert len({name_as_csv(name) for name in ALL}) == len(ALL)
    assert [name_as_csv(name) for name in ("=1", "'=1", "''=1", "-x", "@a", "-5", "+1e3", "it's")] == [
        *("'=1", "''=1", "'''=1", "'-x", "'@a", "-5", "+1e3", "it's"),
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_shell_reads_the_words_as_they_are() -> None:
    possible = [name for name in ALL if "\x00" not in name and "\ud800" not in name]
    line = join_command_words(["printf", "%s\\0", *possible])
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.split(b"\0")[:-1] == [name.encode(errors="surrogateescape") for name in possible]


@pytest.mark.parametrize("name", ALL, ids=HOSTILE_NAMES)
def test_json_holds_any_name(name: str) -> None:
    written = to_json({name: [name]}).encode()
    assert from_json(written) == json.loads(written) == {name: [name]}


def test_names_that_json_would_change_are_refused() -> None:
    for name in ("\ud83d\ude00", 3):
        with pytest.raises(am.InputError, match="as a name; give a text that JSON can hold"):
            am.EnvironmentClass({"a": am.Gridworld("."), name: am.Gridworld(".")})
