"""The pictures of the dashboard: ``python -m bench.pictures URL JOB OTHER MODEL`` writes them to docs/images.

URL is a coordinator that has tuned the file MODEL in jobs JOB and OTHER; those of a simulated board show
nothing of what else its machine did. What runs at that time is seen on the overview and on the wall.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from bench.dashboard import ARGUMENTS

FOLDER = Path(__file__).parents[1] / "docs/images"
WIDTH = 1280
SETTLED_MS = 1500
"""Canvases are drawn by then."""


def main() -> None:
    """Take a picture of every page, some of them in the dark theme."""
    from playwright.sync_api import sync_playwright

    from tilefleet.client import Client

    if len(sys.argv) != 5:
        sys.exit(__doc__)
    url, job, other, model = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    with Client(url) as client:
        costliest = max(client.tasks(job), key=lambda task: task.weight * (task.best_s or 0))
        target = client.job(job).target
    FOLDER.mkdir(exist_ok=True)
    pages = (
        ("job", f"/jobs/{job}", 1010, "light", "of the layers' time is in"),
        ("workload", f"/workloads/{costliest.workload_key}?target={target}", 1060, "light", "Loop nest"),
        ("compare", f"/compare?jobs={other},{job}", 950, "light", "These take"),
        ("boards", "/boards", 890, "dark", "inside the timer"),
        ("overview", "/", 900, "light", "Recent"),
        ("jobs", "/jobs", 560, "light", "nightly"),
        ("submit", "/submit", 1150, "light", "drop it here"),
        ("workloads", "/workloads", 800, "light", "conv"),
        ("records", "/records", 800, "light", "conv"),
        ("best", f"/best?job={job}", 800, "light", "conv"),
        ("wall", "/wall", 720, "dark", "Last ended"),
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for name, path, height, scheme, awaited in pages:
            size: Any = {"width": WIDTH, "height": height}
            look: Any = scheme
            page = browser.new_page(base_url=url, viewport=size, color_scheme=look)
            page.goto(path)
            page.get_by_text(awaited).filter(visible=True).first.wait_for()
            if name == "submit":
                page.locator("input[type=file]").first.set_input_files(model)
                page.get_by_text("about").nth(1).wait_for()
            page.get_by_label("Loading").first.wait_for(state="detached")
            page.wait_for_timeout(SETTLED_MS)
            page.screenshot(path=FOLDER / f"dashboard-{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
