"""Whole networks: ncnn on a simulated board beside what ncnn published for the board.

The figures are of the history of ncnn's ``benchmark/README.md``: a Raspberry Pi 4 at 1.5 GHz in January 2022,
a Pi 5 in December 2023, each with the ncnn of its day. The clock runs wheels of ncnn (``ncnn_wheels.py``) on
the networks that ncnn's repository has in ``benchmark/models``.
"""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.runtimes.guest import Guest, GuestError
from worker.fleet.drivers.sim_models import SIM_MODELS

BOARDS = {"rpi4-sim": "rpi4", "rpi5-sim": "rpi5"}
"""Whose figures a simulated board is compared with."""
_FILE = Path(__file__).with_name("ncnn_published.csv")
_SIDES = {
    "squeezenet": 227,
    "alexnet": 227,
    "squeezenet_ssd": 300,
    "mobilenet_ssd": 300,
    "mobilenet_yolo": 416,
    "yolov4-tiny": 416,
    "yolo-fastestv2": 352,
    "FastestDet": 352,
    "vision_transformer": 384,
}
"""The side of the square input, in pixels, where it is not 224."""
_NEAR = 0.15


@dataclass(frozen=True)
class Network:
    """A network and what it took on the real board: the least milliseconds, as published."""

    name: str
    published_ms: float

    @property
    def side(self) -> int:
        """The side of its input, in pixels."""
        return _SIDES.get(self.name.removesuffix("_int8"), 224)


@dataclass(frozen=True)
class Result:
    """``ms`` by the clock; None, and ``why``, where it did not run."""

    network: Network
    ms: float | None
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """Simulated over published."""
        return None if self.ms is None else self.ms / self.network.published_ms


def published(board: str, threads: int = 1) -> list[Network]:
    """The networks of ``board`` (of BOARDS), in the order of the table."""
    with _FILE.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["board"] == BOARDS[board]]
    return [Network(row["model"], float(row["min_ms"])) for row in rows if int(row["threads"]) == threads]


def measured(
    board: str, networks: Sequence[Network], models: Path, guest: Guest, threads: int = 1
) -> Iterator[Result]:
    """Run each on the board's clock; what cannot be run is a result with the reason."""
    for network in networks:
        param = models / f"{network.name}.param"
        if not param.is_file():
            yield Result(network, None, f"{param} is not there")
            continue
        with tempfile.TemporaryDirectory(prefix="tilefleet-silicon-") as name:
            page = Path(name) / "page"
            words = [
                "-m",
                "bench.silicon.ncnn_guest",
                str(param.resolve()),
                str(network.side),
                str(threads),
                str(page),
            ]
            try:
                cycles = json.loads(guest.python(words, page).splitlines()[-1])["cycles"]
            except (GuestError, ValueError, LookupError) as error:
                yield Result(network, None, str(error).strip() or "it said nothing")
                continue
        yield Result(network, 1e3 * cycles / SIM_MODELS[board].hz)


def line(result: Result) -> str:
    """A row for people."""
    if result.ms is None or result.ratio is None:
        return f"{result.network.name:20} {result.network.published_ms:10.2f} {'-':>10}        {result.why}"
    return (
        f"{result.network.name:20} {result.network.published_ms:10.2f} {result.ms:10.2f} {result.ratio:6.2f}"
    )


def summary(results: Sequence[Result]) -> str:
    """How near all are together: mean of ratios, how many are near, whether the order is the same."""
    pairs = [(each.network.published_ms, each.ms) for each in results if each.ms is not None]
    if not pairs:
        return "nothing ran"
    ratios = [simulated / real for real, simulated in pairs]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    near = sum(abs(ratio - 1) <= _NEAR for ratio in ratios)
    order = f", rank correlation {_ranks(pairs):.3f}" if len(pairs) > 2 else ""
    return (
        f"{len(pairs)} networks: geometric mean {mean:.3f}, {near} within 15 %, "
        f"{min(ratios):.2f} to {max(ratios):.2f}{order}"
    )


def _ranks(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's correlation; equal figures do not occur."""
    count = len(pairs)
    real, simulated = (_places([pair[side] for pair in pairs]) for side in (0, 1))
    apart = sum((one - other) ** 2 for one, other in zip(real, simulated, strict=True))
    return 1 - 6 * apart / (count * (count**2 - 1))


def _places(figures: Sequence[float]) -> list[int]:
    order = sorted(figures)
    return [order.index(figure) for figure in figures]
