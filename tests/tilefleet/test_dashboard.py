"""The dashboard in a real browser, against a real coordinator with a real job on the native board."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from browser import PATIENCE_MS, SCREENSHOTS, faults
from playwright.sync_api import Browser, Page, Route, expect

from kernels import registry
from kernels.target import CATALOGUE
from kernels.workload.base import Gemm, to_json
from tilefleet import Client
from tuner.log.record import Record, write_log

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]
PAGES = ("/", "/submit", "/boards", "/wall", "/workloads", "/records", "/best")
FIRST_PAGE_BYTES = 300_000


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that no page says."""
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.05)


@contextmanager
def parked(client: Client) -> Iterator[None]:
    """The board is out of service meanwhile."""
    client.change_board("host", "park", "a test looks at a job")
    try:
        yield
    finally:
        client.change_board("host", "return")


def test_from_a_model_to_the_log_of_its_job(page: Page, tiny_model: Path, client: Client) -> None:
    page.goto("/")
    page.get_by_role("link", name="Submit a model").first.click()
    page.locator("input[type=file]").set_input_files(tiny_model)
    expect(page.get_by_text(re.compile(r"of them distinct"))).to_be_visible()
    page.get_by_label("Minutes").fill("60")
    page.get_by_role("button", name="Start tuning").click()

    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    job = int(page.url.rsplit("/", 1)[1])
    until(lambda: all(task.trials for task in client.tasks(job)))
    # What comes next is said anew when a batch ends: on a parked board none does.
    budget = page.get_by_role("region", name="Where the budget goes")
    expect(budget).to_contain_text(
        re.compile("Next: .*whose next trial is expected to save|No task promises")
    )
    with parked(client):  # so that the job does not end under these looks at it
        # A best arrives without anybody asking: the whole model has a time.
        expect(page.get_by_text(re.compile(r"^[\d.]+\s[µm]s$")).first).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("Best time so far of"))).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        assert client.job(job).state == "cancelled"
        expect(budget).to_have_count(0)
        before = client.job(job).trials
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    # Some that differ in a knob: without them there is nothing to draw them over.
    until(lambda: client.job(job).trials >= before + 8)
    with parked(client):
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("button", name="Resume")).to_be_visible()

    with page.expect_download() as download:
        page.get_by_role("link", name="Best configs").last.click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert any("config" in json.loads(line) for line in lines)

    task = client.tasks(job)[0]
    where = {"target": "host", "threads": 1}
    client.put_baseline(task.workload_key, "somelib", version="7.1", seconds=1e-5, **where)
    page.reload()
    expect(
        page.get_by_role("img", name=re.compile("dashed: the untuned config; dotted: somelib 7.1"))
    ).to_be_visible()

    page.get_by_role("link", name=task.text).first.click()
    expect(page.get_by_role("heading", name="The fastest")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("in the order they were measured"))).to_be_visible()
    # Both are compiled: the best with its loops against the caches, and the analysis's beside it.
    for title in ("Best", "By the analysis"):
        expect(page.get_by_label(f"Loop nest, {title}")).to_contain_text("multiply-add")
        expect(page.get_by_role("img", name=f"{title}: what one run of each loop touches")).to_be_visible()
    # With the keyboard alone: the trials over a knob.
    page.get_by_role("combobox", name="What the trials are drawn over").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("option").nth(1)).to_be_visible()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("img", name=re.compile("trials by their "))).to_be_visible()

    page.get_by_role("link", name="Overview").click()
    expect(
        page.get_by_role("region", name="Recent bests").get_by_role("link", name=task.text).first
    ).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Records a minute"))).to_be_visible()
    page.get_by_role("link", name="Boards").click()
    expect(page.get_by_role("img", name=re.compile("Use of host over the last hour"))).to_be_visible()


def test_the_page_of_a_job_that_is_done_says_where_the_time_goes(
    page: Page, tiny_model: Path, client: Client
) -> None:
    job = client.submit(model=client.upload(tiny_model).hash, target="host", trials=12)
    until(lambda: client.job(job.id).ended)
    page.goto(f"/jobs/{job.id}")
    operators = page.get_by_role("region", name="Where the built model's time goes")
    for task in client.tasks(job.id):
        expect(operators.get_by_role("link", name=task.text)).to_be_visible()
    expect(operators).to_contain_text("calls and memory")
    expect(page).to_have_title(re.compile(rf"^done · job {job.id} .*Tilefleet$"))
    # What the job is, and its layers in the order that a head asks for.
    facts = page.get_by_label("What the job is")
    expect(facts).to_contain_text("host")
    expect(facts).to_contain_text("12 trials")
    layers = page.get_by_role("region", name="Layers", exact=True)
    # The heaviest comes first, unless told otherwise.
    expect(layers.get_by_role("columnheader", name="Share of time")).to_have_attribute(
        "aria-sort", "descending"
    )
    expect(layers.get_by_label("Share of time")).to_have_count(len(client.tasks(job.id)))
    expect(layers).to_contain_text(re.compile(r"\d+\s% of the layers' time is in \d of \d"))
    names = [task.text for task in client.tasks(job.id)]
    assert len(names) > 1
    for name, backwards in (("Workload ↓", True), ("Workload ↑", False)):
        layers.get_by_role("columnheader", name="Workload").get_by_role("button").click()
        expect(layers.get_by_role("columnheader", name=name)).to_be_visible()
        shown = [link.inner_text() for link in layers.get_by_role("link").all()]
        assert shown == sorted(names, reverse=backwards)


def test_the_browser_tells_when_a_job_ends(
    chromium: Browser, url: str, tiny_model: Path, client: Client
) -> None:
    """A fake of the notification alone: a browser without a desktop shows none, and nobody can look."""
    context = chromium.new_context(base_url=url, permissions=["notifications"])
    page = context.new_page()
    page.add_init_script(
        "window.told = []; window.Notification = class {"
        "static permission = 'granted'; static requestPermission() { return Promise.resolve('granted'); }"
        "constructor(title, options) { window.told.push([title, options.tag]); } }"
    )
    page.goto("/jobs")
    page.get_by_label("Tell me when a job ends").check()
    client.change_board("host", "park", "until the page has seen the job")
    try:
        job = client.submit(model=client.upload(tiny_model).hash, target="host", trials=4, name="told of")
        page.goto("/wall")  # whatever page is open, also one without a frame
        page.wait_for_timeout(6000)
        assert page.evaluate("window.told") == []
    finally:
        client.change_board("host", "return")
    until(lambda: bool(page.evaluate("window.told.length")))
    assert page.evaluate("window.told") == [[f"Job {job.id} told of is done", f"job-{job.id}"]]
    page.goto("/jobs")
    expect(page.get_by_label("Tell me when a job ends")).to_be_checked()
    context.close()


def test_dialogs_keep_to_the_policy_of_the_page(page: Page) -> None:
    page.goto("/boards")
    for action in ("Drain", "Park"):
        page.get_by_role("button", name=action, exact=True).first.click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Reason")).to_be_focused()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)


def test_a_model_may_be_dropped(page: Page, tiny_model: Path) -> None:
    page.goto("/submit")
    dropped = page.evaluate_handle(
        """bytes => {
            const held = new DataTransfer();
            held.items.add(new File([new Uint8Array(bytes)], "dropped.onnx"));
            return held;
        }""",
        list(tiny_model.read_bytes()),
    )
    page.get_by_text("drop it here").dispatch_event("drop", {"dataTransfer": dropped})
    expect(page.get_by_text(re.compile(r"of them distinct"))).to_be_visible()


def test_a_workload_of_one_trial_has_its_page(page: Page, client: Client) -> None:
    workload, target = Gemm(3, 5, 7), CATALOGUE["x86-avx2"]
    config = registry.recommendations(workload, target)[0]
    version = registry.kernel(config.kernel).version
    client.import_log(write_log([Record(workload, target, config, version, cost_s=1e-6)]))
    page.goto(f"/workloads/{workload.key}")
    expect(page.get_by_role("heading", name="The fastest")).to_be_visible()
    expect(page.get_by_label("Loop nest, Best")).to_be_visible()


def test_a_job_that_has_used_its_budget_up_is_given_another(page: Page, client: Client) -> None:
    job = client.submit(target="host", workload=to_json(Gemm(4, 6, 8)), trials=1)
    until(lambda: client.job(job.id).ended)
    page.goto(f"/jobs/{job.id}")
    page.get_by_role("button", name="Resume…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Trials").fill("1")
    dialog.get_by_role("button", name="Resume").click()
    expect(dialog).to_have_count(0)
    until(lambda: client.job(job.id).trials == 2)
    assert client.job(job.id).budget.trials == 2


def test_tasks_without_a_time_hide_no_curve(page: Page, tiny_model: Path, client: Client) -> None:
    """A real job, with nine tasks more that nothing was tried of."""

    def more(route: Route) -> None:
        body = route.fetch().json()
        untried = {**body["items"][0], "text": "untried", "best_s": None, "curve": [], "weight": 9}
        body["items"] += [{**untried, "id": 10**6 + number} for number in range(9)]
        route.fulfill(json=body)

    job = client.submit(model=client.upload(tiny_model).hash, target="host", trials=6).wait()
    page.route(re.compile(r"/jobs/\d+/tasks$"), more)
    page.goto(f"/jobs/{job.id}")
    expect(page.get_by_role("img", name=re.compile("Best time so far of 8 tasks"))).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read_by_everyone(chromium: Browser, url: str, client: Client, scheme: str) -> None:
    paths = list(PAGES)
    for job in islice(client.jobs(), 1):
        paths += [f"/jobs/{job.id}", f"/workloads/{client.tasks(job.id)[0].workload_key}"]
    found: dict[str, dict[str, str]] = {}
    for width in (1280, 390):
        # The checker is put into the page, which its policy would refuse.
        context = chromium.new_context(
            base_url=url, viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        )
        page = context.new_page()
        for path in paths:
            page.goto(path)
            expect(page.get_by_role("heading", level=2).first).to_be_visible()
            expect(page.get_by_label("Loading")).to_have_count(0)
            name = path.strip("/").replace("/", "-") or "overview"
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{width}.png", full_page=True)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is too wide"
            if wrong := faults(page):
                found[f"{path} at {width}"] = wrong
        context.close()
    assert not found


def test_the_first_page_is_small_and_asks_nobody_else(chromium: Browser, url: str) -> None:
    context = chromium.new_context(base_url=url)
    page = context.new_page()
    sizes: dict[str, int] = {}  # of each thing once: some are asked for again and again
    hosts: set[str] = set()

    def seen(response) -> None:
        hosts.add(response.url.split("/api")[0].split("/assets")[0].rstrip("/"))
        sizes.setdefault(response.url, response.request.sizes()["responseBodySize"])

    page.on("requestfinished", lambda request: seen(request.response()))
    page.goto("/", wait_until="networkidle")
    assert 10_000 < sum(sizes.values()) < FIRST_PAGE_BYTES
    assert all(host.startswith(url) for host in hosts)
    context.close()


def test_a_coordinator_that_is_away_is_said_so(chromium: Browser, url: str) -> None:
    context = chromium.new_context(base_url=url)
    page = context.new_page()
    page.goto("/")
    expect(page.get_by_role("heading", name="Fleet", exact=True)).to_be_visible()
    context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    context.set_offline(False)
    expect(page.get_by_role("alert")).to_have_count(0)
    context.close()


def test_pages_that_are_none_say_so(chromium: Browser, url: str) -> None:
    page = chromium.new_page(base_url=url)
    page.goto("/workloads/0000000000000000")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("there is no workload")
    colours = alert.evaluate("e => [e, document.body].map(each => getComputedStyle(each).backgroundColor)")
    assert colours[0] != colours[1]  # an error looks like one
    lost = page.goto("/nope")
    assert lost is not None
    assert lost.status == 404
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    expect(page).to_have_title("No such page · Tilefleet")
    icon = page.request.get("/favicon.ico")
    assert icon.ok
    assert icon.headers["content-type"].startswith("image/svg+xml")
    page.close()
