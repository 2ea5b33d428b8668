"""Jobs by two clocks beside each other in a real browser: no ratio, no verdict, and why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tilefleet import Client
from tilefleet.job import Job

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]
SIMULATED = "simulated:rpi4"
VERDICT = re.compile("x as fast|x the time|the same|saved|lost")


@pytest.fixture
def jobs(client: Client, tiny_model: Path) -> list[Job]:
    """Two that ended."""
    model = client.upload(tiny_model).hash
    return [client.submit(model=model, target="host", trials=6, seed=seed).wait() for seed in (1, 2)]


def test_times_of_two_clocks_are_not_compared(page: Page, client: Client, jobs: list[Job]) -> None:
    """Two real jobs, of which the second is said to be by a simulated clock: the service has one board."""
    one, other = jobs

    def simulated(route: Route) -> None:
        body: dict[str, Any] = route.fetch().json()
        route.fulfill(json={**body, "clock": SIMULATED})

    address = f"/compare?jobs={one.id},{other.id}"
    page.goto(address)
    layers = page.get_by_role("region", name="Layer by layer")
    expect(layers).to_contain_text(VERDICT)
    why = page.get_by_role("status").filter(has_text="Times of two clocks are never compared")
    expect(why).to_have_count(0)

    page.route(re.compile(rf"/api/v1/jobs/{other.id}$"), simulated)
    page.goto(address)
    expect(why).to_contain_text(f"job {other.id} ({SIMULATED}) has no ratio against job {one.id} (wall)")
    against = page.get_by_role("region", name="What differs").get_by_role("row", name="Against the first")
    expect(against).to_contain_text("by another clock")
    expect(against).not_to_contain_text(VERDICT)
    # Both have their times, and nothing is said of which is the better.
    for task in client.tasks(one.id):
        line = layers.get_by_role("row").filter(has=page.get_by_role("link", name=task.text))
        expect(line.get_by_role("cell").nth(2)).to_contain_text(re.compile("[µm]s"))
        expect(line).not_to_contain_text(re.compile("▲|▼|saved|lost|the same$"))
    for verdict in ("slower 0", "faster 0"):
        expect(layers.get_by_text(verdict, exact=True)).to_be_visible()
    expect(layers).to_contain_text(re.compile(rf"in job {one.id}; .* in job {other.id}\."))
    # Two clocks have no axis in common.
    charts = page.get_by_role("region", name="Whole model over trials")
    expect(charts.get_by_role("img")).to_have_count(2)
    expect(charts).to_contain_text(f"By the clock {SIMULATED}")
