"""Test `alphamepol check` as a user sees it: its output, its files and its exit status."""

import contextlib
import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from hostile_names import HOSTILE_MEMBERS

import alphamepol as am
from alphamepol.algorithms.alphamepol.presets import preset
from alphamepol.cli.main import _parse_main_arguments, main
from alphamepol.files.names import WIDTH, name_as_csv, name_as_text

SMALL = (
    "--horizon 30 --trajectories 24 --batch 3 --neighbours 6 --hidden 8 8 --max-off-policy-iterations 3 --batches 4"
).split()

HOSTILE = """
import alphamepol as am
from hostile_names import HOSTILE_MEMBERS

def slope():
    usual = am.make("gridworld-slope")
    return am.EnvironmentClass(dict(zip(HOSTILE_MEMBERS[-2:], (usual[0], usual[1]))), usual.probabilities)
"""


@pytest.fixture(scope="module")
def where(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("check")


@pytest.fixture(scope="module")
def run(where) -> Path:
    """Return a run whose settings the command has to find."""
    config = am.PretrainConfig(
        horizon=30,
        trajectories=24,
        batch=3,
        neighbours=7,
        hidden=(8, 8),
        max_off_policy_iterations=3,
        epochs=1,
        seeds=2,
        alpha=0.5,
        evaluation_batches=2,
    )
    return am.pretrain("gridworld-slope", config, folder=where / "run", quiet=True).folder


@pytest.fixture(scope="module")
def checked(where) -> Path:
    """Return the folder of a check. The file said.txt in it has the output of the command."""
    folder = where / "page"
    with contextlib.redirect_stdout(io.StringIO()) as said, pytest.MonkeyPatch.context() as patch:
        patch.setattr("alphamepol.algorithms.alphamepol.cost.SHORT", 0.0)  # the cost of any run is told
        assert main(["check", "gridworld-slope", *SMALL, "--folder", str(folder)]) == 0
    (folder / "said.txt").write_text(said.getvalue())
    return folder


def test_the_folder_holds_page_numbers_and_pictures(checked):
    pictures = {path.name for path in (checked / "figures").iterdir()}
    names = ("check-entropies", "check-stability", "check-rates", "check-distances", "heat-maps")
    assert pictures == {f"{name}.{suffix}" for name in names for suffix in ("png", "csv")}
    found = json.loads((checked / "check.json").read_text())
    assert found["class"] == "gridworld-slope"
    assert list(found["members"]) == ["GWS", "GWN"]
    member = found["members"]["GWN"]
    assert member["interval"][0] <= member["entropy"] <= member["interval"][1]
    assert member["expected_draws"] == pytest.approx(8 * 0.2)
    assert member["absent"] == pytest.approx(0.8**8)
    assert found["theory"]["diameter_low"] <= found["theory"]["diameter_high"] <= 1
    assert [one["sentence"] for one in found["findings"]]
    assert found["train_with"].startswith("alphamepol pretrain gridworld-slope")


def test_hostile_names_are_shown_literally(checked, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("hostile.py").write_text(HOSTILE)
    assert main(["check", "hostile.py:slope", "--preset", "own", "--no-normalise", *SMALL]) == 0
    said = "".join(capfd.readouterr())
    assert all(character.isprintable() or character == "\n" for character in said)
    found = json.loads(Path("runs/check-slope/check.json").read_text())
    names = list(found["members"])
    assert names == HOSTILE_MEMBERS[-2:]
    page = Path("runs/check-slope/check.html").read_text()
    for name in names:
        assert f"<td>{name_as_text(name, WIDTH)}</td>" in page
        assert any(name_as_text(name, WIDTH) in one["sentence"] for one in found["findings"])
    with Path("runs/check-slope/figures/check-entropies.csv").open() as file:
        assert [row["member"] for row in csv.DictReader(file)] == [name_as_csv(name) for name in names]


def test_the_page_shows_it_all(checked):
    page = (checked / "check.html").read_text()
    found = json.loads((checked / "check.json").read_text())
    import html

    shown = html.unescape(page)
    for finding in found["findings"]:
        assert finding["sentence"] in shown
    assert found["train_with"] in shown
    for heading in ("What was found", "Members", "Scales", "Is the estimate stable?", "Learning rate", "Theory"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count("<img ") == 5
    assert page.count("<script") == 1  # the page can be read without its script
    for quantity in ("(D1)", "(D2)", "(D3)", "(D4)", "(D5)", "(D6)"):
        assert quantity in page
    assert str(Path.cwd()) not in page


def test_it_says_what_was_found_and_where_it_is(checked):
    shown = " ".join((checked / "said.txt").read_text().split())
    assert shown.startswith("1 of 14: sampling every member 2 of 14: finding neighbours")
    assert "gridworld-slope under Random (seed 0), k = 6" in shown
    assert "1. " in shown
    cost = json.loads((checked / "check.json").read_text())["cost"]
    assert cost["epoch"] == pytest.approx(cost["sampling"] + cost["neighbours"] + cost["learning"])
    assert cost["total"] > 150 * cost["epoch"]
    assert f"With these settings, a run takes about {cost['epoch']:.2g} s an epoch" in shown
    assert "To train with the suggested settings: alphamepol pretrain gridworld-slope" in shown
    assert "the page is check.html, numbers in check.json, pictures in figures/." in shown


def test_a_run_gives_policy_and_settings(run, capsys):
    command = ["check", "gridworld-slope", str(run), "--batches", "4", "--seed", "1"]
    parsed = _parse_main_arguments(command)
    assert (parsed.config.neighbours, parsed.config.alpha, parsed.config.seed) == (7, 0.5, 1)
    assert main(command) == 0
    assert "under αMEPOL (0.5), k = 7" in capsys.readouterr().out
    found = json.loads((run / "check-gridworld-slope" / "check.json").read_text())
    assert found["policy"] == "αMEPOL (0.5)"
    assert found["config"]["seed"] == 1


def test_settings_are_those_of_the_preset_unless_a_run_of_the_class_has_its_own(run):
    assert _parse_main_arguments(["check", "multigrid"]).config == preset("paper", "multigrid")
    assert _parse_main_arguments(["check", "multigrid", str(run)]).config == preset("paper", "multigrid")
    assert _parse_main_arguments(["check", "gridworld-slope", str(run), "--preset", "quick"]).config == preset(
        "quick", "gridworld-slope"
    )
    assert _parse_main_arguments(["check", "examples/pendulums.py:pendulums"]).config == preset("own", "mine.py:mine")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("gridworld-slop", "did you mean 'gridworld-slope'?"),
        ("gridworld-slope --batches 1", "batches: 1 was given; it must be at least 2"),
        ("gridworld-slope --alpha 0", "alpha: 0.0 was given"),
        ("gridworld-slope nowhere", "there is no run folder, policy file or released policy nowhere"),
        ("gridworld-slope {run} --seed 7", "seed: 7 was given; {run} has policies of seeds 0, 1"),
        ("gridworld-slope --folder {run}", "holds a run; choose another --folder"),
        ("minigrid {run}", "policy: it is gaussian, but class minigrid needs a categorical policy"),
    ],
)
def test_mistakes_end_in_a_sentence(words, sentence, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check", *words.format(run=run).split()]) == 2
    assert sentence.format(run=run) in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_an_interrupt_changes_nothing(tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("alphamepol.checking.check.diagnose", interrupted)
    assert main(["check", "gridworld-slope", "--folder", str(tmp_path / "page")]) == 130
    assert "interrupted; nothing was changed" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_names_of_a_stranger_do_no_harm(where):
    from alphamepol.checking.diagnose import diagnose
    from alphamepol.checking.findings import find_all_findings
    from alphamepol.checking.page import check_page
    from alphamepol.environments.gridworld.gridworld import Gridworld
    from alphamepol.environments.gridworld.layouts import FOUR_ROOMS

    config = _parse_main_arguments(["check", "gridworld-slope", *SMALL]).config
    members = {"<script>alert(1)</script>": Gridworld(FOUR_ROOMS), "b": Gridworld(FOUR_ROOMS, slope="east")}
    found = diagnose(am.EnvironmentClass(members, name="<b>"), config, batches=4)
    page = check_page(found, find_all_findings(found), "<i>", [])
    assert "<script>alert" not in page
    assert "<i>" not in page


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("stuck", "Member plane-0: "),
        ("wild", "Observations are not of order one: component 1"),
    ],
)
def test_strange_classes_get_the_right_first_sentence_and_a_page(name, first, tmp_path, capsys):
    file = Path(__file__).parents[1] / "support/planes.py"
    words = ["check", f"{file}:{name}", *SMALL, "--no-normalise", "--initial-log-std", "-0.5"]
    assert main([*words, "--learning-rate", "0.001", "--folder", str(tmp_path / "page")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"1. {first}" in shown
    found = json.loads((tmp_path / "page" / "check.json").read_text())
    assert found["findings"][0]["serious"]
    if name == "stuck":
        assert "particles coincide" in found["findings"][0]["sentence"]
    assert (tmp_path / "page" / "check.html").is_file()


def test_a_class_of_one_member_has_nothing_to_compare(checked, tmp_path):
    """The pictures of an earlier check in the same folder are not shown again."""
    shutil.copytree(checked, tmp_path / "page")
    (tmp_path / "one.py").write_text(
        "import alphamepol as am\n\n\ndef one():\n"
        "    return am.EnvironmentClass({'a': am.Gridworld('.')}, name='one')\n"
    )
    assert main(["check", f"{tmp_path / 'one.py'}:one", *SMALL, "--folder", str(tmp_path / "page")]) == 0
    assert not (tmp_path / "page" / "figures" / "check-distances.png").exists()
    assert (tmp_path / "page" / "check.html").read_text().count("<img ") == 4
    findings = json.loads((tmp_path / "page" / "check.json").read_text())["findings"]
    assert not any("π-diameter" in one["sentence"] or "same as far" in one["sentence"] for one in findings)
