"""Test a reproduction that is done in two parts, its page, and the page of any runs, in a real browser."""

import base64
import contextlib
import dataclasses
import io
import json
import shutil
from pathlib import Path

import pytest
from browsers import wait_for
from miniatures import times_of_summaries
from pypdf import PdfReader

from alphamepol.cli.main import main
from alphamepol.measuring.evaluation_files import load_evaluation, save_evaluation
from alphamepol.reproduction.reproduce import reproduce

pytestmark = pytest.mark.usefixtures("tiny_scale")


@pytest.fixture(scope="module")
def done(tmp_path_factory, tiny_scale) -> Path:
    """Return a reproduction that was done in two parts. The second part needs the runs of the first."""
    folder = tmp_path_factory.mktemp("reproduction") / "all"
    reproduce(["slope-mean"], "quick", folder=folder)
    before = times_of_summaries(folder)
    assert len(before) == 2
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        reproduce(["slope-finetune"], "quick", folder=folder)
    assert "run 1 of 5" in shown.getvalue()
    after = times_of_summaries(folder)
    assert len(after) == 2 + 5
    assert all(after[name] == time for name, time in before.items())
    return folder


def drawn(browser, kind: str = "replay", number: int = 0) -> str:
    """Return the pixels of a panel of the first widget of a kind."""
    first = f"document.querySelector('[data-kind={kind}]')"
    return browser.execute_script(f"return {first}.querySelectorAll('.panel canvas')[{number}].toDataURL()")


def set_slider(browser, slider, value: int) -> None:
    browser.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", slider, value
    )


def point_at(browser, element) -> str:
    """Move the pointer over the middle of an element, and return what the page then tells."""
    browser.execute_script(
        """const box = arguments[0].getBoundingClientRect();
        arguments[0].dispatchEvent(new PointerEvent('pointermove', {bubbles: true,
            clientX: box.left + box.width / 2, clientY: box.top + box.height / 2}));""",
        element,
    )
    return browser.execute_script(
        "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent"
    )


def requests(browser) -> list[str]:
    """Return the addresses that the browser asked for."""
    found = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [one["params"]["request"]["url"] for one in found if one["method"] == "Network.requestWillBeSent"]


def open_folds(browser) -> None:
    browser.execute_script("document.querySelectorAll('details.fold').forEach(fold => { fold.open = true; })")


def at_width(browser, width: int, *, phone: bool = False) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 844, "deviceScaleFactor": 3 if phone else 1, "mobile": phone},
    )


def test_runs_that_are_done_are_not_done_again(done, capsys) -> None:
    before = times_of_summaries(done)
    assert main(["reproduce", "slope-mean", "--folder", str(done)]) == 0
    assert times_of_summaries(done) == before
    capsys.readouterr()
    assert main(["reproduce", "slope-finetune", "--dry-run", "--folder", str(done)]) == 0
    listed = capsys.readouterr().out
    assert listed.count("done") == 7
    assert "about 0 s" in listed


def test_the_page_in_a_browser(done, browser, all_claims) -> None:
    page = (done / "report.html").as_uri()
    browser.get(page)
    assert browser.get_log("browser") == []
    assert [name for name in requests(browser) if not name.startswith(("data:", page))] == []
    assert len(browser.find_elements("css selector", "#claims details.claim")) == len(all_claims)
    assert len(browser.find_elements("css selector", "figure > svg")) >= 3
    assert {
        link.get_attribute("href").partition("#")[2] for link in browser.find_elements("css selector", "nav a")
    } <= {section.get_attribute("id") for section in browser.find_elements("css selector", "section")}
    first = browser.find_element("css selector", "section h2").text
    assert first == "In one picture"


def test_the_slider_changes_the_heat_map(done, browser) -> None:
    browser.get((done / "report.html").as_uri())
    slider = browser.find_element("css selector", "[data-kind=maps] input")
    panels = len(browser.find_elements("css selector", "[data-kind=maps]")[0].find_elements("css selector", ".panel"))
    assert panels == 4  # two members of MEPOL, and two of the method that the slider chooses
    beside, chosen = drawn(browser, "maps", 0), drawn(browser, "maps", 2)
    set_slider(browser, slider, 0)
    assert drawn(browser, "maps", 2) != chosen
    assert drawn(browser, "maps", 2) == drawn(browser, "maps", 0) == beside
    titles = [one.text for one in browser.find_elements("css selector", "[data-kind=maps] .row")[:2]]
    assert titles == ["α = 1: MEPOL", "α = 1: MEPOL"]
    set_slider(browser, slider, 1)
    assert drawn(browser, "maps", 2) == chosen
    canvas = browser.find_element("css selector", "[data-kind=maps] canvas")
    assert point_at(browser, canvas) == "x 0.00, y 0.00\nnever"  # a wall


def test_a_replay_moves_and_stops(done, browser) -> None:
    browser.get((done / "report.html").as_uri())
    button, slider, output = (
        browser.find_element("css selector", f"[data-kind=replay] .controls {one}")
        for one in ("button", "input", "output")
    )
    at_the_end = drawn(browser)
    button.click()
    assert button.text == "Pause"
    wait_for(lambda: int(slider.get_attribute("value")) > 2)
    assert drawn(browser) != at_the_end
    wait_for(lambda: button.text == "Play")  # the replay stops at the end
    assert drawn(browser) == at_the_end
    set_slider(browser, slider, 5)
    assert output.text == "step 5 of 15"
    assert drawn(browser) != at_the_end
    row = browser.find_elements("css selector", "[data-kind=replay] .rows > div")[0]
    assert row.is_displayed()
    browser.find_element("css selector", "[data-kind=replay] .choices button").click()
    assert not row.is_displayed()


def test_figures_tell_their_values_and_leave_out_series(done, browser) -> None:
    browser.get((done / "report.html").as_uri())
    bar = browser.find_element("css selector", "figure > svg [data-values^='GW']")
    assert point_at(browser, bar).startswith("GWS, αMEPOL (0.2): ")
    line = browser.find_element("css selector", "figure > svg [data-values^='[']")
    assert len(point_at(browser, line).splitlines()) == 3  # one for each start of fine-tuning
    figure = line.find_element("xpath", "ancestor::figure")
    figure.find_element("css selector", ".choices button").click()
    hidden = figure.find_elements("css selector", "[data-off]")
    assert hidden
    assert {one.get_attribute("data-series") for one in hidden} == {"αMEPOL (0.2)"}


def test_light_and_dark(done, browser) -> None:
    def colours() -> list[str]:
        script = """return [document.body, document.querySelector('figure > svg text')].map(
            (one, i) => getComputedStyle(one)[i ? 'fill' : 'backgroundColor'])"""
        return browser.execute_script(script)

    dark_scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.get((done / "report.html").as_uri())
    light, walls = colours(), drawn(browser)
    mode = browser.find_element("id", "mode")
    mode.click()
    assert mode.text == "Light"
    dark = colours()
    assert dark == ["rgb(20, 24, 29)", "rgb(230, 233, 237)"]
    assert drawn(browser) != walls
    mode.click()
    assert (colours(), drawn(browser)) == (light, walls)
    browser.get((done / "report.html").as_uri())
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark_scheme)
    wait_for(lambda: colours() == dark)


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_fits_a_phone_and_a_desk(done, browser, width: int) -> None:
    at_width(browser, width, phone=width == 390)
    browser.get((done / "report.html").as_uri())
    open_folds(browser)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return document.querySelector('[data-kind=maps] canvas').clientWidth") > 150


def test_a_print_has_no_empty_page_and_no_cut_frame(done, browser) -> None:
    browser.get((done / "report.html").as_uri())
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"]
    pages = PdfReader(io.BytesIO(base64.b64decode(printed))).pages
    assert len(pages) > 3
    texts = [page.extract_text().strip() for page in pages]
    assert all(len(text) > 20 for text in texts)
    assert "The means are" in "".join(texts)  # the folded claims are printed, too
    assert not browser.find_elements("css selector", "details.fold[open]")  # and folded again afterwards
    # Frames are never cut: the browser does not break them, and each is smaller than a page.
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    at_width(browser, 700)
    open_folds(browser)
    frames = browser.execute_script(
        """return [...document.querySelectorAll('figure, .panel, tr')].map(
            one => [getComputedStyle(one).breakInside, one.getBoundingClientRect().height])"""
    )
    assert {kind for kind, _ in frames} == {"avoid"}
    assert max(height for _, height in frames) < 900  # pixels; a page has 1000


def test_a_report_of_any_runs(done, browser, tmp_path, capsys) -> None:
    runs = sorted(path.parent for path in done.glob("runs/*/summary.json"))
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "some.html")]) == 0
    browser.get((tmp_path / "some.html").as_uri())
    assert browser.get_log("browser") == []
    assert [name for name in requests(browser) if not name.startswith(("data:", "file:"))] == []
    assert len(browser.find_elements("css selector", "#runs tbody tr")) == len(runs)
    assert len(browser.find_elements("css selector", ".widget")) == 2
    assert "Random: one untrained policy" in browser.find_element("id", "class-0").text
    first = [row.text.split(" ")[0] for row in browser.find_elements("css selector", "#class-0 tbody tr")]
    assert first == ["αMEPOL", "MEPOL", "Random", "ceiling"]
    starts = browser.find_elements("css selector", "#returns figure")
    assert len(starts) == 2  # the runs of a member are in one figure
    captions = [one.text for one in browser.find_elements("css selector", "figcaption")]
    assert all(len(one) > 40 for one in captions), captions
    alone = next(run for run in runs if run.name.startswith("finetune-GWN-random"))
    assert main(["report", str(alone)]) == 0
    assert f"Written: {alone / 'report.html'}" in capsys.readouterr().out


def test_a_report_is_rebuilt_from_summaries_alone(done, tmp_path) -> None:
    """The copy has only those files of runs that are committed: no policies, metrics, checkpoints or figures."""
    copy = tmp_path / "small"
    for path in done.glob("runs/*/*"):
        if path.name in ("config.json", "summary.json", "evaluation.safetensors"):
            (copy / "runs" / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy / "runs" / path.parent.name / path.name)
    shutil.copy(done / "reproduction.json", copy)
    assert main(["report", str(copy)]) == 0
    assert (copy / "report.html").read_text() == (done / "report.html").read_text()
    assert (copy / "claims.json").read_text() == (done / "claims.json").read_text()


def test_what_strangers_write_into_their_runs_is_not_taken_for_html(done, browser, tmp_path) -> None:
    attack = '<img src=x onerror="document.title = `owned`">'
    copies = []
    for path in sorted(done.glob("runs/*/summary.json")):
        copies.append(tmp_path / f"{path.parent.name}<b>")
        shutil.copytree(path.parent, copies[-1])
        summary, config = (json.loads((copies[-1] / name).read_text()) for name in ("summary.json", "config.json"))
        summary |= {part: attack for part in ("label", "member", "device") if part in summary}
        summary["class"] = f"{attack}{summary['class']}"
        config |= {"commit": "<!--abc", "device": attack, "command_line": "</pre></details><!--<script>"}
        if "entropy" in summary and "alpha-1-" not in path.parent.name:  # only runs with the members of the class move
            summary["members"] = [f"{attack}{name}" for name in summary["members"]]
            for part in ("entropy", "ceiling"):
                summary[part] = {f"{attack}{name}": value for name, value in summary[part].items()}
            evaluation = load_evaluation(copies[-1] / "evaluation.safetensors")
            evaluation = dataclasses.replace(evaluation, members=tuple(summary["members"]))
            save_evaluation(evaluation, copies[-1] / "evaluation.safetensors")
        (copies[-1] / "summary.json").write_text(json.dumps(summary))
        (copies[-1] / "config.json").write_text(json.dumps(config))
    assert main(["report", *map(str, copies), "--out", str(tmp_path / "page.html")]) == 0
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.get_log("browser") == []
    assert browser.title == "αMEPOL: runs"
    assert len(browser.find_elements("css selector", "#runs tbody tr")) == len(copies)
    assert browser.find_elements("css selector", "canvas")
    assert not browser.find_elements("css selector", "img[src=x]")
