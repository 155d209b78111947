"""Test how the benchmark command summarises, compares and reports measurements. Nothing is timed here."""

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks import __main__ as command
from benchmarks.group import GROUPS
from benchmarks.growth import _fit
from benchmarks.measuring import Measurement, Seconds, network_flops, turn_by_turn


def test_rounds_are_taken_in_turn_after_one_that_compiles() -> None:
    turns: list[str] = []
    found = turn_by_turn(2, one=lambda: turns.append("one"), other=lambda: turns.append("other"))
    assert turns == ["one", "other"] * 3
    assert found["one"].least <= found["one"].median <= found["one"].most


def test_a_measurement_beside_its_floor_and_others() -> None:
    peers = {"theirs": Seconds(6.0, 5.0, 7.0)}
    found = Measurement("x", Seconds.of([2.0, 1.0, 3.0]), floor=1.5, formula="counted so", peers=peers).to_dict()
    assert found["seconds"] == {"median": 2.0, "least": 1.0, "most": 3.0}
    assert found["share_of_floor"] == 0.75
    assert found["peers"]["theirs"]["times_ours"] == 3.0
    assert network_flops([2, 3, 4]) == 2 * (6 + 12)


def test_an_earlier_file_is_compared(tmp_path: Path, monkeypatch, capsys) -> None:
    def group(seconds: float) -> dict:
        one = Measurement("x", Seconds(seconds, seconds, seconds), floor=1.0, formula="counted so")
        rates = {"matmul_gflops_per_second": 1.0, "bandwidth_gb_per_second": 1.0, "peak_memory_gib": 1.0}
        return {"device": "cpu", **rates, "measurements": [one.to_dict()]}

    monkeypatch.setattr(command, "console", Console(width=150))
    monkeypatch.setattr(command, "_in_a_process", lambda *_: group(4.0))
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    assert command.main(("neighbours",), out=old) == 0
    monkeypatch.setattr(command, "_in_a_process", lambda *_: group(2.0))
    assert command.main(("neighbours",), out=new, compare=old) == 0
    shown = capsys.readouterr().out
    assert "before / now" in shown
    assert "2.00" in shown
    assert "counted so" in shown
    written = json.loads(new.read_text())
    assert written["groups"]["neighbours"]["measurements"][0]["share_of_floor"] == 0.5
    assert written["machine"]["versions"]["alphamepol"]


def test_what_goes_wrong_in_a_group_is_said(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(command, "_in_a_process", lambda *_: {"error": "ModuleNotFoundError: no module"})
    assert command.main(("hosts",), out=tmp_path / "out.json") == 1
    assert command.main(("nothing",), out=tmp_path / "out.json") == 2
    assert "there is no group nothing" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("place", GROUPS.values())
def test_groups_are_where_they_are_said_to_be(place: str) -> None:
    module, _, function = place.partition(":")
    text = (Path(__file__).parents[1] / f"{module.replace('.', '/')}.py").read_text()
    assert f"def {function}(" in text


def test_exponents() -> None:
    fitted = _fit([{"size": size, "time": 3 * size**2.0, "memory": 5.0} for size in (1, 2, 4)])
    assert fitted["time"] == pytest.approx(2)
    assert fitted["memory"] == pytest.approx(0, abs=1e-9)
