"""A build of the command line in a real browser: beside a job on the page of comparisons."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from typer.testing import CliRunner

from tilefleet import Client
from tilefleet.cli import app

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]


def test_a_build_is_held_against_a_job(page: Page, client: Client, tiny_model: Path, tmp_path: Path) -> None:
    """By the file beside a module that was built by the job's log."""
    job = client.submit(model=client.upload(tiny_model).hash, target="host", trials=6).wait()
    log, module = tmp_path / "tiny.jsonl", tmp_path / "tiny.so"
    log.write_text("".join(f"{line}\n" for line in client.job_log(job.id)))
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
    page.get_by_role("button", name="Without tiny.so.json").click()
    expect(layers).to_have_count(0)
