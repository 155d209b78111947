"""Test the live page in a real browser, while a run trains."""

import dataclasses
import json
from typing import Any

import pytest
from browsers import wait_for

import alphamepol as am

LONG = 60.0


def text_of(browser: Any, selector: str) -> str:
    return browser.execute_script(f"return document.querySelector({json.dumps(selector)})?.textContent ?? ''")


def paths_of(browser: Any, kind: str) -> list[str]:
    """Return what the chart of the objective draws: its lines, or the raw lines below smoothed ones."""
    script = f"return [...document.querySelectorAll('#main-charts figure:first-child path.{kind}')]"
    return browser.execute_script(f"{script}.map(path => path.getAttribute('d'))")


def canvas_of(browser: Any) -> str:
    return browser.execute_script("return document.querySelector('.panel canvas').toDataURL()")


def set_value(browser: Any, selector: str, value: int) -> None:
    script = "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
    browser.execute_script(f"{script} one.dispatchEvent(new Event('input'))", selector, value)


def check_that_the_page_is_alone(browser: Any, address: str) -> None:
    assert browser.get_log("browser") == []
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in asked if not name.startswith((address, "data:"))] == []


def check_that_the_page_fits(browser: Any, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wait_for(lambda: browser.execute_script("return innerWidth") == width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_page_follows_a_run_while_it_trains(browser, tiny, tmp_path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    seen: list[str] = []

    def look(step: am.FinishedStep) -> None:
        done = f"{step.number + 1} of {step.total} epochs"
        wait_for(lambda: done in text_of(browser, "#runs"), LONG)
        if step.number > 0:
            wait_for(lambda: paths_of(browser, "line"), LONG)
            seen.append(paths_of(browser, "line")[0])

    with am.watch(folder) as page:
        browser.get(page.address)
        wait_for(lambda: "no run in this folder yet" in text_of(browser, "#hint"), LONG)
        config = dataclasses.replace(tiny, seeds=2)
        am.pretrain("gridworld-slope", config, folder=folder / "one", log="none", callbacks=[look], quiet=True)
        assert len(set(seen)) == 3  # the curve grew with every epoch
        wait_for(lambda: "from the evaluation of the run" in text_of(browser, ".places"), LONG)
        assert "finished" in text_of(browser, "#runs")
        assert text_of(browser, "#apart .legend") == "GWSGWNobjective"

        replay_moves_and_stops(browser)
        smoothing_acts(browser)
        values_are_shown_at_the_pointer(browser)
        for width in (390, 1400):
            check_that_the_page_fits(browser, width)
        pause_acts(browser, folder / "one/metrics.jsonl")
        check_that_the_page_is_alone(browser, page.address)

        wrong = "fetch('/wrong/news').then(one => one.text().then(text => arguments[0]([one.status, text])))"
        assert browser.execute_async_script(wrong) == [403, ""]


def replay_moves_and_stops(browser: Any) -> None:
    browser.execute_script("document.querySelector('.places').scrollIntoView()")
    button = browser.find_element("css selector", ".replaying button")
    assert button.text == "Stop"
    first = canvas_of(browser)
    wait_for(lambda: canvas_of(browser) != first)
    button.click()
    assert button.text == "Play"
    set_value(browser, ".replaying input", 7)
    assert text_of(browser, ".replaying output") == "step 7 of 20"
    still = canvas_of(browser)
    set_value(browser, ".replaying input", 20)
    assert canvas_of(browser) != still
    set_value(browser, ".replaying input", 7)
    assert canvas_of(browser) == still


def smoothing_acts(browser: Any) -> None:
    before = paths_of(browser, "line")
    assert paths_of(browser, "raw") == []
    set_value(browser, "#smooth", 80)
    assert paths_of(browser, "line") != before
    assert len(paths_of(browser, "raw")) == 1
    set_value(browser, "#smooth", 0)
    assert paths_of(browser, "line") == before


def values_are_shown_at_the_pointer(browser: Any) -> None:
    script = (
        "const svg = document.querySelector('#main-charts svg'); const box = svg.getBoundingClientRect();"
        "const at = {clientX: box.left + box.width - 1, clientY: box.top + 50};"
        "svg.dispatchEvent(new PointerEvent('pointermove', at));"
    )
    browser.execute_script(script)
    shown = text_of(browser, "#main-charts .tip")
    assert shown.startswith("epoch 3one: ")
    assert " to " in shown  # the lowest and the highest seed


def pause_acts(browser: Any, metrics: Any) -> None:
    browser.execute_script("window.scrollTo(0, 0)")
    button = browser.find_element("css selector", "#pause")
    button.click()
    assert (button.text, text_of(browser, "#live")) == ("Go on", "paused")
    before = paths_of(browser, "line")
    asked = browser.execute_script("return performance.getEntriesByType('resource').length")
    line = json.loads(metrics.read_text().splitlines()[-1])
    with metrics.open("a") as file:
        file.write(json.dumps({**line, "epoch": 4, "objective": 5.0}) + "\n")
    # A page that is not paused asks every two seconds. The page's own clock counts them.
    browser.set_script_timeout(LONG)
    browser.execute_async_script("setTimeout(arguments[0], 2500)")
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == asked
    assert paths_of(browser, "line") == before
    button.click()
    wait_for(lambda: paths_of(browser, "line") != before, LONG)
    assert button.text == "Pause"


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>"])
def test_names_from_files_are_text(name: str, browser, tmp_path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps({"command": name, "class": name, "config": {"method": name}}))
    line = {"epoch": 0, "seed": 0, name: 1.0, "objective": 1.0, "entropy": {name: 2.0}, "__proto__": 3.0}
    (run / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    with am.watch(run) as page:
        browser.get(page.address)
        wait_for(lambda: name in text_of(browser, "#apart .legend"), LONG)
        assert name in text_of(browser, "#runs")
        assert browser.find_elements("css selector", "img, main script") == []
        check_that_the_page_is_alone(browser, page.address)
