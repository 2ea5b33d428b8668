"""What many watchers of a job cost its tuning: now they watch, now they do not, in turns, in one job."""

from __future__ import annotations

import json
import operator
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench import timing
from bench.service import service

if TYPE_CHECKING:
    import psutil

    from tilefleet.client import Client

MODEL = "inception_v1"
"""It has 50 tasks, so that a job has enough to try for many windows."""
SETTLE_S = 3.0
"""Streams that were just opened, or closed, have no part in a window."""
TRIALS = 1_000_000
"""Budget of the job, which is cancelled."""


@dataclass(frozen=True)
class Window:
    """What happened in a stretch of the job."""

    seconds: float
    trials: int
    coordinator_s: float
    """Processor time."""
    loop_s: float
    """That of its event loop's thread, which sends; search and database are in others."""
    readers_s: float
    """Processor time of all watchers together."""


def watched(watchers: int, turns: int, window_s: float) -> dict[str, Any]:
    """Windows of one job without and with so many event streams, and what they have to say.

    Wall time alone would say little: how long a trial takes varies from one to the next, and with whatever
    else the machine does. Processor time says what is taken from tuning where it has all cores.

    When the job ends early there are fewer pairs of them.

    Raises SystemExit when there is none, or a stream lost an event.
    """
    found: dict[str, list[Window]] = {"alone": [], "watched": []}
    seen: list[dict[str, Any]] = []
    # Now one, now the other first: a machine that gets busier is nobody's fault.
    order = [kind for turn in range(turns) for kind in ("alone", "watched")[:: 1 if turn % 2 == 0 else -1]]
    with _job() as (client, coordinator, job):
        for kind in order:
            window: Window | None
            if kind == "watched":
                with crowd(f"{client.url}/api/v1/jobs/{job}/events", watchers) as (readers, saw):
                    window = _window(client, job, window_s, coordinator, readers)
                seen.append(saw)
            else:
                window = _window(client, job, window_s, coordinator, None)
            if window is None:
                print("the job has nothing more to try: these are all windows there are", flush=True)
                break
            found[kind].append(window)
            print(f"{kind}: {_line(window)}", flush=True)
    pairs = min(map(len, found.values()))
    if not pairs:
        raise SystemExit("bench.dashboard: the job ended in the first pair of windows; ask for shorter ones")
    found = {kind: each[:pairs] for kind, each in found.items()}
    report = summary(found["alone"], found["watched"])
    print(
        f"{watchers} watchers: {report['speed']:.3f} of the speed without "
        f"({report['p10']:.3f} to {report['p90']:.3f})\n"
        f"coordinator: {report['coordinator_alone']:.1%} of a core alone, {report['coordinator_added']:+.1%} "
        f"watched; its event loop: {report['loop_alone']:.1%}, {report['loop_added']:+.1%} (pairs: "
        f"{report['loop_added_least']:+.1%} to {report['loop_added_most']:+.1%}); "
        f"readers: {report['readers']:.1%} of a core\n"
        f"events: {max(each['worst_s'] for each in seen):.2f} s at worst from publication to reading, "
        f"{statistics.median(each['median_s'] for each in seen):.2f} s in the median; none lost"
    )
    windows = {kind: [asdict(window) for window in each] for kind, each in found.items()}
    return {"watchers": watchers, **report, "windows": windows, "readers_saw": seen}


def summary(alone: list[Window], watched: list[Window]) -> dict[str, float]:
    """The speed watched over that alone, by wall time, and the shares of a core, by processor time.

    Windows of the same place are pairs. ``p10`` and ``p90`` are of the speed of single pairs; what is added
    is the median of the pairs' differences.
    """
    times = [[each.seconds / max(each.trials, 1) for each in kind] for kind in (alone, watched)]
    speed, low, high = timing.ratio(*times)
    coordinator = [[each.coordinator_s / each.seconds for each in kind] for kind in (alone, watched)]
    loop = [[each.loop_s / each.seconds for each in kind] for kind in (alone, watched)]
    loop_added = list(map(operator.sub, loop[1], loop[0]))
    return {
        "speed": speed,
        "p10": low,
        "p90": high,
        "coordinator_alone": statistics.median(coordinator[0]),
        "coordinator_added": statistics.median(map(operator.sub, coordinator[1], coordinator[0])),
        "loop_alone": statistics.median(loop[0]),
        "loop_added": statistics.median(loop_added),
        "loop_added_least": min(loop_added),
        "loop_added_most": max(loop_added),
        "readers": statistics.median(each.readers_s / each.seconds for each in watched),
    }


@contextmanager
def _job() -> Iterator[tuple[Client, psutil.Process, int]]:
    """A service that knows nothing yet, its process, and a job that has a trial of each task behind it."""
    import psutil

    from bench.models import MAKERS

    with TemporaryDirectory(prefix="tilefleet-bench-") as folder, service() as client:
        (coordinator,) = psutil.Process().children()
        path = Path(folder) / f"{MODEL}.onnx"
        path.write_bytes(MAKERS[MODEL](0).SerializeToString())
        job = client.submit(model=client.upload(path).hash, target="host", trials=TRIALS)
        tasks = len(client.tasks(job.id))
        while (now := client.job(job.id)).trials < 2 * tasks and not now.ended:
            time.sleep(0.5)
        yield client, coordinator, job.id
        if not client.job(job.id).ended:
            client.cancel(job.id)


@contextmanager
def crowd(url: str, count: int) -> Iterator[tuple[psutil.Process, dict[str, Any]]]:
    """So many open streams in a process of their own; what they saw is in the dictionary behind the block.

    Raises SystemExit when a stream lost an event.
    """
    import psutil

    from worker.cluster import split_cpus

    # People watch from elsewhere: what they cost there is no question. They stay off the board's core.
    cpus = ",".join(map(str, split_cpus(1)[0]))
    command = [sys.executable, "-m", "bench.watchers", url, str(count), cpus]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as readers:
        assert readers.stdin is not None
        assert readers.stdout is not None
        if readers.stdout.readline() != "open\n":
            raise SystemExit(f"bench.dashboard: the streams of {url} ended before they were all open")
        seen: dict[str, Any] = {}
        yield psutil.Process(readers.pid), seen
        readers.stdin.close()
        seen |= json.loads(readers.stdout.read())
    if seen["whole"] < count or not seen["events"]:
        raise SystemExit(f"bench.dashboard: only {seen['whole']} of {count} streams had all events")


def _window(
    client: Client,
    job: int,
    seconds: float,
    coordinator: psutil.Process,
    readers: psutil.Process | None,
) -> Window | None:
    """None when the job is over."""
    time.sleep(SETTLE_S)

    def look() -> Window:
        loop = next(each for each in coordinator.threads() if each.id == coordinator.pid)
        cpu_s = [sum(each.cpu_times()[:2]) if each else 0.0 for each in (coordinator, readers)]
        loop_s = loop.user_time + loop.system_time
        return Window(time.monotonic(), client.job(job).trials, cpu_s[0], loop_s, cpu_s[1])

    before = look()
    time.sleep(seconds)
    after = look()
    if client.job(job).ended:
        return None
    return Window(
        after.seconds - before.seconds,
        after.trials - before.trials,
        after.coordinator_s - before.coordinator_s,
        after.loop_s - before.loop_s,
        after.readers_s - before.readers_s,
    )


def _line(window: Window) -> str:
    cpu_s = (window.coordinator_s, window.loop_s, window.readers_s)
    coordinator, loop, readers = (each / window.seconds for each in cpu_s)
    a_trial = 1e3 * window.coordinator_s / max(window.trials, 1)
    return (
        f"{window.trials / window.seconds:.2f} trials/s, coordinator {coordinator:.1%} of a core "
        f"({a_trial:.0f} ms a trial), its event loop {loop:.1%}, readers {readers:.1%}"
    )
