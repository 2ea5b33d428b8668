"""What can be asked of a job in a real browser: strategies, values and shapes of inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tilefleet import Client

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]


def test_the_strategy_of_a_plug_in_can_be_chosen(page: Page, client: Client, tiny_model: Path) -> None:
    """It is added to the answer alone, so the coordinator refuses it: that shows what was asked for."""

    def more(route: Route) -> None:
        found = route.fetch().json()
        found["items"].append({"name": "predicted", "about": "Tries the fastest predicted first."})
        route.fulfill(json=found)

    page.route("**/api/v1/strategies", more)
    page.goto("/submit")
    page.locator("input[type=file]").set_input_files(tiny_model)
    page.get_by_text("More: name, labels").click()
    strategy = page.get_by_role("combobox", name="Strategy")
    expect(strategy).to_have_value("model")
    expect(page.get_by_text("Learns from the trials which configs are fast")).to_be_visible()
    strategy.click()
    expect(page.get_by_role("option")).to_have_text(["analysis", "random", "evolution", "model", "predicted"])
    page.get_by_role("option", name="predicted").click()
    expect(page.get_by_text("Tries the fastest predicted first.")).to_be_visible()
    page.get_by_role("button", name="Start tuning").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown strategy 'predicted'")

    job = client.submit(model=client.upload(tiny_model).hash, target="host", trials=1).wait()
    page.goto(f"/workloads/{client.tasks(job.id)[0].workload_key}")
    page.get_by_role("button", name="Tune it").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox", name="Strategy").click()
    page.get_by_role("option", name="predicted").click()
    dialog.get_by_role("button", name="Start tuning").click()
    expect(dialog.get_by_role("alert")).to_contain_text("unknown strategy 'predicted'")
