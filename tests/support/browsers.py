"""A real browser for tests of pages."""

import os
import shutil
import time
from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.remote.webdriver import WebDriver


def start_browser() -> Iterator[WebDriver]:
    """Start Chromium without a window. Debian has it in the packages chromium and chromium-driver."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        said = "needs chromium and chromedriver"
        # Both are required for testing a change, but not for trying the package.
        pytest.fail(said) if os.environ.get("ALPHAMEPOL_TEST_BROWSER") else pytest.skip(said)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"):
        options.add_argument(f"--{word}")
    for word in ("disable-component-update", "disable-sync", "disable-dev-shm-usage", "window-size=1000,900"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until the condition holds. A browser can be slow, above all on a busy machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not hold in time"
        time.sleep(0.05)
