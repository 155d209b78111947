"""Names as text, as parts of paths, as tags, and as words of a command line. A name can be any string.

The names of members, classes, features, files and runs come from users and from files of others. Such a name may be
empty or very long. It may hold control characters, slashes, or other characters that a terminal, a file system or a
shell would obey.
"""

import functools
import hashlib
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from alphamepol.errors import shorten_message

WIDTH = 60
"""The largest number of characters of a name where space is limited, for example in tables and tags."""
EMPTY = "\\empty"
"""The text of the empty name."""
LARGEST_PART = 100
"""The largest number of bytes of a name in a path."""
LARGEST_COMPONENT = 200
"""The largest number of bytes of several names that are joined. File systems allow 255 bytes."""
_SHORTENED = re.compile("….*~[0-9a-f]{8}$")
_KEPT_IN_PATHS = frozenset("-_.,+=@()[] ")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\s*(\..*)?", re.IGNORECASE)
_FORMULA = re.compile("'*[=+@＝＋＠－-]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@functools.lru_cache(4096)
def name_as_text(name: str, width: int | None = None, can_show: Callable[[str], bool] = str.isprintable) -> str:
    r"""Return a name as one line of printable text. Different names give different texts.

    Printable characters stay as they are. All others become escapes, as in Python: \n, \x1b, \u202e. A backslash is
    doubled, so that no text looks like an escape. Spaces that a reader could not see become \x20: at the ends of a
    name, and after another space. Accents that are characters of their own become escapes too, if the accented letter
    is also one character, because both look the same. The empty name becomes \empty.

    **Arguments**

    - `name`: any string.
    - `width`: the largest number of characters. The middle of a longer text is replaced by "…", and the text ends in
      eight digits of a hash, so that names which differ only in the middle can be told apart.
    - `can_show`: tells which printable characters can be shown, for example those that a font has.
    """
    if not name:
        return EMPTY
    composed = unicodedata.is_normalized("NFC", name)
    shown = (
        one
        if one != "\\" and one.isprintable() and can_show(one) and (composed or not _changes_in_composition(one))
        else _escaped_in_name(one)
        for one in name
    )
    text = re.sub("^ | $|(?<= ) ", r"\\x20", "".join(shown))
    # A short name that looks like a shortened one is treated as such, because it could be taken for another name.
    if width is None or (len(text) <= width and not _SHORTENED.search(text)):
        return text
    kept = width - 10
    return f"{text[: kept - kept // 2]}…{text[max(0, len(text) - kept // 2) :]}~{_hash_of_name(name)[:8]}"


def message_as_text(message: str) -> str:
    """Return a message in which all unprintable characters but line breaks and tabs are shown as escapes.

    A message may have several lines, for example those of an error in an environment. Names in a message should be
    given by `name_as_text`, so that their line breaks become visible. The middle of a very long message is left out.
    """
    message = message.replace("\r\n", "\n")
    shown = shorten_message(message)
    return "".join(one if one.isprintable() or one in "\n\t" else _escaped_in_name(one) for one in shown)


def name_as_tag(name: str) -> str:
    """Return a name as a part of a TensorBoard tag or of a wandb key. Slashes, which would make groups, are escaped."""
    return name_as_text(name, WIDTH).replace("/", "\\x2f")


def name_as_csv(name: str) -> str:
    """Return a name as a cell of a CSV file, whole, on one line, and never as a formula of a spreadsheet.

    A text that begins with =, +, - or @, and that is no number, gets a leading apostrophe. A tab or a line break at
    the beginning becomes an escape, and so no formula either. An empty cell stays empty.
    """
    text = name_as_text(name) if name else ""
    formula = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if formula else text


def name_as_path(name: str, among: Iterable[str] = ()) -> str:
    """Return a name as one component of a path, of at most `LARGEST_PART` bytes. It cannot leave its folder.

    A name of letters, digits and usual punctuation stays as it is. All other characters become underscores. If anything
    was changed, a hash of the whole name follows after a tilde. Since a tilde is never kept, no other name gives the
    same path.

    `among` are all names in the same folder, including this one. If several of them differ only in case, they get a
    hash too, because some file systems ignore the case.
    """
    text = unicodedata.normalize("NFC", name)
    text = "".join(one if one.isalnum() or one in _KEPT_IN_PATHS else "_" for one in text)
    # A path must not begin like an option or a hidden file. Windows ignores dots and spaces at the end.
    text = re.sub(r"^[-. ]+|[. ]+$", lambda found: "_" * len(found[0]), text) or "_"
    if _RESERVED.fullmatch(unicodedata.normalize("NFKC", text)):
        text = f"_{text}"
    alike = sum(_case_of_path(other) == _case_of_path(name) for other in among)
    if text != name or alike > 1 or len(text.encode()) > LARGEST_PART:
        return _with_hash_in_path(text, name, LARGEST_PART)
    return text


def join_path_words(*words: str) -> str:
    """Return one component of a path: the words that are not empty, joined by hyphens, of limited length.

    Words that are names must come from `name_as_path`.
    """
    joined = "-".join(word for word in words if word)
    if len(joined.encode()) > LARGEST_COMPONENT:
        return _with_hash_in_path(joined, joined, LARGEST_COMPONENT)
    return joined


def join_command_words(words: Iterable[str]) -> str:
    """Return a command line that a shell reads as these words. Bash, zsh and ksh read its escapes, such as $'\\x1b'."""
    return " ".join(map(_word_of_command, words))


def _word_of_command(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escaped = (one if one.isprintable() and one not in "\\'" else _bytes_in_command(one) for one in word)
    return f"$'{''.join(escaped)}'"


def _bytes_in_command(character: str) -> str:
    # Python reads bytes of file names that are no UTF-8 as these surrogates.
    errors = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors=errors))


def _changes_in_composition(character: str) -> bool:
    return unicodedata.combining(character) > 0 or not unicodedata.is_normalized("NFC", character)


def _escaped_in_name(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _with_hash_in_path(text: str, name: str, most: int) -> str:
    ending = f"~{_hash_of_name(name)[:12]}"
    return text.encode()[: most - len(ending)].decode(errors="ignore") + ending


def _case_of_path(name: str) -> str:
    """Return a name without the differences that some file systems ignore: case, and forms of Unicode."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).upper().casefold())


def _hash_of_name(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def describe_plainly(thing: Any) -> str:
    """Return a text that distinguishes objects and is the same in every process.

    Numbers, texts, slices, arrays and collections are described by their values, functions by their names, and other
    objects by their types.
    """
    if isinstance(thing, partial):
        return " ".join(describe_plainly(part) for part in (thing.func, thing.args, thing.keywords))
    if isinstance(thing, Mapping):
        return str([(describe_plainly(name), describe_plainly(value)) for name, value in thing.items()])
    if isinstance(thing, list | tuple):
        return str([describe_plainly(part) for part in thing])
    if isinstance(thing, np.ndarray):
        return str(thing.tolist())
    if thing is None or isinstance(thing, str | int | float | slice | np.generic):
        return repr(thing)
    return getattr(thing, "__qualname__", type(thing).__qualname__)
