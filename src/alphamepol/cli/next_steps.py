"""The sentences that a command ends with: where its files are, and which command can come next."""

import os
from pathlib import Path

from rich.console import Console

from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.names import join_command_words

SHORT_FINETUNING = "--tasks", "5", "--iterations", "30"
"""The options of the short fine-tuning that commands propose as the next step."""


def own_class_words(class_name: str) -> tuple[str, ...]:
    """Return the option --class for a class of the user's own (FILE.py:FUNCTION), and nothing for others.

    Commands that read a run need this option, because reading a run folder never runs a program that it names.
    """
    return ("--class", class_name) if ":" in class_name else ()


def member_words(name: str) -> tuple[str, ...]:
    """Return the option --member. A name that begins with a hyphen would be read as an option of its own."""
    return (f"--member={name}",) if name.startswith("-") else ("--member", name)


def say_next_command(introduction: str, *words: str | Path) -> None:
    """Print a command line to go on with. Words that a shell would not read as they are, such as spaces, are quoted."""
    # A path that begins with a hyphen would be read as an option.
    plain = [
        os.path.join(".", word) if isinstance(word, Path) and str(word).startswith("-") else word for word in words
    ]
    say_after_command(f"{introduction}: {join_command_words(['alphamepol', *map(str, plain)])}")


def say_after_command(sentence: str) -> None:
    say_in_terminal(Console(), sentence)
