"""The README's Python examples run as they stand."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int, tiny, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    # The same example with settings that take seconds.
    monkeypatch.setattr("alphamepol.runs.presets.preset", lambda *_: tiny)
    exec(compile(EXAMPLES[number], str(README), "exec"), {})
    if "pretrain" in EXAMPLES[number]:
        assert "'calm'" in capsys.readouterr().out
        assert (tmp_path / "runs/rooms/summary.json").exists()
