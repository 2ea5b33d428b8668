"""C libraries of the corpus beside their modules: the same bits, and what they need.

``python -m bench.clibrary_bits [--only 'silero*'] [--most-mb 30] [--threads 1] [--board rpi4-sim]`` builds
both without a log, for this machine or for a simulated board, on which the library's own example runs under
the emulator and the module function by function; ``--json FILE``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import journal, timing
from bench.clibrary import resident_bytes
from bench.corpus.entries import Entry, Input, chosen, listed
from bench.corpus.fetch import CACHE, fetch
from kernels.target import CATALOGUE
from tilefleet.one_board import started_board
from worker.children.nursery import ChildError, Nursery
from worker.fleet.drivers.agent_build import STATIC, agent_triple
from worker.fleet.drivers.sim_models import SIM_MODELS

SEEDS = (0, 1)
TIMEOUT_S, MEMORY_BYTES = 600.0, 12 << 30
ENTRY = "bench.clibrary_bits:compare"
Call = Callable[[Mapping[str, Any]], Any]


def main() -> int:
    """Print a line a model and the sums; 1 when bits differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="of the corpus; '*' is all"
    )
    parser.add_argument("--most-mb", type=float, default=30.0, help="leave out larger files (30)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--board", choices=sorted(SIM_MODELS), help="a simulated one; without, this machine")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    timing.limit_threads(options.threads)
    entries = chosen(listed(), options.only or ["*"])
    report: dict[str, Any] = {"bench": "clibrary_bits", "board": options.board, "rows": []}
    places = fetch(entries, CACHE)
    with _caller(options.board) as call:
        for entry in entries:
            path = places[entry.name]
            if isinstance(path, Path) and path.stat().st_size > options.most_mb * 1e6:
                continue
            row = {"name": entry.name, **_row(call, entry, path, options.threads)}
            report["rows"].append(row)
            print(_line(row), flush=True)
            journal.save(options.json, report)
    print(_summary(report["rows"]))
    return int(any(row.get("same_bits") is False for row in report["rows"]))


@contextmanager
def _caller(board: str | None) -> Iterator[Call]:
    if board is not None:
        with started_board(board, None, CATALOGUE[SIM_MODELS[board].target]) as started:
            yield lambda payload: started.call(ENTRY, {**payload, "simulated": board})
        return
    with Nursery(("tvm", "bench.clibrary_bits")) as nursery:
        yield lambda payload: nursery.call(ENTRY, payload, timeout_s=TIMEOUT_S, memory_bytes=MEMORY_BYTES)


def _row(call: Call, entry: Entry, path: Path | Exception, threads: int) -> dict[str, Any]:
    if isinstance(path, Exception):
        return {"reason": str(path)}
    inputs = {name: asdict(each) for name, each in entry.inputs.items()}
    try:
        found: dict[str, Any] = call(
            {"name": entry.name, "path": str(path), "inputs": inputs, "threads": threads}
        )
    except ChildError as error:
        return {"reason": str(error)[:200]}
    return found


def compare(payload: dict[str, Any], *_: Any) -> dict[str, Any]:
    """Child: what is found of one model."""
    from bench.corpus.inputs import feeds_for, first_states, inputs_of, shapes_of
    from compiler.intake.assemble import assembled
    from compiler.ir.checks import ModelError
    from kernels.numerics import Numerics
    from tuner.clibrary.build import Model, make, write
    from tuner.clibrary.elf import code_bytes
    from tuner.ortmodel.model import fixed_model, plain_model
    from worker.measure.host import host_target

    path, threads, board = Path(payload["path"]), payload["threads"], payload.get("simulated")
    inputs = {name: Input(**each) for name, each in payload["inputs"].items()}
    entry = Entry(payload["name"], payload["path"], inputs=inputs)
    target = host_target() if board is None else CATALOGUE[SIM_MODELS[board].target]
    shapes = {
        name: shape for name, shape in shapes_of(path, entry).items() if name not in entry.constants
    } or None
    with (
        tempfile.TemporaryDirectory(prefix="tilefleet-") as scratch,
        assembled(path, entry.constants) as file,
    ):
        folder, began = Path(scratch), time.process_time()
        model = Model(file, shapes, [], [], Numerics.EXACT_INTEGERS, threads)
        try:
            made = make(model, [target], "net", path.name, "", embed=True)
        except ModelError as error:
            return {"reason": str(error)[:200]}
        write(made, folder)
        library, (variant,) = made.library, made.library.variants
        ports = sum(port.bytes for port in (*library.inputs, *library.outputs))
        row = {
            "build_s": time.process_time() - began,
            "arena_bytes": variant.arena.bytes,
            "arena_bound": variant.arena.bound,
            "unshared_bytes": variant.arena.unshared,
            "weights_bytes": len(library.weights.data),
            "code_bytes": code_bytes((folder / "net.o").read_bytes()),
        }
        ours, theirs = _runs(model, made, folder, target, payload)
        known = inputs_of(fixed_model(file, shapes))
        for seed in SEEDS:
            feeds = feeds_for(known, entry, seed) | first_states(path, plain_model(file, shapes))
            given = [feeds[port.name] for port in library.inputs]
            found, right = ours(given), theirs(given)
            same = [one.tobytes() == other.tobytes() for one, other in zip(found, right, strict=True)]
            row["same_bits"] = row.get("same_bits", True) and all(same)
        if board is None and not library.counted:
            row["resident_beside"] = (
                resident_bytes(folder) - row["weights_bytes"] - library.arena_bytes - ports
            )
        return row


def _runs(model: Any, made: Any, folder: Path, target: Any, payload: Mapping[str, Any]) -> Any:
    """Who computes outputs from inputs: the library, and the module."""
    import tvm
    from tvm import relax

    from compiler.load import load_partition
    from tuner.backend.apply import lower_partition, plan_of
    from tuner.backend.executable import compile_module
    from tuner.backend.on_board import SESSION_S, Board
    from tuner.backend.shape_sets import build_sets
    from tuner.clibrary.loaded import Loaded
    from tuner.clibrary.wheel import link_loadable
    from worker.measure.session import connect
    from worker.measure.wire import Wire

    if "board" not in payload:
        link_loadable(made.library, sorted(folder.glob("net*.o")), folder / "net.so")
        loaded = Loaded(folder / "net.so", "net", threads=model.threads)
        executable, _ = build_sets(
            model.path, target, model.threads, [model.shapes] if model.shapes else [], []
        )
        main: Any = relax.VirtualMachine(executable, tvm.cpu())["main"]
        ours: Any = loaded.run
    else:
        partition = load_partition(model.path, model.shapes)
        module = lower_partition(
            partition, plan_of(partition, {}, target, model.threads), target, model.threads
        )
        wire = Wire(lambda: connect(payload["board"], SESSION_S))
        main = Board(wire, folder, (), lambda: None).load(module, compile_module(module, target))
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", agent_triple(target.triple), *STATIC]
        threads = [] if model.threads == 1 else ["-pthread"]
        command = [*compiler, "-std=c11", *threads, "example.c", "libnet.a", "-o", "example"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        simulated = SIM_MODELS[payload["simulated"]]
        emulator = [simulated.emulator, "-cpu", simulated.emulated_cpu, "./example"]

        def ours(given: Sequence[Any]) -> list[Any]:
            files = [folder / f"input_{at}.bin" for at in range(len(given))]
            for file, value in zip(files, given, strict=True):
                file.write_bytes(value.tobytes())
            subprocess.run(
                [*emulator, *files], cwd=folder, check=True, capture_output=True, timeout=TIMEOUT_S
            )
            names = [f"output_{at}.bin" for at in range(len(made.library.outputs))]
            return [memoryview((folder / name).read_bytes()) for name in names]

    def theirs(given: Sequence[Any]) -> list[Any]:
        result = main(*map(tvm.runtime.tensor, given))
        return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]

    return ours, theirs


def _line(row: Mapping[str, Any]) -> str:
    if "same_bits" not in row:
        return f"{row['name']}: {row['reason']}"
    arena = f"arena {row['arena_bytes'] / max(1, row['arena_bound']):.3f} of the bound"
    beside = f", {row['resident_beside'] / 1e3:.0f} KB resident beside" if "resident_beside" in row else ""
    bits = "the same bits" if row["same_bits"] else "OTHER BITS"
    return f"{row['name']}: {bits}; {arena}, code {row['code_bytes']} bytes{beside}; {row['build_s']:.0f} s"


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    made = [row for row in rows if "same_bits" in row]
    if not made:
        return "no library"
    arena = max(row["arena_bytes"] / max(1, row["arena_bound"]) for row in made)
    beside = [row["resident_beside"] for row in made if "resident_beside" in row]
    same = sum(row["same_bits"] for row in made)
    return (
        f"{len(made)} of {len(rows)} are libraries, {same} with the same bits; "
        f"at the most: arena {arena:.3f} of the bound, code {max(row['code_bytes'] for row in made)} bytes"
        + (f", resident beside {max(beside)} bytes" if beside else "")
    )


if __name__ == "__main__":
    sys.exit(main())
