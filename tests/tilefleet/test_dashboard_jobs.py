"""Jobs, one job and jobs side by side in a real browser: what they say, their dialogs, every state by axe."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import onnx
import pytest
from browser import SCREENSHOTS, faults
from playwright.sync_api import Browser, Locator, Page, Route, expect

from kernels.workload.base import Gemm, to_json
from tilefleet import Client
from tilefleet.job import Job

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]
UNKNOWN = to_json(Gemm(m=5, n=7, k=11))
"""A workload that no other test tunes: what is known needs no board."""


@pytest.fixture(scope="module")
def jobs(service: Path, tiny_model: Path) -> Iterator[list[Job]]:
    """Two jobs of one model that ended, by other strategies, and one that is to be deleted."""
    with Client((service / "url").read_text().strip()) as client:
        model = client.upload(tiny_model).hash
        common: dict[str, Any] = {"model": model, "target": "host", "labels": ["side"]}
        made = [
            client.submit(**common, trials=12, name="by the model", submitter="ada"),
            client.submit(**common, trials=8, strategy="random", seed=1, name="by chance"),
            client.submit(**common, trials=4, name="to be deleted"),
        ]
        ended = [job.wait() for job in made]
        assert [job.state for job in ended] == ["done"] * 3
        yield ended


def fixed(value: float) -> str:
    """Two decimals as a browser writes them: of two that are as near, the larger."""
    return str(Decimal(value).quantize(Decimal("0.01"), ROUND_HALF_UP))


def row(page: Page, job: Job) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=str(job.id), exact=True))


def test_jobs_are_found_named_compared_and_deleted(page: Page, client: Client, jobs: list[Job]) -> None:
    one, other, third = jobs
    page.goto("/jobs")
    expect(page).to_have_title(re.compile("Jobs · Tilefleet$"))
    expect(row(page, one)).to_contain_text("by the model")
    expect(row(page, one)).to_contain_text("by ada")
    page.get_by_label("Search jobs").fill("chance side")
    expect(row(page, one)).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text=re.compile("^1 job$"))).to_be_visible()
    assert "search=chance+side" in page.url  # a view can be shared
    page.reload()
    expect(row(page, other)).to_be_visible()
    expect(row(page, one)).to_have_count(0)
    page.get_by_role("button", name="All jobs").click()
    expect(row(page, one)).to_be_visible()

    page.get_by_role("combobox", name="State").click()
    page.get_by_role("option", name="failed").click()
    expect(page.get_by_role("heading", name="No such job")).to_be_visible()
    page.get_by_role("button", name="All jobs").click()

    # Sorted by a head, the other way by another click; the address says so.
    head = page.get_by_role("columnheader", name="Name")
    for way in ("descending", "ascending"):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", way)
    expect(page).to_have_url(re.compile("sort=name&order=up"))

    page.get_by_role("button", name=f"Name and labels of job {one.id}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_be_focused()
    dialog.get_by_label("Name").fill("renamed here")
    dialog.get_by_role("combobox", name="Labels").fill("nightly")
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(row(page, one)).to_contain_text("renamed here")
    changed = client.job(one.id)
    assert (changed.name, changed.labels) == ("renamed here", ["nightly", "side"])

    # A label of two words is none: the dialog says so and stays.
    page.get_by_role("button", name=f"Name and labels of job {other.id}").click()
    dialog.get_by_role("combobox", name="Labels").fill("two words")
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("labels")
    page.keyboard.press("Escape")

    # What is chosen stays so while others are shown, and the browser's back brings the old words back.
    search = page.get_by_label("Search jobs")
    page.get_by_label(f"Choose job {one.id}", exact=True).check()
    search.fill("chance side")
    expect(row(page, one)).to_have_count(0)
    page.get_by_label("Choose all of this page").check()
    expect(page.get_by_role("status").filter(has_text="2 chosen")).to_be_visible()
    page.go_back()
    expect(search).to_have_value("")
    expect(page.get_by_label(f"Choose job {other.id}", exact=True)).to_be_checked()
    page.get_by_role("button", name="Choose none").click()

    records = len(list(client.records()))
    gone = client.submit(model=client.job(third.id).model, target="host", trials=1, name="gone before")
    page.get_by_label(f"Choose job {gone.id}", exact=True).check()
    page.get_by_label(f"Choose job {third.id}", exact=True).check()
    gone.wait()
    # It was chosen while it ran; one that somebody else deleted meanwhile is in nobody's way.
    expect(page.get_by_role("button", name="Delete…")).to_be_enabled()
    client.delete_job(gone.id)
    page.get_by_role("button", name="Delete…").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="chosen")).to_have_count(0)
    expect(row(page, third)).to_have_count(0)
    assert third.id not in [job.id for job in client.jobs()]
    assert len(list(client.records())) == records

    for job in (one, other):
        page.get_by_label(f"Choose job {job.id}", exact=True).check()
    page.get_by_role("link", name="Compare").last.click()
    expect(page).to_have_url(re.compile(rf"/compare\?jobs={one.id},{other.id}$"))


def test_a_layer_is_looked_at_in_graph_table_and_charts(page: Page, client: Client, jobs: list[Job]) -> None:
    job = jobs[0]
    page.goto(f"/jobs/{job.id}")
    says = page.get_by_role("region", name="What the figures say")
    expect(says).to_contain_text(re.compile(r"takes? \d+\s% of the layers' time"))
    times = page.get_by_role("region", name="Estimate, layers and delivered model")
    for name in ("Sum of the layers", "Whole model, estimated", "Delivered: built and measured"):
        expect(times).to_contain_text(name)
    expect(page.get_by_label("What the job is")).to_contain_text("by ada")

    tasks = client.tasks(job.id)
    model = page.get_by_role("region", name="The model")
    drawn = model.locator("[data-key]")
    # Each occurrence of each layer is a node, and is coloured by what it takes: the slowest in full, others
    # by the root of their part of that. Layers that take the same have the same colour, only these have.
    expect(drawn).to_have_count(sum(task.weight for task in tasks))
    slowest = max(task.best_s or 0 for task in tasks)
    strengths = {
        task.workload_key: math.floor(100 * math.sqrt((task.best_s or 0) / slowest) + 0.5) for task in tasks
    }
    colours: dict[str, str] = dict(
        drawn.evaluate_all(
            "all => all.map(e => [e.dataset.key, getComputedStyle(e.querySelector('rect')).fill])"
        )
    )
    expected = page.evaluate(
        """([map, strengths]) => Object.fromEntries(Object.entries(strengths).map(([key, strength]) => {
            const probe = map.ownerDocument.createElementNS("http://www.w3.org/2000/svg", "rect");
            map.append(probe);
            probe.style.fill = `color-mix(in srgb, var(--time) ${strength}%, var(--mantine-color-body))`;
            const { fill } = getComputedStyle(probe);
            probe.remove();
            return [key, fill];
        }))""",
        [model.locator("svg").element_handle(), strengths],
    )
    assert colours == expected
    assert len(set(colours.values())) == len(set(strengths.values()))

    expect(page.get_by_role("link", name="Jobs", exact=True)).to_have_attribute("data-active", "true")
    # At this width the whole state of a layer is seen without scrolling.
    table = page.get_by_role("group", name="Layers", exact=True)
    outer = table.bounding_box()
    assert outer is not None
    states = table.get_by_role("cell").filter(has_text=re.compile("^(done|plateau|exhausted)$"))
    expect(states).to_have_count(len(tasks))
    for cell in states.all():
        inner = cell.bounding_box()
        assert inner is not None
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]

    heaviest = max(tasks, key=lambda task: task.weight * (task.best_s or 0))
    layers = page.get_by_role("region", name="Layers")
    button = layers.get_by_role("button", name=f"Show {heaviest.text} in the charts")
    model.locator(f"[data-key='{heaviest.workload_key}']").first.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(model.locator("[data-chosen=true]")).to_have_count(heaviest.weight)
    button.click()
    expect(model.locator("[data-chosen=true]")).to_have_count(0)

    # What ends a drag is no click at the layer under it.
    moved, node = model.locator("svg > g").first, model.locator(f"[data-key='{heaviest.workload_key}']").first
    node.evaluate("node => node.scrollIntoView({ block: 'center' })")  # not under the head of the page
    box, before = node.bounding_box(), moved.get_attribute("transform")
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 45, box["y"] + 25, steps=4)
    page.mouse.up()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(moved).not_to_have_attribute("transform", before or "")

    # By the keyboard alone: closer, aside, and the whole again.
    view = model.get_by_role("group", name=re.compile("Map of the model"))
    view.focus()
    page.keyboard.press("0")
    whole = moved.get_attribute("transform")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    expect(moved).not_to_have_attribute("transform", whole or "")
    page.keyboard.press("0")
    expect(moved).to_have_attribute("transform", whole or "")
    model.get_by_text("gain", exact=True).click()
    expect(model).to_contain_text("times as fast as its untuned config")

    came = page.get_by_role("group", name="Where the gain came from").get_by_role("button")
    if came.count():  # of twelve trials none may have been faster than the first
        came.first.click()
        expect(came.first).to_have_attribute("aria-pressed", "true")
    past = page.get_by_role("region", name=re.compile("on host over time"))
    expect(past.get_by_role("img", name=re.compile(r"Measured time of .* in \d+ jobs"))).to_be_visible()


def test_jobs_are_held_against_each_other(page: Page, client: Client, jobs: list[Job]) -> None:
    one, other = jobs[:2]
    page.goto("/compare")
    expect(page.get_by_role("heading", name="Nothing is compared yet")).to_be_visible()
    for job in (one, other):
        page.get_by_role("combobox", name="Add a job").fill(str(job.id))
        page.get_by_role("option", name=re.compile(rf"^{job.id} ")).click()
    differ = page.get_by_role("region", name="What differs")
    expect(differ.get_by_role("row", name=re.compile("Strategy"))).to_contain_text("random")
    expect(differ.get_by_role("row", name=re.compile("^Target"))).to_have_count(0)
    expect(differ.get_by_role("row", name=re.compile("Against the first"))).to_contain_text(
        re.compile("x as fast|x the time|the same within the noise")
    )
    differ.get_by_label("also what is the same").check()
    expect(differ.get_by_role("row", name=re.compile("^Target"))).to_contain_text("host")
    names = [client.job(job.id).name for job in (one, other)]
    curves = page.get_by_role("img", name=re.compile("over trials of .*"))
    expect(curves).to_have_attribute("aria-label", re.compile(".*".join(names)))

    layers = page.get_by_role("region", name="Layer by layer")
    costs = [{task.workload_key: task for task in client.tasks(job.id)} for job in (one, other)]
    expect(layers).to_contain_text(f"{len(costs[0])} of {len(costs[0])} layers are in all of them")
    for key, task in costs[0].items():
        line = layers.get_by_role("row").filter(has=page.get_by_role("link", name=task.text))
        ratio = (task.best_s or 0) / (costs[1][key].best_s or 1)
        noise = max(0.02, ((task.best_spread or 0) + (costs[1][key].best_spread or 0)) / 2)
        same = abs(ratio - 1) <= noise
        expected = (
            "the same" if same else f"{fixed(ratio)} x as fast" if ratio > 1 else f"{fixed(1 / ratio)} x the"
        )
        expect(line).to_contain_text(expected)
    # What has ended is not asked for again and again.
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(7000)
    assert not [each for each in asked if re.search(r"/jobs/\d", each)][6:]
    page.get_by_role("button", name=f"Without job {one.id}").click()
    expect(page).to_have_url(re.compile(rf"/compare\?jobs={other.id}$"))
    expect(layers).to_have_count(0)
    page.goto(f"/compare?jobs={other.id},999999")
    expect(page.get_by_role("alert")).to_contain_text("there is no job 999999")


def test_targets_are_held_against_each_other(page: Page, client: Client, jobs: list[Job]) -> None:
    """The list of real jobs, of which one is said to be of another target: the service has one board."""
    one, other = (client.job(job.id) for job in jobs[:2])

    def elsewhere(route: Route) -> None:
        body: dict[str, Any] = route.fetch().json()
        wanted = [job for job in body["items"] if job["id"] in (one.id, other.id)]
        for job in wanted:
            if job["id"] == other.id:
                job.update(target="rpi4", clock="a simulated one")
        route.fulfill(json={**body, "items": wanted})

    page.route(re.compile(r"/api/v1/jobs\?model=.*limit=500"), elsewhere)
    page.goto(f"/compare?jobs={one.id}")
    targets = page.get_by_role("region", name="tiny.onnx on each target")
    rows = targets.get_by_role("row")
    expect(rows).to_have_count(3)
    # Each clock by itself: times of two have neither an order nor a ratio.
    for at, name in ((1, "host"), (2, "rpi4")):
        expect(rows.nth(at)).to_contain_text(name)
        expect(rows.nth(at)).to_contain_text("1.00")
    expect(targets).to_contain_text("those of two clocks are never compared")
    targets.get_by_role("button", name="Compare these").click()
    page.wait_for_url(lambda address: address.endswith(f"jobs={one.id}%2C{other.id}"))
    expect(page.get_by_role("region", name="Layer by layer")).to_be_visible()


def test_a_chain_without_a_time_is_in_nobodys_way(page: Page, client: Client, jobs: list[Job]) -> None:
    """The tasks of real jobs, and a chain beside them as a model with deep blocks has: this one has none."""

    def more(route: Route) -> None:
        body: dict[str, Any] = route.fetch().json()
        chain = {**body["items"][0], "id": 10**6, "workload_key": "c" * 16, "text": "a chain", "weight": 0}
        body["items"].append({**chain, "best_s": None, "best_config": None, "recommended_s": None})
        route.fulfill(json=body)

    one, other = jobs[:2]
    count = len(client.tasks(one.id))
    page.route(re.compile(r"/jobs/\d+/tasks$"), more)
    page.goto(f"/jobs/{one.id}")
    layers = page.get_by_role("region", name="Layers", exact=True)
    expect(layers).to_contain_text(re.compile(rf"of the layers' time is in \d of {count};"))
    expect(layers.get_by_role("link", name="a chain")).to_be_visible()
    expect(layers.get_by_label("Share of time")).to_have_count(count)
    expect(page.get_by_role("region", name="What the figures say")).to_contain_text("of the layers' time")
    page.goto(f"/compare?jobs={one.id},{other.id}")
    lines = page.get_by_role("region", name="Layer by layer")
    expect(lines).to_contain_text(f"{count} of {count} layers are in all of them. These take")


@pytest.fixture(scope="module")
def failed(service: Path) -> Iterator[Job]:
    """A job that failed: its only board was away until its deadline."""
    with Client((service / "url").read_text().strip()) as client:
        client.change_board("host", "park", "until a job has failed")
        try:
            soon = datetime.now(UTC) + timedelta(seconds=5)
            job = client.submit(workload=UNKNOWN, target="host", deadline=soon, name="without a board").wait()
        finally:
            client.change_board("host", "return")
        assert job.state == "failed"
        yield job


@pytest.fixture
def waiting(client: Client) -> Iterator[Job]:
    """A job whose only board is away, without a label."""
    client.change_board("host", "park", "the heat sink fell off")
    job = client.submit(workload=UNKNOWN, target="host", trials=4, name="without a label")
    yield job
    client.cancel(job.id)
    client.change_board("host", "return")


@pytest.fixture
def large_model(tiny_model: Path, tmp_path: Path) -> Path:
    """A model whose upload takes a while on a slow line."""
    model = onnx.load(tiny_model)
    model.doc_string = "long " * 100_000
    onnx.save(model, tmp_path / "large.onnx")
    return tmp_path / "large.onnx"


@pytest.fixture
def built(client: Client, jobs: list[Job], tmp_path: Path) -> Path:
    """The file beside a build, with the layers of a job."""
    layers = [
        {"key": task.workload_key, "name": task.text, "expected_s": task.best_s, "clock": "wall"}
        | {"config": task.best_config}
        for task in client.tasks(jobs[1].id)
    ]
    text = json.dumps({"target": {"name": "host"}, "threads": 1, "estimate_s": 1e-3, "layers": layers})
    (tmp_path / "built.so.json").write_text(text)
    return tmp_path / "built.so.json"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_state_can_be_read_by_everyone(
    chromium: Browser,
    url: str,
    jobs: list[Job],
    failed: Job,
    waiting: Job,
    large_model: Path,
    built: Path,
    scheme: Any,
    width: int,
) -> None:
    one, other = jobs[:2]
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    # The checker is put into the page, which its policy would refuse.
    context = chromium.new_context(
        base_url=url, viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    found: dict[str, dict[str, str]] = {}

    def look(name: str, path: str | None = None) -> None:
        if path is not None:
            page.goto(path)
            shown = page.get_by_role("heading", level=2).or_(page.get_by_role("alert"))
            expect(shown.first).to_be_visible()
            expect(page.get_by_label("Loading")).to_have_count(0)
        page.wait_for_timeout(300)  # what fades in is seen by then
        page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is too wide"
        if wrong := faults(page):
            found[name] = wrong

    look("jobs-none", "/jobs?search=nothing+is+called+so")
    look("jobs", "/jobs")
    page.get_by_label(f"Choose job {one.id}", exact=True).check()
    look("jobs-chosen")
    page.get_by_role("button", name=f"Name and labels of job {one.id}").click()
    look("jobs-rename")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete…").click()
    look("jobs-delete")
    page.keyboard.press("Escape")
    look("job", f"/jobs/{one.id}")
    page.get_by_role("button", name=re.compile("^Show .* in the charts")).first.click()
    look("job-layer")
    look("job-gone", "/jobs/999999")
    look("job-failed", f"/jobs/{failed.id}")
    expect(page.get_by_role("alert").first).to_contain_text("its deadline came before their first trial")
    expect(page.get_by_role("region", name="Layers", exact=True)).to_contain_text("untried")
    expect(page.get_by_role("heading", name="None of these was measured", exact=True)).to_be_visible()
    look("job-waiting", f"/jobs/{waiting.id}")
    expect(page.get_by_text(re.compile("the heat sink fell off"))).to_be_visible()
    page.get_by_role("button", name="Rename…").click()
    page.get_by_role("dialog").get_by_role("combobox", name="Labels").click()
    expect(page.get_by_role("option", name="side")).to_be_visible()
    look("job-labels")
    line = context.new_cdp_session(page)
    line.send("Network.enable")
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 10_000}
    page.goto("/submit")
    line.send("Network.emulateNetworkConditions", slow)
    page.locator("input[type=file]").set_input_files(large_model)
    expect(page.get_by_label("Progress of the upload")).to_be_visible()
    look("submit-sending")
    expect(page.get_by_label("Progress of the upload")).to_be_visible()
    line.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    look("compare-none", "/compare")
    page.get_by_role("combobox", name="Add a job").click()
    look("compare-choosing")
    look("compare-one", f"/compare?jobs={one.id}")
    look("compare", f"/compare?jobs={one.id},{other.id}")
    page.get_by_text("other knobs").click()
    look("compare-knobs")
    page.locator("input[type=file]").set_input_files(built)
    expect(page.get_by_role("columnheader", name=built.name).first).to_be_visible()
    look("compare-build")
    context.close()
    assert not found
