"""The views of objects in a notebook: functions of later subpackages, by name.

A notebook asks an object itself for its HTML, by the method `_repr_html_`. The object lies in an early subpackage, and
HTML is made in `pages`, which imports the object's subpackage. Therefore the object calls its view by name, as
`environments/registry.py` does with the files of classes. Nothing is imported before somebody looks.
"""

import importlib
from typing import Any

VIEWS = {
    "class": "alphamepol.pages.notebook:html_of_class",
    "evaluation": "alphamepol.pages.notebook:html_of_evaluation",
    "run": "alphamepol.pages.notebook:html_of_run",
    "video": "alphamepol.pages.notebook:html_of_video",
    "replay": "alphamepol.evaluation.render:render",
}
"""A dictionary from the name of a view to its module and function."""


def view(name: str, *arguments: Any, **named: Any) -> Any:
    """Return what a view makes of an object."""
    module, _, function = VIEWS[name].partition(":")
    return getattr(importlib.import_module(module), function)(*arguments, **named)
