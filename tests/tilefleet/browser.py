"""A real browser for the tests of the dashboard."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from server.http.dashboard_page import BUILT

ROOT = Path(__file__).parents[2]
AXE = ROOT / "dashboard/node_modules/axe-core/axe.min.js"
SCREENSHOTS = Path(os.environ.get("TILEFLEET_SCREENSHOTS", ROOT / "build/screenshots"))
# Without these, Chromium asks its makers' servers for things at every start.
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)


# Of one file alone: while Playwright is there, an event loop runs in this thread.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium: Playwright's own download is no package of a registry."""
    found = shutil.which("chromium")
    missing = [
        what for what, there in (("chromium", found), ("the built dashboard", BUILT.exists())) if not there
    ]
    if missing:
        reason = f"{' and '.join(missing)} missing: make test installs them"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def url(service: Path) -> str:
    """Where the coordinator listens."""
    return (service / "url").read_text().strip()


@pytest.fixture
def page(chromium: Browser, url: str) -> Iterator[Page]:
    """A page of 1280 pixels; a complaint of the browser, of its policy above all, fails the test."""
    context = chromium.new_context(
        base_url=url, viewport={"width": 1280, "height": 900}, accept_downloads=True
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    complaints: list[str] = []

    def heard(said: ConsoleMessage) -> None:
        # What the server refuses the page tells by itself.
        if said.type == "error" and "status of 4" not in said.text:
            complaints.append(said.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.unroute_all(behavior="ignoreErrors")  # an answer may be on its way through a test's route
    context.close()
    assert not complaints


def faults(page: Page) -> dict[str, str]:
    """All that axe finds, of any weight, each with where it is first. The page's policy must be bypassed."""
    found = page.evaluate(f"{AXE.read_text()}; axe.run()")
    return {fault["id"]: fault["nodes"][0]["html"][:300] for fault in found["violations"]}


def saved(page: Page, chart: str, what: str) -> bytes:
    """Save a chart as PNG or CSV and return the file's bytes."""
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Save as {what}: {chart}").click()
    return Path(download.value.path()).read_bytes()
