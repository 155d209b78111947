"""The docstrings of public names are a reference: they document every argument, and their examples run."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from public_examples import example_of

import alphamepol as am

NAMES = sorted(name for name in am.__all__ if not name.startswith("_"))
FUNCTIONS = [name for name in NAMES if inspect.isfunction(getattr(am, name))]
RETURNED = {
    *("PretrainRun", "FinetuneRun", "FinetuneComparison", "MetatrainRun"),
    *("Checked", "Diagnosis", "Evaluated", "Evaluation", "PretrainingCost", "Video", "WatchPage"),
}
"""The classes that functions return and users do not construct. The examples of these functions show them."""
ERRORS = {"InputError", "RunError"}


EXAMPLES = {name: example for name in NAMES if (example := example_of(name))}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in RETURNED | ERRORS])
def test_everything_that_is_called_has_an_example(name: str) -> None:
    assert name in EXAMPLES


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_its_arguments_and_what_it_returns(name: str) -> None:
    function: Callable[..., Any] = getattr(am, name)
    text = inspect.getdoc(function) or ""
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"^- .*`{argument}`.*:", text, re.MULTILINE), argument
    if inspect.signature(function).return_annotation not in (None, "None"):
        assert "**Returns**" in text


@pytest.mark.parametrize("name", [name for name in NAMES if dataclasses.is_dataclass(getattr(am, name))])
def test_a_class_documents_itself(name: str) -> None:
    text = inspect.getdoc(getattr(am, name)) or ""
    assert re.match(r"(A|An|The) .+?\.", text, re.DOTALL)
    assert not text.startswith(f"{name}(")  # the docstring that dataclasses generate


# tests/reproduction/test_demo.py runs the example of the demo.
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "demo"])
def test_the_example_runs(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The module is not named __main__, because worker processes may have to find the functions of an example.
    exec(compile(EXAMPLES[name], f"example of {name}", "exec"), {"__name__": f"example_of_{name}"})
