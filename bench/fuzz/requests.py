"""Requests that schemathesis makes up from the API's own document, sent to a running service."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import quantized_small
from bench.service import run_job, service
from kernels.workload.base import Conv2d, to_json
from tilefleet import Client

PROGRAM = "schemathesis"
CHECKS = "all"
NOT_CHECKED = "positive_data_acceptance"
"""A schema cannot say all that is needed: that a target exists, or that bytes are a model."""
WORKERS = 4
EXAMPLES = 50
"""Requests made up for each operation, and sequences of requests, in each run."""
ANSWER_S = 120
PARK_S = 3.0
SAID_CHARACTERS = 5000
"""Of what schemathesis prints of a run's failures."""


def fuzz_requests(cases: int, seed: int, first: int = 0) -> dict[str, Any]:
    """Runs with one seed after the other until there were so many cases; ``problems`` are all failures.

    The ``first`` seed is that many behind ``seed``.

    Raises SystemExit where schemathesis, a program of its own (``pipx install schemathesis``), is missing.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise SystemExit(f"bench: {PROGRAM} is not installed: pipx install {PROGRAM}")
    sent = 0
    seeds: list[int] = []
    problems: list[str] = []
    accepted: Counter[str] = Counter()
    with TemporaryDirectory(prefix="fuzz-") as folder, service(TILEFLEET_MIN_TIME_MS="10") as client:
        _fill(client, Path(folder))
        with _parked(client):
            while sent < cases:
                report = _run(program, client.url, seed + first + len(seeds), Path(folder))
                seeds.append(report["seed"])
                sent += report["test_cases"]["generated"]
                for phases in report["valid_rates"].values():
                    for counts in phases.values():
                        accepted.update(counts)
                problems += [
                    f"seed {seeds[-1]}: {each['title']}: {', '.join(each['operations'])}"
                    for each in report["failures"]
                ]
                problems += [report["said"]] * bool(report["failures"])
                print(json.dumps({"seeds": seeds, "cases": sent, "problems": problems}), flush=True)
        if client.health()["status"] != "ok":
            problems.append(f"the service is not well after all this: {client.health()}")
    return {"cases": sent, "seeds": seeds, "statuses": dict(accepted), "problems": problems}


def _fill(client: Client, folder: Path) -> None:
    """Records, a workload, a model: what requests may be about."""
    run_job(client, workload=to_json(Conv2d(1, 8, 9, 9, 12, 3, 3, pad=(1, 1, 1, 1))), trials=6)
    model = folder / "model.onnx"
    model.write_bytes(quantized_small.plain().SerializeToString())
    client.upload(model)


@contextmanager
def _parked(client: Client) -> Iterator[None]:
    """The board is parked again and again: requests are tried, and jobs shall wait, not take the cores."""
    over = threading.Event()

    def park() -> None:
        with Client(client.url) as mine:
            while not over.wait(PARK_S):
                with suppress(Exception):  # it is parked already, or retired
                    mine.change_board("host", "park", "requests are tried")

    parker = threading.Thread(target=park)
    parker.start()
    try:
        yield
    finally:
        over.set()
        parker.join()


def _run(program: str, url: str, seed: int, folder: Path) -> Any:
    report = folder / "report.json"
    words = [program, "run", f"{url}/openapi.json", "--wait-for-schema", str(ANSWER_S)]
    words += ["--exclude-path-regex", "events$"]
    words += ["--checks", CHECKS, "--exclude-checks", NOT_CHECKED, "--continue-on-failure", "--no-shrink"]
    words += ["--workers", str(WORKERS), "--max-examples", str(EXAMPLES), "--seed", str(seed)]
    words += ["--max-response-time", str(ANSWER_S)]
    words += ["--report", "json", "--report-json-path", str(report)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(report.read_text()) if report.exists() else {}
    if not found or not found["test_cases"]["generated"]:
        raise SystemExit(f"bench: {PROGRAM} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    said = done.stdout.partition("= FAILURES =")[2]  # the report does not tell what was sent and answered
    return {**found, "said": said.partition("= SUMMARY =")[0][:SAID_CHARACTERS]}
