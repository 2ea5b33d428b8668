"""The client as a user of Python has it: typed, for asyncio, in a notebook, and without any server."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import tilefleet
from tilefleet import AsyncClient, AsyncJob, Client, TilefleetError
from tilefleet.reference import PAGE, page
from tuner.log.record import read_log
from tuner.log.relayouts import KIND

ROOT = Path(__file__).parents[2]
SNIPPET = """
from collections.abc import AsyncIterator
from tilefleet import AsyncClient, AsyncJob, Client, Tuned, tune

def mine(client: Client) -> float | None:
    job = client.submit(model="hash", target="host", seconds=180).wait()
    for task in job.tasks():
        text: str = task.text
    name: int = job.target  # wrong
    client.submit(model="hash")  # wrong: no target
    newest = client.records(kernel="winograd", threads=1, sort="newest")
    client.records(kernels="winograd")  # wrong
    client.records(sort="best")  # wrong
    return job.estimated_ms or next(newest).cost_s

async def others(client: AsyncClient) -> AsyncJob:
    jobs: AsyncIterator[AsyncJob] = client.jobs()
    async for job in jobs:
        print(job.state)
    await client.job("7")  # wrong
    client.records(job="7")  # wrong
    job = await client.job(7)
    print(job.wait().state)  # wrong: not awaited
    for line in await job.log("all"):
        print(line.strip())
    return await job.wait()

def whole() -> Tuned:
    return tune("model.onnx", seconds="long")  # wrong
"""


def test_a_users_snippet_is_checked_by_mypy(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(snippet)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    marked = [n for n, line in enumerate(SNIPPET.splitlines(), 1) if "# wrong" in line]
    assert wrong == marked, done.stdout


def test_every_package_says_that_it_is_typed() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package in ("tilefleet", "server", "tuner", "worker", "kernels"):
        assert "py.typed" in data[package]
        assert (ROOT / package / "py.typed").exists()


def test_the_client_for_asyncio_has_all_methods_with_their_docs() -> None:
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if not name.startswith("_"):
            assert getattr(AsyncClient, name).__doc__ == method.__doc__, name


def test_the_job_for_asyncio_has_the_methods_that_take_time() -> None:
    for name in ("refresh", "wait", "tasks", "log", "to_frame"):
        method = getattr(AsyncJob, name)
        assert inspect.iscoroutinefunction(method)
        assert method.__doc__ == getattr(tilefleet.Job, name).__doc__


def test_the_reference_page_is_of_todays_docstrings() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "python -m tilefleet.reference"
    assert all(f"### {name}\n" in text for name in vars(Client) if name[0] != "_")


async def test_a_filter_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="kernels"):
        Client("http://127.0.0.1:1").records(kernels="winograd")  # type: ignore[call-arg]
    async with AsyncClient("http://127.0.0.1:1") as other:
        with pytest.raises(TypeError, match="kernels"):
            [each async for each in other.records(kernels="winograd")]  # type: ignore[call-arg]


@pytest.mark.xdist_group("service")
def test_records_are_filtered_and_sorted(job: tilefleet.Job, client: Client) -> None:
    found = list(client.records(job=job.id, error="none", sort="fastest"))
    times = [each.placed_s or each.verified_s or each.cost_s for each in found]
    assert found
    assert times == sorted(times, key=lambda each: each or 0.0)
    mine = {"job": job.id, "target": "host", "threads": 1, "clock": "wall"}
    kernel, key = found[0].config["kernel"], found[0].workload_key
    one = [each.id for each in client.records(**mine, kernel=kernel, workload=key, search=kernel)]
    assert found[0].id in one
    assert not list(client.records(**{**mine, "threads": 99}))


@pytest.fixture
def job(client: Client, tiny_model: Path) -> tilefleet.Job:
    model = client.upload(tiny_model)
    return client.submit(model=model.hash, target="host", trials=4).wait()


@pytest.mark.xdist_group("service")
async def test_a_job_in_a_script_and_a_notebook(
    job: tilefleet.Job, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job.state == "done"
    shown = job._repr_html_()
    assert all(task.text in shown.replace("&gt;", ">") for task in job.tasks())
    assert f'href="{client.url}/jobs/{job.id}"' in shown
    views: list[Any] = []
    handle = types.SimpleNamespace(update=views.append)

    def display(view: Any, display_id: bool) -> Any:
        views.append(view)
        return handle

    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))  # type: ignore[arg-type]
    assert job.watch().state == views[-1].state == "done"
    assert len(views) > 2
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.delitem(sys.modules, "IPython.display")
    with pytest.raises(TilefleetError, match="tilefleet watch"):
        job.watch()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TilefleetError, match="pip install pandas"):
        job.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=list))  # type: ignore[arg-type]
    assert len(job.to_frame()) == job.trials
    async with AsyncClient(client.url) as other:
        assert (await other.job(job.id)).model_dump() == client.job(job.id).model_dump()
        assert job.id in [each.id async for each in other.jobs()]
        assert [event.name async for event in other.events(job.id)][-1] == "end"
        lines = [line async for line in other.job_log(job.id)]
        mine = await other.job(job.id)
        assert (await mine.tasks(), await mine.log()) == (job.tasks(), job.log())
        assert mine.blocking._repr_html_() == shown
    assert list(read_log(lines)) == list(read_log(client.job_log(job.id)))
    with pytest.raises(TilefleetError, match="did not come from a client"):
        tilefleet.Job.model_validate(job.model_dump()).refresh()


@pytest.mark.xdist_group("service")
async def test_a_wait_for_a_job_leaves_the_loop_free(client: Client, tiny_model: Path) -> None:
    model = client.upload(tiny_model)
    async with AsyncClient(client.url) as other:
        waiting = asyncio.create_task((await other.submit(model=model.hash, target="host", trials=4)).wait())
        turns = 0
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0.01)
        ended = await waiting
        assert ended.state == "done"
        assert turns > 5
        assert (await ended.refresh()).trials == ended.trials >= 4
        assert ended.id in [each.id async for each in other.jobs() if isinstance(each, AsyncJob)]
        assert (await (await other.change_job(ended.id, name="mine")).refresh()).name == "mine"


@pytest.mark.xdist_group("service")
def test_one_line_tunes_a_model_without_a_server(
    service: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home/engine").mkdir(parents=True)
    for agent in (service / "engine").glob("*agent*"):  # which takes a while to compile
        if agent.is_file():
            shutil.copy2(agent, tmp_path / "home/engine")
    tuned = tilefleet.tune(tiny_model, trials=3, seconds=8, home=tmp_path / "home")
    told = capsys.readouterr()
    assert told.out == ""
    for what in (r"starting, with the state in .*home", r" running  estimate .* trials ", r"building .*onnx"):
        assert re.search(f"^.*{what}", told.err, re.MULTILINE), told.err
    model = onnx.load(tiny_model)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    data = np.random.default_rng().standard_normal(shape).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(tiny_model.read_bytes()).run(None, {"x": data})
    for found in (tuned(data), tuned(x=data)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    # It has records unless the untuned model won.
    assert json.loads(tuned.log[0])["log"] == KIND
    tuned.save(tmp_path / "tiny.so")
    assert (tmp_path / "tiny.so").stat().st_size > 1000
    assert not (tmp_path / "home/url").exists()
    with pytest.raises(TilefleetError, match="the model takes x; got y"):
        tuned(y=data)
    with pytest.raises(TilefleetError, match="there is no such file"):
        tilefleet.tune(tmp_path / "nowhere.onnx")
