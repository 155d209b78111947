"""Sentences in the terminal."""

from rich.console import Console
from rich.text import Text

from alphamepol.files.names import message_as_text


def say_in_terminal(console: Console, sentence: str, style: str = "", *, soft_wrap: bool = True) -> None:
    """Print a sentence as it is, without markup. Characters that would control the terminal are shown as escapes.

    With `soft_wrap`, the terminal wraps the sentence, so that commands and paths in it can be copied.
    """
    console.print(Text(message_as_text(sentence), style), soft_wrap=soft_wrap)
