"""What can be asked of a job in a real browser: strategies, values and shapes of inputs."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from playwright.sync_api import Page, Route, expect

from tilefleet import Client

LONG = 9_007_199_254_740_993
"""An integer that is no number of the browser's language."""
pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    """A convolution whose result an integer scales."""
    weight = numpy_helper.from_array(np.full((8, 3, 3, 3), 0.1, np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["rate"], ["r"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["c", "r"], ["y"], "scale"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 16]),
        helper.make_tensor_value_info("rate", TensorProto.INT64, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "rated", inputs, outputs, [weight])
    path = tmp_path / "rated.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_an_input_is_given_a_value(page: Page, client: Client, rated: Path, url: str) -> None:
    page.goto("/submit")
    page.locator("input[type=file]").set_input_files(rated)
    start = page.get_by_role("button", name="Start tuning")
    expect(start).to_be_visible()
    expect(page.get_by_text("x, rate;")).to_be_visible()
    page.get_by_text("Inputs that always have the same value").click()
    values, read = page.get_by_label("Values"), page.get_by_role("button", name="Read it with these values")
    values.fill("rate=fast")
    expect(page.get_by_text('"fast" is no number')).to_be_visible()
    expect(read).to_be_disabled()
    # One that does not fit is refused beside the form, which stays.
    values.fill("rate=0.5")
    read.click()
    expect(page.get_by_role("alert")).to_contain_text("input 'rate' is int64, which [0.5] is not")
    values.fill(f"rate={LONG}")
    read.click()
    expect(page.get_by_text("x;")).to_be_visible()
    page.get_by_label("Trials").fill("1")
    start.click()
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    job = client.job(int(page.url.rsplit("/", 1)[1]))
    client.cancel(job.id)
    assert job.model is not None
    stored = httpx.get(f"{url}/api/v1/models/{job.model}/file").content
    rate = next(each for each in onnx.load_from_string(stored).graph.initializer if each.name == "rate")
    assert numpy_helper.to_array(rate).tolist() == LONG


@pytest.fixture
def dynamic(tmp_path: Path) -> Path:
    """A convolution whose image is of any height."""
    weight = numpy_helper.from_array(np.full((8, 3, 3, 3), 0.1, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["picture", "w"], ["y"], "conv", pads=[1, 1, 1, 1])],
        "dynamic",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, "height", 18])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    path = tmp_path / "heights.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_several_sets_of_shapes_are_given(page: Page, client: Client, dynamic: Path) -> None:
    page.goto("/submit")
    page.locator("input[type=file]").set_input_files(dynamic)
    page.get_by_label("Shapes").fill("picture=1,3,12,18")
    add = page.get_by_role("button", name="Add a set")
    add.click()
    second = page.get_by_label("Set 2", exact=True)
    expect(second).to_have_value("picture=1,3,12,18")
    add.click()
    page.get_by_role("button", name="Remove set 3").click()
    expect(page.get_by_label("Set 3", exact=True)).to_have_count(0)
    read = page.get_by_role("button", name="Read it with these shapes")
    second.fill("picture=1,3,x,18")
    expect(read).to_be_disabled()
    second.fill("picture=1,3,14,18")
    read.click()
    expect(page.get_by_text("The 2 distinct layers")).to_be_visible()
    page.get_by_label("Trials").fill("1")
    page.get_by_role("button", name="Start tuning").click()
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    number = int(page.url.rsplit("/", 1)[1])
    client.cancel(number)
    assert client.job(number).shapes == [{"picture": [1, 3, 12, 18]}, {"picture": [1, 3, 14, 18]}]
    page.goto(f"/best?job={number}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the build command").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "--shape picture=1,3,12,18 --shape picture=1,3,14,18" in copied


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
    expect(page.get_by_text("Learns from the trials what every config will cost")).to_be_visible()
    strategy.click()
    names = ["analysis", "exhaustive", "random", "annealing", "evolution", "model", "bandit", "predicted"]
    expect(page.get_by_role("option")).to_have_text(names)
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
