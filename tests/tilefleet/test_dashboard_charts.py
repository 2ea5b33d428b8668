"""What can be read off a job's charts in a real browser: colours, parts of a curve, figures at the axes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tilefleet import Client
from tilefleet.job import Job

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]
# A canvas tells nothing of what is drawn on it, so what writes on it does.
LISTEN = """
window.written = {};
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    const chart = this.canvas.closest?.("[role=img]")?.getAttribute("aria-label") ?? "";
    (window.written[chart] ??= []).push(text);
    return write.call(this, text, ...rest);
};
"""


@pytest.fixture
def job(client: Client, tiny_model: Path) -> Job:
    """One that ended."""
    return client.submit(model=client.upload(tiny_model).hash, target="host", trials=12).wait()


def test_the_curve_of_each_task_has_a_name_and_its_axes_have_figures(
    page: Page, client: Client, job: Job
) -> None:
    page.add_init_script(LISTEN)
    page.goto(f"/jobs/{job.id}")
    curves = page.get_by_role("img", name=re.compile("^Best time so far of"))
    expect(curves).to_be_visible()
    names = page.get_by_role("group", name="Tasks by their colours").get_by_role("button")
    tasks = client.tasks(job.id)
    expect(names).to_have_text([task.text for task in tasks])
    colours = names.locator("circle").evaluate_all("all => all.map(each => each.getAttribute('fill'))")
    assert len(set(colours)) == len(tasks)
    names.first.click()
    expect(names.first).to_have_attribute("aria-pressed", "true")
    written = page.evaluate("window.written")
    (texts,) = [found for chart, found in written.items() if chart.startswith("Best time so far of")]
    # Besides what stands at its two ends.
    assert len({text for text in texts if re.fullmatch(r"[\d.]+\s[mµ]?s", text)}) > 3


def test_a_part_of_the_whole_models_curve_is_looked_at(page: Page, job: Job) -> None:
    page.goto(f"/jobs/{job.id}")
    curve = page.get_by_role("img", name=re.compile("^Estimated time of the whole model over trials"))
    curve.scroll_into_view_if_needed()
    curve.hover()
    page.wait_for_timeout(500)
    before = curve.screenshot()
    page.wait_for_timeout(500)
    assert curve.screenshot() == before
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_timeout(500)
    assert curve.screenshot() != before
