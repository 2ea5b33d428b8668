"""Measure every point of a space, with a tuning log as journal, and pack it."""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.spaces.layers import HOST, Subject

if TYPE_CHECKING:
    from kernels.space import Config
    from tuner.log.record import Record
    from tuner.search.replay import Recorded
    from worker.build.build import Builder
    from worker.fleet.drivers.agent_process import AgentBoard
    from worker.outcome import Outcome

AT_ONCE = 16
"""Points that are measured between two additions to the journal."""
AGAIN, ROUNDS = 8, 7
"""How many of the best by the wall clock are measured again, and in how many turns."""
MIN_TIME_S = 0.02
"""Of the timed repeats of a point by the wall clock."""
SUFFIX = ".t4.xz"
RECOMMENDED, PREDICTED = "recommended", "predicted"
"""What a packed space has beside measurements: the seeds of a search, and the predicted time of each."""


@dataclass(frozen=True)
class Recorder:
    """A board that runs, and what builds for it."""

    builder: Builder
    board: AgentBoard
    folder: Path

    def measure(self, subject: Subject, configs: Sequence[Config], rounds: int = 0) -> list[Outcome]:
        """One outcome a config, weights cold; timed in turns with ``rounds``."""
        from worker.build.build import Built
        from worker.candidate import Candidate
        from worker.measure.measure import MeasureOptions, measure
        from worker.outcome import Outcome

        target = subject.target()
        made = [self.builder.build(Candidate(subject.workload, config, target)) for config in configs]
        built = [each for each in made if isinstance(each, Built)]
        options = MeasureOptions(min_time_s=MIN_TIME_S, run_timeout_s=120)
        measured = iter(
            measure(self.builder.nursery, self.board, built, options, lock_dir=self.folder, rounds=rounds)
        )
        return [each if isinstance(each, Outcome) else next(measured) for each in made]


@contextmanager
def recorder_on(board_name: str, kept: Path) -> Iterator[Recorder]:
    """A recorder on a simulated board, or on one processor of this machine.

    What is built for the board itself stays in the folder ``kept``, the candidates are deleted.
    """
    import os

    from worker.build.artifacts import ArtifactStore
    from worker.build.build import Builder
    from worker.children.nursery import Nursery
    from worker.engine.dask_worker import PRELOAD
    from worker.fleet.drivers.host import NativeBoard
    from worker.fleet.drivers.simulated import SimulatedBoard

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tilefleet-bench-")))
        nursery = stack.enter_context(Nursery(preload=PRELOAD))
        builder = Builder(nursery, ArtifactStore(folder / "artifacts"))
        kept.mkdir(parents=True, exist_ok=True)
        last = max(os.sched_getaffinity(0))
        board = (
            NativeBoard(state_dir=kept, cpus=[last], threads=1)
            if board_name == HOST
            else SimulatedBoard(board_name, state_dir=kept)
        )
        yield Recorder(builder, stack.enter_context(board), folder)


def record(subject: Subject, journal: Path) -> None:
    """Add to the journal what it lacks of a space; on this machine, the best few are measured again."""
    from tuner.log.record import write_log

    done = read(journal)
    there = {each.config for each in done}
    missing = [config for config in subject.problem().space if config not in there]
    if not missing:
        return
    with recorder_on(subject.board, journal.parent / subject.board) as recorder:
        for at in range(0, len(missing), AT_ONCE):
            part = missing[at : at + AT_ONCE]
            outcomes = recorder.measure(subject, part)
            clock = recorder.board.clock
            new = [_record(subject, clock, *each) for each in zip(part, outcomes, strict=True)]
            with journal.open("a") as file:
                file.writelines(write_log(new))
            done += new
            print(f"{subject.name}: {len(done)} of {len(there) + len(missing)}", flush=True)
        if subject.board == HOST:
            ran = [each for each in done if each.cost_s is not None]
            best = sorted(ran, key=lambda each: each.cost_s or 0.0)[:AGAIN]
            again = recorder.measure(subject, [each.config for each in best], ROUNDS)
            verified = [
                replace(each, verified_s=outcome.cost_s, remeasured=1)
                for each, outcome in zip(best, again, strict=True)
                if outcome.cost_s is not None
            ]
            with journal.open("a") as file:
                file.writelines(write_log(verified))


def read(journal: Path) -> list[Record]:
    """One record a config, the last of each; none where there is no journal yet."""
    from tuner.log.record import read_log

    if not journal.exists():
        return []
    with journal.open() as lines:
        return list({each.config: each for each in read_log(lines)}.values())


def pack(subject: Subject, journal: Path, folder: Path) -> str:
    """Write a whole space as T4, without what search does not read; what was done, in a line.

    The predictions are a measurement of each result, the kernels' recommendations the field ``recommended``.
    """
    from tuner.log import t4

    there = {each.config: each for each in read(journal)}
    problem = subject.problem()
    space = list(problem.space)
    missing = sum(config not in there for config in space)
    if missing:
        return f"{subject.name}: {missing} of {len(space)} points are missing, not packed"
    slim = [
        replace(there[config], toolchain={}, counters={}, repeats_s=(), message="", created="")
        for config in space
    ]
    document = t4.to_t4(slim)
    document[RECOMMENDED] = [seed.to_json() for seed in problem.seeds]
    for config, result in zip(space, document["results"], strict=True):
        predicted_ms = problem.predict(config) * 1e3
        result["measurements"].append({"name": PREDICTED, "value": predicted_ms, "unit": "ms"})
    path = folder / f"{subject.name}{SUFFIX}"
    path.write_bytes(lzma.compress(json.dumps(document).encode(), preset=9 | lzma.PRESET_EXTREME))
    failed = sum(each.error is not None for each in slim)
    return f"{subject.name}: {len(space)} points, {failed} failed, {path.stat().st_size} bytes"


def unpack(path: Path) -> Recorded:
    """A space that ``pack`` wrote."""
    from kernels.space import Config
    from tuner.log import t4
    from tuner.search.replay import whole_space

    document = json.loads(lzma.decompress(path.read_bytes()))
    seeds = [Config.from_json(each) for each in document[RECOMMENDED]]
    predicted_s = {}
    for result in document["results"]:
        (ms,) = (each["value"] for each in result["measurements"] if each["name"] == PREDICTED)
        predicted_s[Config.from_json(result["configuration"])] = ms / 1e3
    return whole_space(t4.from_t4(document), seeds, predicted_s)


def _record(subject: Subject, clock: str, config: Config, outcome: Outcome) -> Record:
    from kernels import registry
    from tuner.log.record import Record

    return Record(
        workload=subject.workload,
        target=subject.target(),
        config=config,
        kernel_version=registry.kernel(config.kernel).version,
        clock=clock,
        cost_s=outcome.cost_s,
        repeats_s=outcome.repeats_s,
        disturbed=outcome.disturbed,
        error=outcome.error,
        message=outcome.message,
        board=outcome.board,
        counters=outcome.counters,
    )
