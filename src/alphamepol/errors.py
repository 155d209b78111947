"""The two kinds of errors that a user can meet. `cli/main.py` turns them into exit statuses."""

LONGEST_MESSAGE = 20_000
"""The largest number of characters of a message. A file of somebody else may hold a name of megabytes."""


def shorten_message(message: str) -> str:
    """Return a message without the middle if it is very long."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    half, rest = LONGEST_MESSAGE // 2, len(message) - LONGEST_MESSAGE
    return f"{message[:half]} … ({rest} characters are left out here) … {message[-half:]}"


class InputError(ValueError):
    """The user asked for something that cannot be done.

    The message names the field or the file, what was given, and what is allowed. The command line prints the message
    and exits with status 2.

    **Example**

    ```python
    import alphamepol as am

    try:
        am.PretrainConfig(alpha=2.0).check()
    except am.InputError as error:
        print(error)  # alpha: 2.0 was given; it must be above 0 and at most 1
    ```
    """

    def __init__(self, message: str):
        super().__init__(shorten_message(message))


class RunError(RuntimeError):
    """A run had to stop, for example because a parameter of a policy is no longer finite.

    The message says where the run stopped, why, and what to do. The command line prints the message and exits with
    status 1.
    """
