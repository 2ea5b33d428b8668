"""A build of the command line in a real browser: beside a job on the page of comparisons."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from tilefleet import Client
from tilefleet.cli import app

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]


def test_a_build_is_held_against_a_job(
    chromium: Browser, url: str, page: Page, client: Client, tiny_model: Path, tmp_path: Path
) -> None:
    """By the file beside a module that was built by the job's log."""
    job = client.submit(model=client.upload(tiny_model).hash, target="host", trials=6).wait()
    log, module = tmp_path / "tiny.jsonl", tmp_path / "tiny.so"
    log.write_text("".join(f"{line}\n" for line in client.job_log(job.id, "all")))
    words = ["build", tiny_model, "--log", log, "--no-check", "-o", module]
    assert CliRunner().invoke(app, [str(word) for word in words]).exit_code == 0
    page.goto(f"/compare?jobs={job.id}")
    chosen = page.locator("input[type=file]")
    chosen.set_input_files(tiny_model)
    expect(page.get_by_role("alert")).to_contain_text("tiny.onnx is not the JSON file that tilefleet build")
    chosen.set_input_files(f"{module}.json")
    expect(page.get_by_role("alert")).to_have_count(0)
    layers = page.get_by_role("region", name="Layer by layer")
    tasks = client.tasks(job.id)
    expect(layers).to_contain_text(f"{len(tasks)} of {len(tasks)} layers are in all of them")
    expect(layers.get_by_role("columnheader", name="tiny.so.json")).to_be_visible()
    # It is there again when the page was left, until it is taken away.
    page.reload()
    rows = page.get_by_role("region", name="What differs").get_by_role("row")
    expect(rows.filter(has_text=re.compile("^Estimated.*s$"))).to_be_visible()
    expect(rows.filter(has_text="Against the first")).to_contain_text("––")
    written = json.loads(Path(f"{module}.json").read_text())["layers"]
    us = 1e6 * sum(layer["expected_s"] for layer in written if layer["key"])
    shown = f"{us:.{0 if us >= 100 else 1 if us >= 10 else 2}f} µs in tiny.so.json"
    expect(layers).to_contain_text(shown)
    # Its noise is what its records say of their repeats.
    noise = next(layer["spread"] for layer in written if layer["key"] == tasks[0].workload_key) / 2
    line = layers.get_by_role("row").filter(has=page.get_by_role("link", name=tasks[0].text))
    expect(line.get_by_role("cell").nth(2)).to_contain_text(f"± {_percent(noise)}")
    # The link takes the build along to who was never given its file.
    expect(page).to_have_url(re.compile("#builds="))
    context = chromium.new_context(base_url=url)
    elsewhere = context.new_page()
    elsewhere.goto(page.url)
    expect(elsewhere.get_by_role("region", name="Layer by layer")).to_contain_text(shown)
    context.close()
    page.get_by_role("button", name="Without tiny.so.json").click()
    expect(layers).to_have_count(0)
    expect(page).not_to_have_url(re.compile("#"))


def test_each_set_of_shapes_is_a_build_of_its_own(page: Page, client: Client, tmp_path: Path) -> None:
    """Of a file that has several, and what is more than fits side by side waits."""
    key = "0123456789abcdef"
    sets = [
        {
            "target": {"name": "host"},
            "inputs": {"x": [1, length]},
            "layers": [
                {"key": key, "name": "a layer", "expected_s": length * 1e-6, "clock": "wall", "config": None}
            ],
            "estimate_s": length * 1e-6,
        }
        for length in range(1, 11)
    ]
    file = tmp_path / "sets.so.json"
    file.write_text(json.dumps({"target": {"name": "host"}, "threads": 2, "shapes": sets}))
    page.goto("/compare")
    page.locator("input[type=file]").set_input_files(file)
    differ = page.get_by_role("region", name="What differs")
    for length in range(1, 9):
        expect(differ.get_by_role("columnheader", name=f"sets.so.json, x=1x{length}")).to_be_visible()
    expect(page.get_by_text("2 more do not fit")).to_be_visible()
    against = differ.get_by_role("row", name=re.compile("Against the first"))
    expect(against.get_by_role("cell").nth(3)).to_contain_text("4.00 x the time, estimated")
    page.get_by_role("button", name="Without sets.so.json, x=1x1", exact=True).click()
    page.get_by_role("button", name="Without sets.so.json, x=1x3", exact=True).click()
    expect(differ.get_by_role("columnheader", name="sets.so.json, x=1x10")).to_be_visible()
    expect(differ.get_by_role("columnheader", name="sets.so.json, x=1x3")).to_have_count(0)


def _percent(share: float) -> str:
    """As pages write it."""
    small = 0.0005 <= share < 0.0095
    return f"{100 * share:.1f}\u00a0%" if small else f"{math.floor(100 * share + 0.5)}\u00a0%"
