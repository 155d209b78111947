"""Test a reproduction that is done in two parts, its page, and the page of any runs, in a real browser."""

import contextlib
import io
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from miniatures import times_of_summaries

from alphamepol.cli.main import main
from alphamepol.pages.html import PNG, Html, html_page, html_picture, html_replay, html_table
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


@pytest.fixture
def browser():
    """Start Chromium without a window. Debian has it in the packages chromium and chromium-driver."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        said = "needs chromium and chromedriver"
        # Both are required for testing a change, but not for trying the package.
        pytest.fail(said) if os.environ.get("ALPHAMEPOL_TEST_BROWSER") else pytest.skip(said)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"):
        options.add_argument(f"--{word}")
    for word in ("disable-component-update", "disable-sync", "disable-dev-shm-usage", "window-size=1000,900"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def drawn(browser) -> str:
    return browser.execute_script("return document.querySelector('canvas').toDataURL()")


def wait_for(condition, seconds: float = 20.0) -> None:
    """Wait until the condition holds. A browser can be slow, above all on a busy machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not hold in time"
        time.sleep(0.05)


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
    browser.get((done / "report.html").as_uri())
    assert browser.get_log("browser") == []
    assert len(browser.find_elements("css selector", "#claims tbody tr")) == len(all_claims)
    images = browser.execute_script("return [...document.images].map(image => image.naturalWidth)")
    assert len(images) >= 5
    assert min(images) > 100
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in asked if not name.startswith("data:")] == []
    assert {
        link.get_attribute("href").partition("#")[2] for link in browser.find_elements("css selector", "nav a")
    } <= {section.get_attribute("id") for section in browser.find_elements("css selector", "section")}

    button = browser.find_element("css selector", ".controls button")
    slider = browser.find_element("css selector", ".controls input")
    at_the_end = drawn(browser)
    button.click()
    assert button.text == "Pause"
    wait_for(lambda: int(slider.get_attribute("value")) > 2)
    moving = drawn(browser)
    assert moving != at_the_end
    wait_for(lambda: button.text == "Play")  # the replay stops at the end
    assert drawn(browser) == at_the_end
    browser.execute_script("arguments[0].value = 5; arguments[0].dispatchEvent(new Event('input'))", slider)
    output = browser.find_element("css selector", ".controls output")
    assert output.text == "step 5 of 15"
    assert drawn(browser) != at_the_end


def test_the_page_fits_a_phone(done, browser) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 3, "mobile": True},
    )
    browser.get((done / "report.html").as_uri())
    assert browser.get_log("browser") == []
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= 390
    assert browser.execute_script("return document.querySelector('canvas').clientWidth") > 250


def test_a_report_of_any_runs(done, browser, tmp_path, capsys) -> None:
    runs = sorted(path.parent for path in done.glob("runs/*/summary.json"))
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "some.html")]) == 0
    browser.get((tmp_path / "some.html").as_uri())
    assert browser.get_log("browser") == []
    assert len(browser.find_elements("css selector", "#runs tbody tr")) == len(runs)
    assert browser.find_elements("css selector", "canvas")
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
        if "entropy" in summary:
            summary["members"] = [f"{attack}{name}" for name in summary["members"]]
            for part in ("entropy", "ceiling"):
                summary[part] = {f"{attack}{name}": value for name, value in summary[part].items()}
        (copies[-1] / "summary.json").write_text(json.dumps(summary))
        (copies[-1] / "config.json").write_text(json.dumps(config))
    assert main(["report", *map(str, copies), "--out", str(tmp_path / "page.html")]) == 0
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.get_log("browser") == []
    assert browser.title == "αMEPOL: runs"
    assert len(browser.find_elements("css selector", "#runs tbody tr")) == len(copies)
    assert browser.find_elements("css selector", "canvas")
    assert not browser.find_elements("css selector", "img[src=x]")


def test_nothing_in_a_page_is_taken_for_html(tmp_path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    made = html_page(
        "<b>", [("a", "<i>", html_replay({"steps": 1, "methods": ["</script><script>alert(1)</script>"]}))], ""
    )
    assert "<b>" not in made
    assert "<i>" not in made
    assert "<script>alert" not in made
    assert "<u>" not in html_picture(tmp_path / "a.png", '"><u>')
    cells = html_table(("a", "b"), [("1", "<u>"), (Html("<em>"), "2")], (1,))
    assert cells.count('class="number"') == 3
    assert "<u>" not in cells
    assert "<em>" in cells
