"""The command `alphamepol classes`, which lists the classes that have a name."""

import math

from rich.console import Console

from alphamepol.environments.registry import find_registered_class, registered_class_names
from alphamepol.errors import InputError
from alphamepol.figures.tables import table_of_class_members
from alphamepol.figures.terminal import say_in_terminal


def print_listing_of_classes(console: Console) -> None:
    """Print every class with its members, their probabilities and entropy ceilings, and its spaces."""
    for name in registered_class_names():
        entry = find_registered_class(name)
        assert entry is not None
        console.print(f"[bold]{name}[/bold]: {entry.description}.", highlight=False)
        try:
            environment_class = entry.build()
        except InputError as missing:  # an extra is not installed
            say_in_terminal(console, f"  {missing}\n", soft_wrap=False)
            continue
        first = environment_class[0]
        say_in_terminal(
            console, f"  observation {first.observation_space}, action {first.action_space}", soft_wrap=False
        )
        if environment_class.generator is None:
            console.print(table_of_class_members(environment_class))
        else:
            ceilings = [environment_class[name].entropy_ceiling for name in environment_class.names]
            known = f"{min(ceilings):.3f} to {max(ceilings):.3f}" if math.isfinite(max(ceilings)) else "unknown"
            names = f"{len(ceilings)} unseen members have names, from {environment_class.names[0]} on"
            say_in_terminal(console, f"  {names}; their entropy ceilings are {known}", soft_wrap=False)
        console.print()
