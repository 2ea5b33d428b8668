"""Figures of one thing in two places of the dashboard, and sums that lack a part, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import saved
from playwright.sync_api import Page, Route, expect

from tilefleet import Client
from tilefleet.job import Job

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def jobs(service: Path, tiny_model: Path) -> Iterator[list[Job]]:
    """Two jobs of one model that ended."""
    with Client((service / "url").read_text().strip()) as client:
        model = client.upload(tiny_model).hash
        made = [client.submit(model=model, target="host", trials=trials) for trials in (6, 8)]
        ended = [job.wait() for job in made]
        assert [job.state for job in ended] == ["done"] * 2
        yield ended


def test_the_estimate_of_the_tile_is_that_of_the_curve(page: Page, jobs: list[Job]) -> None:
    """A real job that is said to run still: its stream runs ahead of what the curve is made of."""
    one = jobs[0]
    told = {"trials": 4321, "failed": 0, "trials_per_s": 1, "eta_s": 9, "elapsed_s": 5, "shares": []}
    stream = f"id: 1\nevent: progress\ndata: {json.dumps({**told, 'estimated_ms': 1.0})}\n\n"

    def running(route: Route) -> None:
        body: dict[str, Any] = route.fetch().json()
        route.fulfill(json={**body, "state": "running", "finished": None, "estimated_ms": 7.0})

    page.route(re.compile(rf"/api/v1/jobs/{one.id}$"), running)
    page.route(
        re.compile(rf"/jobs/{one.id}/events"),
        lambda route: route.fulfill(body=stream, content_type="text/event-stream"),
    )
    page.goto(f"/jobs/{one.id}")
    figures = page.locator("dl").filter(has_text="Trials a second")
    expect(figures).to_have_text(re.compile(r"Estimated7\.00\sms.*Trials4321"))
    curve = page.get_by_role("img", name=re.compile(r"whole model over trials, now 7\.00\sms"))
    expect(curve).to_be_visible()


def test_layers_without_a_time_are_left_out_of_the_sum(page: Page, client: Client, jobs: list[Job]) -> None:
    """The tasks of real jobs, of which the second lacks a time: others are held against each other still."""
    one, other = jobs[:2]
    tasks = [{task.workload_key: task for task in client.tasks(job.id)} for job in (one, other)]
    lacking = next(iter(tasks[0]))

    def less(route: Route) -> None:
        body: dict[str, Any] = route.fetch().json()
        for task in body["items"]:
            if task["workload_key"] == lacking:
                task.update(best_s=None, best_spread=None, best_config=None)
        route.fulfill(json=body)

    page.route(re.compile(rf"/jobs/{other.id}/tasks$"), less)
    page.goto(f"/compare?jobs={one.id},{other.id}")
    layers = page.get_by_role("region", name="Layer by layer")
    count = len(tasks[0])
    expect(layers).to_contain_text(f"{count} of {count} layers are in all of them.")
    expect(layers).to_contain_text(f"The {count - 1} that have a time in all of them take")
    sums = [
        sum(task.weight * (task.best_s or 0) for key, task in each.items() if key != lacking)
        for each in tasks
    ]
    for job, seconds in zip((one, other), sums, strict=True):
        us = 1e6 * seconds
        expect(layers).to_contain_text(
            f"{us:.{0 if us >= 100 else 1 if us >= 10 else 2}f} µs in job {job.id}"
        )
    line = layers.get_by_role("row").filter(has=page.get_by_role("link", name=tasks[0][lacking].text))
    expect(line.get_by_role("cell").last).to_have_text(f"no config in job {other.id}")


def test_a_job_that_is_over_promises_no_estimate(page: Page, jobs: list[Job]) -> None:
    """A real job that is said to have ended without a time of each layer."""
    one = jobs[0]

    def incomplete(route: Route) -> None:
        body: dict[str, Any] = route.fetch().json()
        route.fulfill(json={**body, "state": "incomplete", "estimated_ms": None, "built": None})

    page.route(re.compile(rf"/api/v1/jobs/{one.id}$"), incomplete)
    page.route(
        re.compile(rf"/jobs/{one.id}/progress$"),
        lambda route: route.fulfill(json={**route.fetch().json(), "points": []}),
    )
    page.goto(f"/jobs/{one.id}")
    expect(page.get_by_text("The job was over before every task had a config that ran.")).to_be_visible()
    expect(page.get_by_text(re.compile("No estimate yet|no estimate yet"))).to_have_count(0)


def test_jobs_that_differ_by_their_seed_alone_are_one_line_with_a_band(page: Page, jobs: list[Job]) -> None:
    """A real job under three numbers and seeds, with curves of its own each, beside another one."""
    one, other = jobs
    ids = (900_001, 900_002, 900_003)

    def seeded(route: Route) -> None:
        path = route.request.url
        (id,) = (each for each in ids if f"/jobs/{each}" in path)
        body: dict[str, Any] = route.fetch(url=path.replace(f"/jobs/{id}", f"/jobs/{one.id}")).json()
        nth = ids.index(id)
        if path.endswith("/progress"):
            trials = range(1 + nth, 5)  # the second and third begin later
            point = body["points"][-1]
            body["points"] = [point | {"trial": n, "estimated_ms": (4 + 2 * nth) / n} for n in trials]
        elif "items" not in body:
            body |= {"id": id, "seed": nth}
        route.fulfill(json=body)

    page.route(re.compile(r"/jobs/90000\d(/|$)"), seeded)
    page.goto(f"/compare?jobs={','.join(map(str, ids))},{other.id}")
    label = (
        f"Estimated time of the whole model over trials of model, 3 jobs by different seeds, job {other.id}"
    )
    expect(page.get_by_role("img", name=re.compile(label))).to_be_visible()
    table = saved(page, "Estimated time of the whole model", "CSV").decode().splitlines()
    rows = [line.split(",") for line in table if "seeds" in line]
    # The name has a comma, and so is quoted: it takes two cells.
    figures = [float(cell) for row in rows for cell in row[2:]]
    assert figures == pytest.approx([3, 2.0, 5 / 3, 7 / 3, 4, 1.5, 1.25, 1.75])
    assert any(line.startswith(f"job {other.id} ") for line in table)
    page.goto(f"/compare?jobs={ids[0]},{ids[1]},{other.id}")
    expect(page.get_by_role("img", name=re.compile(f"over trials of job {ids[0]}"))).to_be_visible()
