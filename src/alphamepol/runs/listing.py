"""What can be named as CLASS, as a table."""

import math

from rich.console import Console
from rich.table import Table

from alphamepol.environments.registry import CLASSES
from alphamepol.errors import InputError


def print_classes(console: Console) -> None:
    """Print every class with its members, their probabilities and entropy ceilings, and its spaces."""
    for name, build in CLASSES.items():
        console.print(f"[bold]{name}[/bold]: {build.__doc__}.", highlight=False)
        try:
            environment_class = build()
        except InputError as missing:  # an extra is not installed
            console.print(f"  {missing}\n", highlight=False, markup=False)
            continue
        first = environment_class[0]
        console.print(f"  observation {first.observation_space}, action {first.action_space}", highlight=False)
        table = Table(box=None, padding=(0, 2))
        for column in ("member", "probability", "entropy ceiling"):
            table.add_column(column, justify="left" if column == "member" else "right")
        for i, member in enumerate(environment_class.names):
            ceiling = environment_class[i].entropy_ceiling
            table.add_row(
                member,
                f"{environment_class.probabilities[i]:g}",
                f"{ceiling:.3f}" if math.isfinite(ceiling) else "unknown",
            )
        console.print(table)
        console.print()
