"""Jobs that are not among the newest, what tabs say, and who submits, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tilefleet import Client
from tilefleet.job import Job

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]
OLD = 7_000_007
"""A job that no service has: it stands for one that is older than any list."""


@pytest.fixture
def job(client: Client, tiny_model: Path) -> Job:
    """One that ended."""
    return client.submit(model=client.upload(tiny_model).hash, target="host", trials=6).wait()


class Crowd:
    """A coordinator with more ended jobs than any list has, all newer than one that runs."""

    def __init__(self, page: Page, ended: dict[str, Any]) -> None:
        self.ended = ended
        self.old = {**ended, "id": OLD, "name": "an old one", "state": "running", "finished": None}
        page.route(re.compile(r"/api/v1/jobs\?"), self._list)
        page.route(re.compile(rf"/api/v1/jobs/{OLD}$"), lambda route: route.fulfill(json=self.old))

    def _list(self, route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        states, limit = asked.get("state", []), int(asked["limit"][0])
        others = [{**self.ended, "id": 8_000_000 - at} for at in range(limit)]
        if states and self.ended["state"] not in states:
            others = []
        items = ([self.old] if self.old["state"] in states else []) + others
        route.fulfill(json={"items": items[:limit], "next": None, "total": len(items)})


@pytest.fixture
def ended(client: Client, job: Job) -> dict[str, Any]:
    """A job as the API tells it."""
    return client.job(job.id).model_dump(mode="json")


def test_an_old_job_that_runs_is_on_overview_and_wall(page: Page, ended: dict[str, Any]) -> None:
    Crowd(page, ended)
    page.goto("/")
    running = page.get_by_role("region", name="Running")
    expect(running.get_by_role("link", name=f"{OLD} an old one")).to_be_visible()
    expect(page.get_by_role("region", name="Recent", exact=True).get_by_role("row")).to_have_count(51)
    expect(page).to_have_title("1 running · Overview · Tilefleet")
    page.goto("/wall")
    expect(page.get_by_role("heading", name="1 job running")).to_be_visible()
    expect(page).to_have_title("1 running · Wall · Tilefleet")


def test_the_end_of_an_old_job_is_told(chromium: Browser, url: str, ended: dict[str, Any]) -> None:
    """A fake of the notification alone, as a browser without a desktop shows none."""
    context = chromium.new_context(base_url=url, permissions=["notifications"])
    page = context.new_page()
    page.add_init_script(
        "localStorage.setItem('tilefleet-notices', 'true');"
        "window.told = []; window.Notification = class {"
        "static permission = 'granted'; static requestPermission() { return Promise.resolve('granted'); }"
        "constructor(title, options) { window.told.push([title, options.tag]); } }"
    )
    crowd = Crowd(page, ended)
    page.goto("/wall")
    expect(page.get_by_role("link", name=re.compile(f"{OLD} an old one"))).to_be_visible()
    page.wait_for_timeout(1000)
    assert page.evaluate("window.told") == []
    crowd.old = {**ended, "id": OLD, "name": "an old one"}
    for _ in range(200):
        page.wait_for_timeout(300)  # routes are answered meanwhile
        if page.evaluate("window.told.length"):
            break
    page.wait_for_timeout(6000)  # once, whatever lists say later
    assert page.evaluate("window.told") == [[f"Job {OLD} an old one is done", f"job-{OLD}"]]
    page.unroute_all(behavior="ignoreErrors")
    context.close()


def test_the_best_configs_of_an_old_job_are_its_own(page: Page, ended: dict[str, Any]) -> None:
    Crowd(page, ended)
    page.route(re.compile(rf"/jobs/{OLD}/tasks$"), lambda route: route.fulfill(json={"items": []}))
    page.goto(f"/best?job={OLD}")
    choice = page.get_by_role("combobox", name="Model, target and job")
    expect(choice).to_have_value(re.compile(f"job {OLD}$"))
    # One that there is not is no other one.
    page.goto("/best?job=999999")
    expect(page.get_by_role("alert")).to_contain_text("there is no job 999999")
    expect(choice).to_have_value("")
    expect(page.get_by_role("group", name="Best configs")).to_have_count(0)


def test_each_page_says_in_its_tab_what_it_is(page: Page, client: Client, job: Job) -> None:
    task = client.tasks(job.id)[0]
    titles = {
        "/": re.compile(r"^(none|\d+) running.* · Overview · Tilefleet$"),
        "/wall": re.compile(r"^(none|\d+) running.* · Wall · Tilefleet$"),
        "/submit": "Submit a model · Tilefleet",
        "/boards": "Boards · Tilefleet",
        "/workloads": "Workloads · Tilefleet",
        f"/workloads/{task.workload_key}": f"{task.text} · Tilefleet",
        "/records": "Records · Tilefleet",
        "/best": "Best configs · Tilefleet",
    }
    for path, title in titles.items():
        page.goto(path)
        expect(page).to_have_title(title)


def test_who_submits_is_asked_once(page: Page, client: Client, tiny_model: Path) -> None:
    started = []
    for name in ("ada", None):
        page.goto("/submit")
        page.locator("input[type=file]").set_input_files(tiny_model)
        field = page.get_by_label("Your name")
        if name:
            field.fill(name)
        expect(field).to_have_value("ada")
        page.get_by_label("Trials").fill("1")
        page.get_by_role("button", name="Start tuning").click()
        page.wait_for_url(re.compile(r"/jobs/\d+$"))
        started.append(int(page.url.rsplit("/", 1)[1]))
    for number in started:
        assert client.job(number).submitter == "ada"
        client.cancel(number)
