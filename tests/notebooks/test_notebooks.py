"""Test what a notebook shows: views of objects, the live chart, plots and replays, and the committed notebooks."""

import base64
import dataclasses
import importlib.util
import io
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pytest
from hostile_names import HOSTILE_NAMES
from matplotlib.figure import Figure
from PIL import Image

import alphamepol as am
from alphamepol.checking.diagnosis_types import Finding
from alphamepol.figures.curves import live_chart_png
from alphamepol.measuring.exploration import Evaluation
from alphamepol.notebooks.kernel import NotebookPicture, in_notebook
from alphamepol.notebooks.views import VIEWS
from alphamepol.runs import callbacks
from alphamepol.runs.callbacks import FinishedStep, LiveChart

pytestmark = pytest.mark.quick
EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = "<script>alert('x')</script>&amp;\""


class Kernel:
    """A stand-in for IPython in a kernel. It remembers what was displayed."""

    def __init__(self, kernel: Any = True):
        self.shown: list[dict[str, str]] = []
        self.displays = 0
        self.shell = SimpleNamespace(kernel=kernel)

    def get_ipython(self) -> Any:
        return self.shell

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.displays += 1
        self.shown.append(data)
        return SimpleNamespace(update=lambda data, raw: self.shown.append(data))


@pytest.fixture
def kernel(monkeypatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", kernel)
    return kernel


class Parts(HTMLParser):
    """The elements and the texts of HTML."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def parts_of(thing: Any) -> Parts:
    return Parts(thing._repr_html_())


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    config = dataclasses.replace(tiny, epochs=2, checkpoint_every=1, trajectories=6, horizon=12)
    return am.pretrain("gridworld-slope", config, folder=tmp_path_factory.mktemp("notebooks") / "run", quiet=True)


def evaluation_of(names: tuple[str, ...]) -> Evaluation:
    entropies = np.arange(4.0 * len(names)).reshape(1, len(names), 4)
    share = (1 / len(names),) * len(names)
    return Evaluation(HOSTILE, names, share, 0.5, (0,), (1.0,) * len(names), entropies, entropies, None, None)


def test_every_view_is_a_function() -> None:
    for entry in VIEWS.values():
        module, _, function = entry.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_a_class_shows_its_members() -> None:
    shown = parts_of(am.make("gridworld-slope"))
    assert {"table", "style"} <= set(shown.tags)
    assert {"GWS", "0.8", "GWN", "0.2", " gridworld-slope"} <= set(shown.texts)


def test_an_evaluation_shows_entropies_with_intervals() -> None:
    shown = parts_of(evaluation_of(("level", "steep")))
    assert {"level", "steep", "mean under p_M", "CVaR, α = 0.5"} <= set(shown.texts)
    assert any(text.startswith("1.50 [") for text in shown.texts)


def test_a_run_shows_its_numbers_and_plots_and_replays_itself(run) -> None:
    shown = parts_of(run)
    assert {"PretrainRun", "GWS", "GWN", str(run.folder)} <= set(shown.texts)
    assert f"{np.mean(run.summary['entropy']['GWS']):.2f}" in shown.texts
    figure = run.plot()
    assert isinstance(figure, Figure)
    lines = {line.get_label(): line.get_xydata() for line in figure.axes[0].lines}
    assert {"GWS", "GWN", "objective E^α"} <= lines.keys()
    assert lines["objective E^α"][:, 0].tolist() == [0.0, 1.0]
    assert figure._repr_png_().startswith(b"\x89PNG")
    video = run.replay("GWN", steps=4, quiet=True)
    assert [(one.member, one.method, one.steps) for one in video.episodes] == [("GWN", "αMEPOL (0.5)", 4)]
    page = video._repr_html_()
    assert 'alt="αMEPOL (0.5) in GWN, 4 steps"' in page
    with Image.open(io.BytesIO(base64.b64decode(page.split("base64,")[1].split('"')[0]))) as gif:
        assert (gif.format, gif.n_frames) == ("GIF", 5)


def test_a_checkpoint_is_named_in_the_caption(run) -> None:
    early = am.render(run.folder, "GWS", checkpoint=1, every=12, quiet=True)
    assert early.episodes[0].method == "αMEPOL (0.5), epoch 1"
    assert len(early) == 2  # the horizon of the run is 12


def test_a_finetuned_run_replays_a_task(run, tmp_path) -> None:
    config = am.TrpoConfig(goals=(-0.75, 0.75), goal_radius=3.0, iterations=1, horizon=8, steps=16)
    tuned = am.finetune(run.folder, "GWN", config, folder=tmp_path / "tuned", quiet=True)
    assert parts_of(tuned).texts.count("return") == 1
    assert [axes.get_ylabel() for axes in tuned.plot().axes] == ["return, mean over tasks"]
    (episode,) = tuned.replay(quiet=True).episodes
    assert (episode.member, episode.method, episode.steps, episode.returned) == ("GWN", "task-0-seed-0", 1, 1.0)
    with pytest.raises(am.InputError, match="task: 1 was given; the run has tasks 0 to 0"):
        tuned.replay(1)


@pytest.mark.parametrize("method", ["maml-r", "diayn"])
def test_a_meta_trained_run_plots_its_numbers(method: str) -> None:
    numbers = {"return_before": [[0.1, 0.2]], "return_after": [[0.3, 0.5]]}
    if method == "diayn":
        numbers = {"discriminability": [[-2.0, -1.0]], "skills": 8}
    done = am.MetatrainRun(Path("runs/meta"), numbers, {}, am.make("gridworld-slope"))
    lines = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in done.plot().axes[0].lines}
    if method == "diayn":
        assert lines["DIAYN"] == [-2.0, -1.0]
    else:
        assert (lines["before the inner step"], lines["after the inner step"]) == ([0.1, 0.2], [0.3, 0.5])


def checked_page(findings: list[Finding], train_with: str) -> str:
    """Return the view of a result of `check` that has these findings."""
    return am.Checked._repr_html_(SimpleNamespace(findings=findings, train_with=train_with, folder=HOSTILE))


def test_findings_are_listed_and_the_serious_ones_are_bold() -> None:
    findings = [Finding(True, "change <this>"), Finding(False, "good to know")]
    page = checked_page(findings, "alphamepol pretrain x --alpha 0.2")
    shown = Parts(page)
    assert shown.tags.count("li") == 2
    assert {"change <this>", "good to know", "alphamepol pretrain x --alpha 0.2"} <= set(shown.texts)
    assert "<li><b>change &lt;this&gt;</b></li><li>good to know</li>" in page


def test_hostile_names_stay_texts(run) -> None:
    names = tuple(HOSTILE_NAMES.values())[:20]
    rooms = am.EnvironmentClass({name: am.Gridworld("..") for name in (*names[:3], HOSTILE)}, name=HOSTILE)
    summary = {**run.summary, "entropy": {HOSTILE: [1.0]}, "class": HOSTILE, "label": HOSTILE}
    hostile_run = dataclasses.replace(run, summary=summary, folder=Path(HOSTILE))
    video = am.render("gridworld-slope/alpha-0.2", "GWS", steps=1, quiet=True)
    episodes = (dataclasses.replace(video.episodes[0], member=HOSTILE, method=HOSTILE),)
    hostile_video = dataclasses.replace(video, episodes=episodes)
    things = rooms, evaluation_of(names), hostile_run, hostile_video
    for page in (*(thing._repr_html_() for thing in things), checked_page([Finding(True, HOSTILE)], HOSTILE)):
        assert "<script" not in page
        assert {one for one in page if not one.isprintable()} <= {"\n"}
        assert "script" not in Parts(page).tags
    assert HOSTILE in parts_of(rooms).texts


# ---------------------------------------------------------------- the live chart


def test_only_a_kernel_is_a_notebook(monkeypatch, kernel) -> None:
    assert in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", Kernel(kernel=None))  # the terminal of IPython
    assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()
    assert "IPython" not in sys.modules


def test_a_picture_takes_the_place_of_the_one_before(kernel) -> None:
    picture = NotebookPicture()
    for number in range(3):
        picture.show(b"%d" % number, f"picture {number}")
    assert kernel.displays == 1
    assert [base64.b64decode(shown["image/png"]) for shown in kernel.shown] == [b"0", b"1", b"2"]
    assert kernel.shown[-1]["text/plain"] == "picture 2"


def test_a_live_chart_changes_at_most_every_two_seconds_and_ends_with_the_last_step(kernel, monkeypatch) -> None:
    now = [100.0]
    drawn: list[Any] = []
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(callbacks, "live_chart_png", lambda *given: drawn.append(given) or b"png")
    chart = LiveChart(("entropy", "objective"), NotebookPicture())
    for number in range(7):
        metrics = [{"seed": seed, "objective": seed + number, "entropy": {"a": 2.0 * seed}} for seed in (0, 1)]
        chart(FinishedStep("epoch", number, 7, metrics, Path()))
        now[0] += 0.9
    chart.close()
    chart.close()
    assert [shown["text/plain"] for shown in kernel.shown] == [f"epoch {n} of 7" for n in (1, 4, 7)]
    title, unit, curves = drawn[-1]
    assert (title, unit) == ("epoch 7 of 7", "epoch")
    assert curves[("objective", "")] == [(number, number + 0.5) for number in range(7)]
    assert curves[("entropy", "a")] == [(number, 1.0) for number in range(7)]


def test_a_live_chart_of_a_long_run_stays_small(kernel, monkeypatch) -> None:
    monkeypatch.setattr(callbacks, "MOST_DRAWN", 10)
    monkeypatch.setattr(callbacks, "live_chart_png", lambda title, unit, curves: b"%d" % max(map(len, curves.values())))
    chart = LiveChart(("return",), NotebookPicture())
    for number in range(1000):
        chart(FinishedStep("iteration", number, 1000, [{"return": 1.0}], Path()))
    chart.close()
    assert all(int(base64.b64decode(shown["image/png"])) <= 10 for shown in kernel.shown)


def test_a_live_chart_is_a_picture_with_any_names() -> None:
    curves = {("entropy", name): [(0, 1.0), (1, 2.0)] for name in list(HOSTILE_NAMES.values())[:6]}
    png = live_chart_png("epoch 2 of 2", "epoch", {**curves, ("objective", ""): [(0, 0.5), (1, 0.7)]})
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.width > 150


@pytest.mark.parametrize("quiet", [False, True])
def test_a_run_in_a_kernel_shows_one_chart_unless_it_is_quiet(quiet: bool, kernel, tiny, tmp_path) -> None:
    config = dataclasses.replace(tiny, epochs=2, trajectories=6, horizon=12)
    am.pretrain("gridworld-slope", config, folder=tmp_path / "run", quiet=quiet)
    assert kernel.displays == (0 if quiet else 1)
    if not quiet:
        assert kernel.shown[-1]["text/plain"] == "epoch 2 of 2"


# ---------------------------------------------------------------- the committed notebooks


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_committed_notebook_is_whole(path: Path) -> None:
    """`.ci/notebooks` executes the notebooks, which takes too long for a test."""
    text = path.read_text()
    assert len(text.encode()) < 300_000
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell.outputs for cell in cells if not cell.source.startswith(("import", "from")))
    for cell in cells:
        compile(cell.source, path.name, "exec")
        assert not [output for output in cell.outputs if output.output_type == "error"]
    assert not {"/tmp/", "/root/", "/home/", "site-packages"} & {
        word for word in ("/tmp/", "/root/", "/home/") if word in text
    }
    assert "data:image/gif;base64," in text
    assert "image/png" in text


def test_there_are_two_notebooks() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == {"own-environments", "memory-on-unseen-members"}
