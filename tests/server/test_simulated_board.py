"""A job on a simulated board, by the real engine: other code, and another clock."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from server_samples import conv_model
from typer.testing import CliRunner

from compiler.load import load_partition
from kernels import registry
from kernels.target import CATALOGUE
from server.app import create_app
from server.records import repository
from server.settings import Settings
from tilefleet import Client, server_check
from tilefleet.cli import app
from tuner.backend.apply import build_model, export
from tuner.log.picks import check
from tuner.log.record import Record, read_log
from tuner.log.relayouts import read_relayouts
from worker.fleet.drivers.simulated import why_no_emulator

# In the worker of tests/worker/test_simulated.py: zig makes its C library for a board only once.
pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(900)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    problem = why_no_emulator("rpi4-sim")
    if problem:
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)
    return Settings(home=tmp_path, boards="host, rpi4-sim", allowed_hosts=("testserver",))


def test_a_model_is_tuned_on_a_simulated_board(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = conv_model((1, 3, 12, 12), channels=8)
    with TestClient(create_app(settings)) as client:
        boards = {each["id"]: each for each in client.get("/api/v1/boards").json()["items"]}
        clock = boards["rpi4-sim"]["clock"]
        assert clock.startswith("simulated:rpi4-sim:")
        assert (boards["rpi4-sim"]["target"], boards["host"]["clock"]) == ("rpi4", "wall")
        model = client.post("/api/v1/models", content=content).json()
        request = {"model": model["hash"], "target": "rpi4", "budget": {"trials": 4}, "strategy": "random"}
        job = client.post("/api/v1/jobs", json=request).json()
        assert client.get(f"/api/v1/jobs/{job['id']}/events").text
        job = client.get(f"/api/v1/jobs/{job['id']}").json()
        assert (job["state"], job["trials"], job["errors"], job["clock"]) == ("done", 4, {}, clock), job
        assert job["peak_gflops"] == pytest.approx(12, rel=0.01)  # eight operations a cycle of 1.5 GHz
        log = client.get("/api/v1/targets/rpi4/log?select=all").text
        records = list(read_log(log.splitlines()))
        workload = records[0].workload.key
        query = {"workload": workload, "target": "rpi4", "clock": clock}
        assert client.get("/api/v1/configs/best", params=query).json()["clock"] == clock
        assert client.get("/api/v1/configs/best", params={**query, "clock": "wall"}).status_code == 404

        # A build by that log is run there before it is handed over.
        class Here(Client):
            def __init__(self, **_: object) -> None:
                self.url, self._http = "http://testserver", client

            def close(self) -> None: ...

        monkeypatch.setattr(server_check, "Client", Here)
        path, lines = tmp_path / "model.onnx", tmp_path / "log.jsonl"
        path.write_bytes(content)
        lines.write_text(log)
        words = ["build", path, "--log", lines, "--target", "rpi4", "-o", tmp_path / "checked.so"]
        done = CliRunner().invoke(app, [*map(str, words)])
        assert "checked on board rpi4-sim: " in done.output
    assert {record.clock for record in records} == {clock}
    # A second measurement could only tell the same.
    assert all(record.cost_s is not None and record.verified_s is None for record in records)

    target = CATALOGUE["rpi4"]
    matches = check(path, records, target)
    assert all(match.record is not None and match.record.clock == clock for match in matches)
    picks = {match.workload.key: match.record.config for match in matches if match.record is not None}
    executable, manifest = build_model(path, picks, target)
    assert manifest.count("log") == sum(match.count for match in matches)
    export(executable, tmp_path / "model.so")
    header = (tmp_path / "model.so").read_bytes()[:20]
    assert int.from_bytes(header[18:20], "little") == 183  # EM_AARCH64


def test_a_tuned_model_that_is_slower_than_the_untuned_one_is_not_kept(
    settings: Settings, tmp_path: Path
) -> None:
    """Records that promise a nanosecond for slow configs: the job believes them until its last step."""
    content, target = conv_model((1, 3, 12, 12), channels=8), CATALOGUE["rpi4"]
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    kernel = registry.kernel("fconv")
    with TestClient(create_app(settings)) as client:
        clock = next(
            b["clock"] for b in client.get("/api/v1/boards").json()["items"] if b["target"] == "rpi4"
        )
        slow = {}
        for workload in {product.workload for product in load_partition(path).products}:
            space = [c for c in registry.search_space(workload, target) if c.kernel == kernel.name]
            slow[workload] = max(space, key=lambda config: kernel.predict(workload, config, target))
        promised = [
            Record(workload, target, config, kernel.version, clock=clock, cost_s=1e-9)
            for workload, config in slow.items()
        ]
        with client.app.state.services.db.write() as session:
            repository.add(session, promised)
        model = client.post("/api/v1/models", content=content).json()
        request = {"model": model["hash"], "target": "rpi4", "budget": {"trials": 4}}
        job = client.post("/api/v1/jobs", json=request).json()
        assert client.get(f"/api/v1/jobs/{job['id']}/events").text
        job = client.get(f"/api/v1/jobs/{job['id']}").json()
        assert job["state"] == "done", job
        found = re.search(r"won with (\S+) ms, the tuned one took (\S+) ms", job["message"])
        assert found, job["message"]
        untuned_ms, tuned_ms = map(float, found.groups())
        assert untuned_ms < tuned_ms
        # What is delivered, and what a build by the job's log is, is the untuned model.
        assert job["built"]["measured_ms"] == pytest.approx(untuned_ms, rel=0.005)  # it has three digits
        assert job["built"]["checked"]
        verdict = job["verdict"]
        assert verdict["untuned_ms"] == pytest.approx(untuned_ms, rel=0.005)
        assert (verdict["gain"], verdict["same"]) == (1.0, True)
        best, all_ = (
            client.get(f"/api/v1/jobs/{job['id']}/log", params={"select": select}).text.splitlines()
            for select in ("best", "all")
        )
    assert {(record.workload, record.config) for record in read_log(all_)} >= slow.items()
    records, relayouts = list(read_log(best)), list(read_relayouts(best))
    _, manifest = build_model(path, {}, target, records=records, relayouts=relayouts)
    assert manifest.configs == build_model(path, {}, target)[1].configs


def test_unknown_boards_are_named() -> None:
    with pytest.raises(ValueError, match=r"unknown board 'vax-sim'; there are: host, .*rpi4-sim"):
        Settings(boards="host,vax-sim")
    with pytest.raises(ValueError, match="no board named"):
        Settings(boards=" ,")


def test_a_missing_emulator_is_said_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = Settings(home=tmp_path, boards="rpi4-sim", allowed_hosts=("testserver",))
    with (
        pytest.raises(Exception, match=r"rpi4-sim needs qemu-aarch64.*apt-get install qemu-user"),
        TestClient(create_app(settings)),
    ):
        pass
