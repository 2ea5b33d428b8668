"""A job on a simulated board, by the real engine: other code, and another clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from server_samples import conv_model
from typer.testing import CliRunner

from kernels.target import CATALOGUE
from server.app import create_app
from server.settings import Settings
from tilefleet import Client, server_check
from tilefleet.cli import app
from tuner.backend.apply import build_model, export
from tuner.log.picks import check
from tuner.log.record import read_log
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
