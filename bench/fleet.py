"""Layers tuned on several boards at once: how fast each measures, and whether all is accounted for.

python -m bench.fleet --boards host,rpi4-sim,power10-sim --json FILE

``utilisation`` is the share of a board's wall time that its timer ran, from the jobs' start to their target's
last; ``utilisation_ready`` the share of that part of it in which the board was leased: in the rest all
candidates were still being built. ``lost`` are measurements by the boards' own counts of which no record
tells, ``duplicated`` configs that a job measured twice, ``wrong_target`` records whose target or clock is not
their board's.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.service import service
from kernels.workload.base import RELU, Conv2d, Epilogue, to_json
from tuner.log.record import Record, read_log

if TYPE_CHECKING:
    from tilefleet.client import Client

SAMPLE_S = 0.1
_EPILOGUE = Epilogue(bias=True, clamp=RELU)
LAYERS = (
    Conv2d(1, 64, 27, 27, 16, 1, 1, epilogue=_EPILOGUE),
    Conv2d(1, 16, 27, 27, 64, 3, 3, pad=(1, 1, 1, 1), epilogue=_EPILOGUE),
    Conv2d(1, 48, 13, 13, 192, 3, 3, pad=(1, 1, 1, 1), epilogue=_EPILOGUE),
    Conv2d(1, 384, 13, 13, 64, 1, 1, epilogue=_EPILOGUE),
)
"""SqueezeNet's kinds, small enough for emulated boards."""


@dataclass(frozen=True)
class _Ended:
    """What a job left: its records, and how often it ended a trial of each config."""

    target: str
    records: list[Record]
    trials: Counter[tuple[str, str]]
    at: float


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__.splitlines()[0])
    parser.add_argument("--boards", default="host", help="comma-separated; one of a model may come twice")
    parser.add_argument("--fleet", help="a fleet file instead")
    parser.add_argument("--trials", type=int, default=60, help="a layer and kind of board")
    parser.add_argument("--layers", type=int, default=len(LAYERS), help="how many of the layers")
    parser.add_argument("--min-time", type=float, default=0.1, help="seconds that a candidate is timed")
    parser.add_argument(
        "--twice", action="store_true", help="also with each simulated board twice, which is to be faster"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    settings = {"TILEFLEET_MIN_TIME_MS": str(arguments.min_time * 1e3)}
    settings |= {"TILEFLEET_FLEET": arguments.fleet} if arguments.fleet else {}
    layers = LAYERS[: arguments.layers]
    report = run(arguments.boards, layers, arguments.trials, settings)
    _show(report)
    if arguments.twice:
        names = arguments.boards.split(",")
        doubled = ",".join(names + [name for name in names if name != "host"])
        report["twice"] = run(doubled, layers, arguments.trials, settings)
        report["speedup"] = report["elapsed_s"] / report["twice"]["elapsed_s"]
        _show(report["twice"])
        print(f"the same work with every simulated board twice: {report['speedup']:.2f} times as fast")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def run(boards: str, layers: tuple[Conv2d, ...], trials: int, settings: dict[str, str]) -> dict[str, Any]:
    """Tune ``layers`` for every kind of board at once; ``settings`` are the service's."""
    with service(TILEFLEET_BOARDS=boards, **settings) as client:
        before = _ready(client)
        started = time.monotonic()
        targets = sorted({board["target"] for board in before.values()})
        work = [(target, layer) for layer in layers for target in targets]
        with _watching(client.url) as samples, ThreadPoolExecutor(len(work)) as pool:
            jobs = list(pool.map(lambda one: _tune(client, one[0], one[1], trials), work))
        after = {board.id: board.model_dump() for board in client.boards()}
    ends = {target: max(job.at for job in jobs if job.target == target) - started for target in targets}
    records = [record for job in jobs for record in job.records if record.board]
    rows = []
    measured = 0
    for name, board in sorted(after.items()):
        done = board["trials"] - before[name]["trials"]
        elapsed = ends[board["target"]]
        timed = (board["timed_s"] - before[name]["timed_s"]) / elapsed
        seen = [busy[name] for at, busy in samples if at - started <= elapsed]
        measured += done
        rows.append(
            {
                "name": name,
                "clock": board["clock"],
                "trials": done,
                "measurements_per_s": done / elapsed,
                "utilisation": timed,
                "utilisation_ready": timed * len(seen) / max(1, sum(seen)),
            }
        )
    return {
        "cores": len(os.sched_getaffinity(0)),
        "elapsed_s": max(ends.values()),
        "boards": rows,
        "lost": max(0, measured - sum(1 + record.remeasured for record in records)),
        "duplicated": sum(count - 1 for job in jobs for count in job.trials.values()),
        "wrong_target": sum(not _belongs(record, after[record.board]) for record in records),
    }


def _ready(client: Client) -> dict[str, dict[str, Any]]:
    """The boards, once all have passed their health check; raises SystemExit when one does not."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        boards = {board.id: board.model_dump() for board in client.boards()}
        if boards and all(board["health"] == "good" for board in boards.values()):
            return boards
        time.sleep(0.1)
    raise SystemExit(f"bench: not all boards are good: {boards}")


@contextmanager
def _watching(url: str) -> Iterator[list[tuple[float, dict[str, bool]]]]:
    """When, and which boards were leased then, every SAMPLE_S.

    A batch that is ready and finds a board free gets it at once, so a board without a lease has none.
    """
    from tilefleet.client import Client

    samples: list[tuple[float, dict[str, bool]]] = []
    over = threading.Event()

    def watch() -> None:
        with Client(url) as client:
            while not over.wait(SAMPLE_S):
                boards = {board.id: board.activity not in ("idle", "offline") for board in client.boards()}
                samples.append((time.monotonic(), boards))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()


def _tune(client: Client, target: str, layer: Conv2d, trials: int) -> _Ended:
    job = client.submit(target=target, workload=to_json(layer), trials=trials, strategy="random")
    seen: Counter[tuple[str, str]] = Counter()
    for event in client.events(job.id):
        if event.name == "trial":
            seen[event.data["workload"], json.dumps(event.data["config"], sort_keys=True)] += 1
    at = time.monotonic()
    job = client.job(job.id)
    if job.state != "done":
        raise SystemExit(f"bench: job {job.id} for {target} ended as {job.state}: {job.message}")
    return _Ended(target, list(read_log(client.job_log(job.id, "all"))), seen, at)


def _belongs(record: Record, board: dict[str, Any]) -> bool:
    return (record.target.name, record.clock) == (board["target"], board["clock"])


def _show(report: dict[str, Any]) -> None:
    for board in report["boards"]:
        print(
            f"{board['name']}: {board['trials']} measured, {board['measurements_per_s']:.1f} a second, "
            f"{board['utilisation']:.0%} of its time inside the timer, {board['utilisation_ready']:.0%} of "
            f"that in which it had something to measure; {board['clock']}"
        )
    print(
        f"{report['elapsed_s']:.1f} s on {report['cores']} cores; {report['lost']} lost, "
        f"{report['duplicated']} duplicated, {report['wrong_target']} for a wrong target"
    )


if __name__ == "__main__":
    main()
