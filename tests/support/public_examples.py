"""The examples in the docstrings of public names."""

import inspect
import re

import alphamepol as am


def example_of(name: str) -> str | None:
    """Return the code of the first example in the docstring of a public name; None if there is no example."""
    text = inspect.getdoc(getattr(am, name)) or ""
    found = re.search(r"\*\*Example\*\*.*?```python\n(.*?)```", text, re.DOTALL)
    return found and found[1]
