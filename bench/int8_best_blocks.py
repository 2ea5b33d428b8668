"""The best blocks of the quantized matrix product, measured by the clock of a simulated board.

python -m bench.int8_best_blocks --board rpi4-32-sim|rpi4-sim --top 6

Each block that adds two products in 16 bits (``pairwise``) or multiplies 16-bit numbers (``lane``) on three
pointwise layers with ``slab=2`` and ``requant=high``, warm: its best of windows as they lie and transformed.
All results are compared with the integer reference. Prints multiply-adds a cycle; the clock of the cortex-a72
allows 8.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from bench.int8_blocks import KINDS, SIDES
from kernels.workload import QConv2d

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels.space import Config
    from kernels.target import Target
    from worker.build import Builder
    from worker.fleet.simulated import SimulatedBoard

BUILDS = 4
SIZES = ((14, 384, 64), (14, 96, 192), (28, 32, 192))
"""Rows and columns, channels, filters."""


def layer(side: int, channels: int, filters: int) -> QConv2d:
    """A pointwise layer whose weights are of 8 bits without -128."""
    return QConv2d(
        1, side, side, channels, filters, 1, 1, data_dtype="int8", out_dtype="int8", weight_range=(-127, 127),
        scale="small",
    )  # fmt: skip


def configs(conv: QConv2d, target: Target) -> Iterator[Config]:
    """Every block of the space, with windows from either place."""
    from kernels import registry
    from kernels.space import Config

    space = registry.kernel("qgemm").space(conv, target)
    for kind, chain in KINDS.items():
        for rows, columns in ((rows, columns) for rows in SIDES for columns in SIDES):
            for rows_from in ("tiles", "data"):
                config = Config.of(
                    "qgemm", block=kind, chain=chain, rows=rows, columns=columns, rows_from=rows_from, slab=2,
                    requant="high",
                )  # fmt: skip
                if space.why_not(config) is None:
                    yield config


def measured(
    conv: QConv2d, target: Target, builder: Builder, board: SimulatedBoard, folder: Path
) -> dict[tuple[str, int, int], float]:
    """Multiply-adds a cycle by (kind, windows, filters); raises SystemExit when one is not exact."""
    from worker.build import Built
    from worker.candidate import Candidate
    from worker.measure import MeasureOptions, measure

    options = MeasureOptions(cold=False, min_time_s=0.001, run_timeout_s=120.0)
    chosen = list(configs(conv, target))
    with ThreadPoolExecutor(BUILDS) as pool:
        built = list(pool.map(lambda config: builder.build(Candidate(conv, config, target)), chosen))
    batch = [each for each in built if isinstance(each, Built)]
    if len(batch) < len(chosen):
        raise SystemExit(f"bench.int8_best_blocks: {next(x for x in built if not isinstance(x, Built))}")
    found: dict[tuple[str, int, int], float] = {}
    outcomes = measure(builder.nursery, board, batch, options, lock_dir=folder)
    for config, outcome in zip(chosen, outcomes, strict=True):
        if outcome.error is not None or outcome.max_error or outcome.counters is None:
            raise SystemExit(f"bench.int8_best_blocks: {config} on {conv}: {outcome.message or 'not exact'}")
        block = (str(config["block"]), config.int("rows"), config.int("columns"))
        rate = conv.flops / 2 / outcome.counters["cycles"]
        found[block] = max(rate, found.get(block, 0.0))
    return found


def main() -> None:
    """Print the best blocks of each kind."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.int8_best_blocks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--board", choices=["rpi4-32-sim", "rpi4-sim"], default="rpi4-32-sim")
    parser.add_argument("--top", type=int, default=6, help="blocks of each kind (default 6)")
    arguments = parser.parse_args()
    from kernels.target import CATALOGUE
    from worker.artifacts import ArtifactStore
    from worker.build import Builder
    from worker.fleet.simulated import SimulatedBoard
    from worker.nursery import Nursery
    from worker.shop import PRELOAD

    with (
        tempfile.TemporaryDirectory(prefix="tilefleet-best-blocks-") as name,
        Nursery(preload=PRELOAD) as nursery,
    ):
        folder = Path(name)
        builder = Builder(nursery, ArtifactStore(folder / "artifacts"))
        with SimulatedBoard(arguments.board, state_dir=folder) as board:
            for size in SIZES:
                conv = layer(*size)
                blocks = measured(conv, CATALOGUE[board.target], builder, board, folder)
                for kind in KINDS:
                    best = sorted((-rate, key) for key, rate in blocks.items() if key[0] == kind)
                    text = ", ".join(f"{key[1]}x{key[2]} {-rate:.2f}" for rate, key in best[: arguments.top])
                    print(f"{conv}: {kind} {text}", flush=True)


if __name__ == "__main__":
    main()
