"""One model through everything that is real: parser, engine, agent, database, events."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import psutil
from fastapi.testclient import TestClient
from server_samples import conv_model

from kernels.space import Config
from server.app import create_app
from server.settings import Settings
from tuner.log.record import read_log


def listening() -> set[str]:
    """Addresses that this process and its children listen on."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # a child of one measurement that has just ended
            found += process.net_connections("inet")
    return {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}


def test_a_small_model_is_tuned_on_this_machine(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, allowed_hosts=("testserver",))
    with TestClient(create_app(settings)) as client:
        (board,) = client.get("/api/v1/boards").json()["items"]
        assert (board["id"], board["target"], board["clock"]) == ("host", "host", "wall")
        assert listening() <= {"127.0.0.1", "::1"}
        model = client.post("/api/v1/models", content=conv_model((1, 3, 16, 16), channels=16)).json()
        request = {
            "model": model["hash"],
            "target": "host",
            "budget": {"trials": 6, "seconds": 3600},
            "strategy": "random",
        }
        job = client.post("/api/v1/jobs", json=request).json()
        stream = client.get(f"/api/v1/jobs/{job['id']}/events").text
        assert json.loads(stream.rstrip().rsplit("data: ", 1)[1].split("\n")[0]) == {"state": "done"}
        job = client.get(f"/api/v1/jobs/{job['id']}").json()
        assert (job["state"], job["trials"], job["errors"]) == ("done", 6, {}), job
        assert job["peak_gflops"] > 0
        assert job["estimated_ms"] > 0
        log = client.get(f"/api/v1/jobs/{job['id']}/log?select=all").text
        found = {(each.workload.key, each.config): each for each in read_log(log.splitlines())}
        for task in client.get(f"/api/v1/jobs/{job['id']}/tasks").json()["items"]:
            record = found[task["workload_key"], Config.from_json(task["best_config"])]
            assert record.max_error is not None
            assert record.verified_s == task["best_s"]
        (board,) = client.get("/api/v1/boards").json()["items"]
        assert board["trials"] >= 6
        assert board["busy_s"] > 0
