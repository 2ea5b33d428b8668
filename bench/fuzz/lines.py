"""Mutated lines of a tuning log, imported into a running service."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import httpx

from bench.fuzz.spoil import spoil_bytes, spoil_json
from bench.service import run_job, service
from kernels.workload.base import Conv2d, Gemm, to_json

TRIALS = 6
WORKLOADS = (
    Conv2d(1, 8, 9, 9, 12, 3, 3, pad=(1, 1, 1, 1)),
    Conv2d(1, 12, 9, 9, 12, 3, 3, groups=12),
    Gemm(7, 9, 33),
)
LISTS = (
    "records",
    "records/damaged",
    "targets",
    "boards",
    "targets/host/log?select=all",
    "jobs",
    "configs/recent",
)


def fuzz_lines(cases: int, seed: int, first: int = 0) -> dict[str, Any]:
    """Import mutated lines, one or two at once; every answer is 200 or 422, and no list breaks.

    What is done to the lines follows from ``seed`` and a case's number alone; ``first`` is that of the first.
    """
    statuses: Counter[str] = Counter()
    problems: list[str] = []
    with (
        service(TILEFLEET_MIN_TIME_MS="10") as client,
        httpx.Client(base_url=client.url, timeout=120) as http,
    ):
        jobs = [run_job(client, workload=to_json(each), trials=TRIALS) for each in WORKLOADS]
        lines = [line for job in jobs for line in client.job_log(job.id, "all")]
        for case in range(first, first + cases):
            body = _spoiled(lines, random.Random(f"{seed}/{case}"))
            try:
                answer = http.post("/api/v1/records", content=body)
            except httpx.TransportError as error:
                problems.append(f"case {case}: {error} for {body[:2000]!r}")
                continue
            statuses[str(answer.status_code)] += 1
            if answer.status_code not in (200, 422) or "Traceback" in answer.text:
                problems.append(f"case {case}: {answer.status_code} {answer.text[:200]} for {body[:2000]!r}")
            if case % 500 == 499 or case == first + cases - 1:
                problems += _broken(http, case)
        again = run_job(client, workload=to_json(WORKLOADS[0]), trials=TRIALS + 2)
        if again.state != "done":
            problems.append(f"a job after all this is {again.state}: {again.message}")
    return {"cases": cases, "first": first, "seed": seed, "statuses": dict(statuses), "problems": problems}


def _spoiled(lines: list[str], dice: random.Random) -> bytes:
    line = dice.choice(lines)
    if dice.random() < 0.2:
        spoiled = spoil_bytes(line.encode(), dice)
    else:
        spoiled = json.dumps(spoil_json(json.loads(line), dice)).encode()
    return spoiled + b"\n" + dice.choice(lines).encode() if dice.random() < 0.2 else spoiled


def _broken(http: httpx.Client, case: int) -> list[str]:
    """Lists that fail after what was taken."""
    answers = {path: http.get(f"/api/v1/{path}") for path in LISTS} | {"metrics": http.get("/metrics")}
    return [
        f"after case {case}: {path} answers {answer.status_code} {answer.text[:200]}"
        for path, answer in answers.items()
        if answer.status_code != 200
    ]
