"""How fast the API answers beside many slow uploads.

python -m bench.uploads --uploads 100 --seconds 60 --json FILE

Half of them send models whose reading takes as long as it may, all at once; the others send theirs byte by
byte. Meanwhile one request after the other is timed. What became of the uploads is told, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from onnx import TensorProto, helper

from bench.service import service

PATHS = ("/health", "/version", "/api/v1/jobs", "/api/v1/boards", "/api/v1/models")
LINKS = 2000
"""Of a chain that is read in more than the minute that a model gets."""
PIECE_S = 0.5
UNDER_WAY = "still under way"


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.uploads", description=__doc__.splitlines()[0])
    parser.add_argument("--uploads", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    with service() as client:
        report = asyncio.run(uploads(client.url, arguments.uploads, arguments.seconds))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    for when, figures in report["answers"].items():
        print(when, ", ".join(f"{name} {figure}" for name, figure in figures.items()))
    print(f"uploads: {report['uploads']}")


async def uploads(url: str, count: int, seconds: float) -> dict[str, Any]:
    """The API's answers without and beside so many uploads, and what became of these."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as http:
        before = await _answers(http, min(seconds, 10.0))
        under_way = [
            asyncio.create_task(_upload(http, number, slow_sender=number % 2 == 1)) for number in range(count)
        ]
        await asyncio.sleep(2)
        beside = await _answers(http, seconds)
        for task in under_way:
            task.cancel()
        ends = await asyncio.gather(*under_way, return_exceptions=True)
    told = Counter(UNDER_WAY if isinstance(end, asyncio.CancelledError) else str(end) for end in ends)
    return {"answers": {"alone": before, f"beside {count} uploads": beside}, "uploads": dict(told)}


async def _answers(http: httpx.AsyncClient, seconds: float) -> dict[str, Any]:
    took: list[float] = []
    by_path: dict[str, list[float]] = {path: [] for path in PATHS}
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        for path in PATHS:
            asked = time.monotonic()
            answer = await http.get(path)
            took.append(time.monotonic() - asked)
            by_path[path].append(took[-1])
            if answer.status_code != 200:
                raise SystemExit(f"bench: {path} answers {answer.status_code} {answer.text[:200]}")
        await asyncio.sleep(0.05)
    took.sort()
    return {
        "requests": len(took),
        "median_ms": round(1e3 * median(took), 1),
        "p99_ms": round(1e3 * took[int(0.99 * (len(took) - 1))], 1),
        "worst_ms": round(1e3 * took[-1], 1),
        "medians_ms": {path: round(1e3 * median(each), 1) for path, each in by_path.items()},
        "within_100_ms": round(sum(each <= 0.1 for each in took) / len(took), 4),
    }


async def _upload(http: httpx.AsyncClient, number: int, slow_sender: bool) -> str:
    model = slow_model(number)

    async def pieces() -> AsyncIterator[bytes]:
        for byte in model:
            yield bytes([byte])
            await asyncio.sleep(PIECE_S)

    try:
        answer = await http.post("/api/v1/models", content=pieces() if slow_sender else model)
    except httpx.TransportError as error:
        return f"{type(error).__name__}: {error}"
    return f"{answer.status_code} {answer.json().get('detail', '')}"


def slow_model(number: int) -> bytes:
    """A small model, another for each number, that takes long to read: shapes of shapes of shapes."""
    nodes, last = [], "x"
    for link in range(LINKS):
        nodes.append(helper.make_node("Shape", [last], [f"s{link}"]))
        nodes.append(helper.make_node("Reshape", ["x", f"s{link}"], [f"y{link}"]))
        last = f"y{link}"
    graph = helper.make_graph(
        nodes,
        f"g{number}",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, 3, 8, 8])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    data: bytes = model.SerializeToString()
    return data


if __name__ == "__main__":
    main()
