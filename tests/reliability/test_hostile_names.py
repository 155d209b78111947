"""Test whole runs with hostile names of members, classes, features, files and folders."""

import csv
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hostile_names import HOSTILE_MEMBERS, HOSTILE_NAMES
from matplotlib.figure import Figure
from rich.console import Console

import alphamepol as am
from alphamepol.cli.main import main
from alphamepol.cli.next_steps import SHORT_FINETUNING
from alphamepol.environments.environment_warnings import show_environment_warnings
from alphamepol.estimation.statistics import Estimate
from alphamepol.figures.bars import draw_bars
from alphamepol.figures.class_check import Distances, draw_class_check_distances
from alphamepol.figures.curves import draw_learning_curves
from alphamepol.figures.style import name_in_figure
from alphamepol.figures.tables import table_of_class_members
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.json_files import to_json
from alphamepol.files.names import message_as_text, name_as_csv, name_as_tag, name_as_text
from alphamepol.pages.html import html_code, html_page, html_picture, html_widget
from alphamepol.runs.callbacks import TensorBoardLogger
from alphamepol.runs.progress import track_progress
from alphamepol.runs.sources import Source, distinct_source_labels, short_source_names

ALL = list(HOSTILE_NAMES.values())
SOME = HOSTILE_MEMBERS
TINY = (
    "--alpha 0.5 --epochs 1 --horizon 12 --trajectories 8 --batch 2 --neighbours 4 --hidden 4 --evaluation-batches 2 "
    "--max-off-policy-iterations 1 --no-normalise"
).split()
FINETUNING = "--tasks 2 --iterations 1 --horizon 8 --steps 16 --critic-hidden 4 --critic-passes 1".split()
FILE = """
import alphamepol as am
from hostile_names import HOSTILE_MEMBERS
from toys import Walk

def compiled():
    return am.EnvironmentClass({name: am.Gridworld("..") for name in HOSTILE_MEMBERS})

def walks():
    names = ("$\\\\frac{", "\\x1b[1m" * 9)
    return am.gymnasium_class({name: Walk for name in HOSTILE_MEMBERS}, entropy_names=names, workers=1)
"""


class Cells(HTMLParser):
    """The texts in the cells of a page's tables."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def words_of_next_line(shown: str, command: str) -> list[str]:
    """Let a shell read the command line that a command has proposed."""
    (line,) = re.findall(rf"^(?:Next|  or): alphamepol ({command} .*)$", shown, re.MULTILINE)
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def do(command: list[str], capfd) -> str:
    """Run a command. Nothing that it shows may control a terminal."""
    assert main(command) == 0, capfd.readouterr()
    shown = "".join(capfd.readouterr())
    assert all(character.isprintable() or character == "\n" for character in shown)
    return shown


def names_in_csv(path: Path, column: str) -> set[str]:
    with path.open(newline="") as file:
        return {row[column] for row in csv.DictReader(file)}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("kind", ["compiled", "walks"])
def test_a_run_with_hostile_names(kind: str, tmp_path: Path, monkeypatch, capfd) -> None:
    inside = tmp_path / "a" / "b" / "c"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    monkeypatch.setenv("COLUMNS", "120")
    name = f"classes_{kind}"  # a module keeps its name for all tests of a process
    Path(f"{name}.py").write_text(FILE)
    own = f"{name}.py:{kind}"

    shown = do(["pretrain", own, *TINY], capfd)
    run = Path(f"runs/{kind}-alpha-0.5-seed-0")
    assert (run / "summary.json").is_file()
    rows = [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")]
    shown_names = [name_as_text(one, 60) for one in SOME]
    assert [row for row in rows if row in shown_names] == shown_names
    do(["pretrain", own, *TINY, "--epochs", "2", "--resume"], capfd)
    assert names_in_csv(run / "figures/entropy-histogram.csv", "member") == {name_as_csv(one) for one in SOME}
    events = b"".join(path.read_bytes() for path in run.glob("tensorboard/*"))
    for one in SOME:
        assert f"tail_share/{name_as_tag(one)}/seed-0".encode() in events

    # The proposed fine-tuning is done from one policy and with fewer steps.
    tuning = words_of_next_line(shown, "finetune")
    tuning = [word for word in tuning if word != "random"][: -len(SHORT_FINETUNING)]
    assert f"--member={SOME[-1]}" in tuning
    do([*tuning, *FINETUNING], capfd)
    do(["report", str(run)], capfd)
    if kind == "compiled":
        do([*words_of_next_line(shown, "evaluate"), "--batches", "2"], capfd)
        do(["export", str(run), "policy.safetensors", "--to", "safetensors"], capfd)
    page = (run / "report.html").read_text()
    assert page.count("<script") == 1 + page.count('<div class="widget"')  # the page's own, and data
    found = Cells(page)
    assert set(shown_names) <= set(found.texts)
    assert main(["finetune", str(run), "--class", own, "--member", "\x1b[31mnobody", *FINETUNING]) == 2
    said = capfd.readouterr().err
    assert "\x1b" not in said
    assert said.count("\n") == 1
    files = {path.relative_to(tmp_path).parts[:3] for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {("a", "b", "c")}
    assert not list(tmp_path.rglob("owned"))
    (tuned,) = Path("runs").glob("finetune-*")
    assert len(tuned.name.encode()) <= 200


@pytest.mark.parametrize(
    "name",
    ["../../evil", "n" * 245, "x" * 3000, "a\x00b", "\ud800"],
    ids=["folders above", "long", "very long", "null", "half of a pair"],
)
def test_a_class_with_a_hostile_name_has_a_folder_of_its_own(name: str, tiny, tmp_path: Path, monkeypatch) -> None:
    inside = tmp_path / "a" / "b" / "c"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    environment_class = am.EnvironmentClass({name: am.Gridworld("..")}, name=name)
    monkeypatch.setattr("alphamepol.algorithms.alphamepol.run._run_pretraining", lambda *_: None)
    with pytest.raises(am.InputError, match="has not finished"):  # it was not even begun
        am.pretrain(environment_class, tiny, quiet=True, log="none")
    (path,) = tmp_path.rglob("config.json")
    assert path.parent.parent == inside / "runs"


# --- Figures


def drawn_texts(names: list[str], tmp_path: Path) -> list[str]:
    """Let matplotlib draw names, and return the texts that it has drawn."""
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure = Figure()
        for number, name in enumerate(names):
            figure.text(0.5, number / len(names), name_in_figure(name))
        figure.savefig(tmp_path / "names.svg")
    found = Cells((tmp_path / "names.svg").read_text())
    return [text for text in found.texts if text.strip()]


def test_figures_draw_names_literally(tmp_path: Path) -> None:
    texts = [text.strip() for text in drawn_texts(ALL, tmp_path)]
    for name in ALL:
        if name not in ("山川", "\u00e9"):
            assert name_as_text(name, 60) in texts
    assert "\\u5c71\\u5ddd" in texts  # the font has no such glyphs


def test_figures_hold_any_names(tmp_path: Path) -> None:
    """Warnings are errors in tests: no glyph may be missing, and no label may be left out of a legend."""
    for names in (ALL[:20], ALL[20:40], ALL[-20:]):
        metrics = [{"epoch": 0, "objective": 1.0, "entropy": dict.fromkeys(names, 0.5)}]
        draw_learning_curves(metrics, names, 0.1, tmp_path)
        assert names_in_csv(tmp_path / "learning-curves.csv", "member") >= {name_as_csv(name) for name in names}
        draw_class_check_distances([Distances("distance", np.eye(len(names)))], names, tmp_path, "distances")
        draw_bars({name: dict.fromkeys(names, Estimate(1.0, None)) for name in names[:2]}, tmp_path, "bars", label="y")
        assert names_in_csv(tmp_path / "bars.csv", "series") == {name_as_csv(name) for name in names}


def test_a_legend_has_every_name() -> None:
    axes = Figure().add_subplot()
    for name in ALL:
        axes.plot([0, 1], label=name_in_figure(name))
    assert len({text.get_text() for text in axes.legend().get_texts()}) == len(ALL)


def test_a_member_may_have_the_name_of_another_curve(tmp_path: Path) -> None:
    metrics = [{"epoch": 0, "objective": 1.0, "entropy": {"objective E^α": 0.5}}]
    draw_learning_curves(metrics, ["objective E^α"], None, tmp_path)
    with (tmp_path / "learning-curves.csv").open() as file:
        assert [row["mean"] for row in csv.DictReader(file)] == ["0.5", "1"]


# --- Terminal, pages, logs and sources


def test_tables_and_progress_show_names_literally(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    for terminal in (False, True):
        console = Console(file=io.StringIO(), force_terminal=terminal, color_system=None, width=120)
        environment_class = am.EnvironmentClass({name: am.Gridworld("..") for name in SOME})
        console.print(table_of_class_members(environment_class))
        say_in_terminal(console, "[/red] :smile: \x1b[31m")
        for _ in track_progress([0], f"evaluating {name_as_text('[/red] :smile:')}", console):
            pass
        shown = console.file.getvalue()
        assert all(name_as_text(name, 60) in shown for name in SOME)
        assert "[/red] :smile: \\x1b[31m\n" in shown
        assert ("evaluating [/red] :smile:" in shown) == terminal


def test_pages_show_names_literally(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    parts = [html_picture(tmp_path / "a.png", name) + html_code(name) for name in ALL]
    page = html_page(ALL[-1], [("a", name, part) for name, part in zip(ALL, parts, strict=True)], "")
    assert all(character.isprintable() or character in "\n\t" for character in page)
    assert "alert('x')" not in page
    own = page.index("<script>"), page.index("</script>")  # the page's own, which has no names in it
    assert page.count("<script") == 1
    found = Cells(page[: own[0]] + page[own[1] :])
    assert sum(message_as_text(name) in found.texts for name in ALL) == len(ALL) - 1  # all but the empty name


def test_replays_hold_any_names() -> None:
    replay = html_widget("replay", {"members": ALL, "steps": 1})
    replay.encode()
    (data,) = re.findall(r'json">(.*)</script>', replay)
    assert json.loads(data)["members"] == ALL


def test_pictures_of_a_run_have_tags_of_their_own(tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path, ("seed",))
    step = am.FinishedStep("epoch", 0, 1, [{"epoch": 0, "seed": 0, "entropy": dict.fromkeys(ALL, 1.0)}], tmp_path, True)
    step.draw = lambda: {f"visits/{name_as_tag(name)}": np.zeros((2, 2, 3), np.uint8) for name in ALL}
    logger(step)
    logger.close()
    content = b"".join(path.read_bytes() for path in tmp_path.glob("events*"))
    for name in ALL:
        assert f"entropy/{name_as_tag(name)}/seed-0".encode() in content
        assert f"visits/{name_as_tag(name)}".encode() in content


def test_sources_have_different_names_and_labels(tmp_path: Path) -> None:
    possible = [name for name in ALL if name and not set("/\0\ud800") & set(name) and len(name) < 255]
    sources = [Source(str(tmp_path / "x" / name), name, {}) for name in possible]
    for more in ([], [Source(f"y/{ALL[0]}", ALL[0], {}), Source("z", f"{ALL[0]} {ALL[0]}", {})]):
        names, labels = short_source_names(sources + more, taken=("figures",)), distinct_source_labels(sources + more)
        assert len({name.casefold() for name in names}) == len(set(labels)) == len(sources + more)
        assert all(Path(name).name == name for name in names)


def test_a_source_does_not_take_the_place_of_other_files() -> None:
    (name,) = short_source_names([Source("Figures", "label", {})], taken=("figures", "summary.json"))
    assert name.startswith("Figures~")


def test_labels_of_sources_are_different_in_any_case(tmp_path: Path) -> None:
    paths = [tmp_path / "a/p", tmp_path / "b/p", tmp_path / "p 0-p"]
    labels = distinct_source_labels([Source(str(path), path.name, {}) for path in paths])
    assert labels == ["0: p", "1: p", "2: p 0-p"]


def test_an_error_about_a_file_does_not_control_the_terminal(tmp_path: Path, capfd) -> None:
    folder = tmp_path / "run\x1b[31m"
    folder.mkdir()
    (folder / "config.json").write_text(
        to_json({"command": "pretrain", "class": "\x1b]0;owned\x07", "config": {"\x1b": 1}})
    )
    for command in ("evaluate", "report"):
        assert main([command, str(folder)]) == 2
        shown = "".join(capfd.readouterr())
        assert "run\\x1b[31m" in shown
        assert all(character.isprintable() or character == "\n" for character in shown)


def test_warnings_of_environments_do_not_control_the_terminal() -> None:
    with pytest.warns(UserWarning, match=re.escape(r"environment \x1bm: \x1b]0;owned\x07 it is slow")):
        show_environment_warnings([("\x1bm", "\x1b]0;owned\x07 it is slow")])
