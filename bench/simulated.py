"""Our configs on a simulated board: which are measured, and what the clock counts for each, weights warm."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.kernel import Array
    from kernels.space import Config
    from kernels.target import Target
    from kernels.workload.base import Workload
    from worker.build.build import Builder
    from worker.measure.measure import BoardHandle

SHAPE = ("block", "rows", "columns", "tile", "stage", "edges", "points", "taps", "pack", "order")
"""The knobs that make the code of a kernel's inner loop."""
OF_A_SHAPE = 2
"""How many configs are measured that differ in other knobs alone."""
RUN_TIMEOUT_S = 600.0


def candidates(
    workload: Workload, target: Target, count: int, families: Sequence[str] = (), any_layout: bool = False
) -> list[Config]:
    """Each kernel's recommended config, then those predicted fastest, a few of each shape.

    Of ``families`` alone where there are any, in NCHW or ``any_layout``; the analysis's own pick is the
    first. At most ``count``, or as many as there are kernels. Empty where none of these families computes
    ``workload``.
    """
    from kernels import registry

    def wanted(config: Config) -> bool:
        return not families or config.kernel in families

    def predicted(config: Config) -> tuple[float, str]:
        return registry.kernel(config.kernel).predict(workload, config, target), str(config)

    chosen = [
        each for each in registry.recommendations(workload, target, any_layout=any_layout) if wanted(each)
    ]
    space = registry.search_space(workload, target, any_layout=any_layout)
    seen: dict[tuple[Any, ...], int] = {}
    for config in sorted(filter(wanted, space), key=predicted):
        knobs = dict(config.knobs)
        shape = (config.kernel, *(knobs.get(name) for name in SHAPE))
        seen[shape] = seen.get(shape, 0) + 1
        if seen[shape] <= OF_A_SHAPE and config not in chosen and len(chosen) < count:
            chosen.append(config)
    return chosen


@dataclass(frozen=True)
class Bench:
    """A simulated board that runs, and what builds for it."""

    builder: Builder
    board: BoardHandle
    folder: Path

    def measure(
        self, workload: Workload, configs: Sequence[Config], target: Target, exact: bool = False
    ) -> list[dict[str, Any]]:
        """The clock's counters of each config, ``config``, and how far its result is ``off``.

        Raises SystemExit when one fails, or is off where it has to be ``exact``.
        """
        from worker.candidate import Candidate
        from worker.measure.measure import MeasureOptions, measure
        from worker.outcome import Outcome

        options = MeasureOptions(cold=False, min_time_s=0.001, run_timeout_s=RUN_TIMEOUT_S)
        batch = []
        for config in configs:
            built = self.builder.build(Candidate(workload, config, target))
            if isinstance(built, Outcome):
                raise SystemExit(f"bench: {config} on {workload}: {built.message}")
            batch.append(built)
        outcomes = measure(self.builder.nursery, self.board, batch, options, lock_dir=self.folder)
        rows: list[dict[str, Any]] = []
        for config, outcome in zip(configs, outcomes, strict=True):
            if outcome.error is not None or (exact and outcome.max_error):
                raise SystemExit(f"bench: {config} on {workload}: {outcome.message or 'not exact'}")
            counted = {**(outcome.counters or {}), "off": outcome.max_error}
            rows.append({**counted, "config": config.to_json()})
        return rows

    def run(
        self,
        function: Any,
        arguments: Sequence[Array],
        expected: Array,
        target: Target,
        checked: bool = True,
    ) -> dict[str, Any]:
        """The clock's counters of a function of ours or of TVM's, which leaves ``expected`` to the last bit.

        Raises SystemExit when it does not and is ``checked``.
        """
        import numpy as np

        from kernels.emit.compile import compile_object
        from worker.build.toolchain import link

        arrays = [*arguments, np.ones_like(expected) - expected]
        counted, result = self.call(link(compile_object(function, target)), "main", arrays)
        if checked and not np.array_equal(result, expected):
            raise SystemExit("bench: the result is not exact")
        return counted

    def call(self, library: bytes, name: str, arrays: Sequence[Array]) -> tuple[dict[str, Any], Array]:
        """The clock's counters of ``name`` in a library, called with ``arrays``, and the last of them."""
        from tvm import rpc

        from worker.measure.wire import Wire

        path = self.folder / "function.so"
        path.write_bytes(library)
        board: Any = self.board
        wire = Wire(
            lambda: rpc.connect(board.host, board.port, board.key, session_timeout=int(RUN_TIMEOUT_S))
        )
        wire.session.upload(str(path), target=path.name)
        module = wire.session.load_module(path.name)
        given = [*map(wire.tensor, arrays)]
        module.time_evaluator(name, wire.device, number=1, repeat=1)(*given)
        counted: dict[str, Any] = json.loads(wire.session.get_function("tilefleet.stats")())
        return counted, wire.get(given[-1])


@contextmanager
def bench_on(board_name: str) -> Iterator[Bench]:
    """A simulated board of the catalogue, started for a bench; its folder goes with it."""
    from worker.build.artifacts import ArtifactStore
    from worker.build.build import Builder
    from worker.children.nursery import Nursery
    from worker.engine.dask_worker import PRELOAD
    from worker.fleet.drivers.simulated import SimulatedBoard

    with (
        tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as name,
        Nursery(preload=PRELOAD) as nursery,
    ):
        folder = Path(name)
        builder = Builder(nursery, ArtifactStore(folder / "artifacts"))
        with SimulatedBoard(board_name, state_dir=folder) as board:
            yield Bench(builder, board, folder)
