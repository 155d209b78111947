"""The two kinds of failure a user can meet; `cli.py` turns them into exit statuses."""


class InputError(ValueError):
    """What the user asked for cannot be done: which field, what was given, what is allowed."""


class RunError(RuntimeError):
    """A run had to stop: where, why, and how to mend it."""
