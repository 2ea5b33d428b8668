"""Models in onnxruntime with our operators, beside onnxruntime alone and our own module, in turns.

``python -m bench.onnxruntime_operators MODEL.onnx`` or, of the corpus, ``--only 'silero*'`` (``'*'`` is all);
``--json FILE``. Built for this machine without a log, for one thread; all that is computed here is in the
library, also where a build would leave it to onnxruntime. Beside them stands what onnxruntime takes for a
model that has the same inputs and outputs and computes nothing (``nothing``), and what that and our module
take one after the other (``floor``): onnxruntime's own run is in it, and that it pushes weights out of the
caches.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import journal, timing
from bench.corpus.entries import Entry, Input, chosen, listed
from bench.corpus.fetch import CACHE, fetch
from tuner.ortmodel.model import IR_VERSION, OPSET
from tuner.runtimes.turns import take_turns
from worker.children.nursery import ChildError, Nursery

MEMORY_BYTES, TIMEOUT_S = 12 << 30, 900.0
LONGEST_S = 20.0


def main() -> None:
    """Print a line a model, and what they come to together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="of the corpus")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the corpus is kept")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    timing.limit_threads(1)
    entries = [Entry(path.stem, str(path)) for path in options.models]
    if options.only:
        entries += chosen(listed(), options.only)
    report: dict[str, Any] = {"bench": "onnxruntime_operators", "rows": []}
    places = fetch(entries, options.cache)
    with Nursery(("tvm", "bench.onnxruntime_operators")) as nursery:
        for entry in entries:
            row = _row(nursery, entry, places[entry.name], options.rounds)
            report["rows"].append(row)
            print(_line(row), flush=True)
            journal.save(options.json, report)
    print(_summary(report["rows"]))


def _row(nursery: Nursery, entry: Entry, path: Path | Exception, rounds: int) -> dict[str, Any]:
    row: dict[str, Any] = {"name": entry.name}
    if isinstance(path, Exception):
        return {**row, "reason": str(path)}
    inputs = {name: asdict(each) for name, each in entry.inputs.items()}
    payload = {"name": entry.name, "path": str(path), "inputs": inputs, "rounds": rounds}
    try:
        return {**row, **nursery.call(f"{__spec__.name}:compare" if __spec__ else "", payload, **_LIMITS)}
    except ChildError as error:
        return {**row, "reason": str(error)[:300]}


_LIMITS: dict[str, Any] = {"timeout_s": TIMEOUT_S, "memory_bytes": MEMORY_BYTES}


def compare(payload: dict[str, Any]) -> dict[str, Any]:
    """Child: the figures of one model."""
    # Here, so that TVM sees how many threads it may have.
    import numpy as np

    from bench.corpus.inputs import feeds_for, first_states, inputs_of, shapes_of
    from compiler.intake.assemble import assembled
    from kernels.numerics import Numerics
    from tilefleet.c_library import Wanted
    from tilefleet.onnxruntime_model import build_onnxruntime_model
    from tuner.backend.error import error_of
    from tuner.clibrary.build import Model
    from tuner.ortmodel.model import fixed_model, plain_model
    from tuner.ortmodel.session import session
    from worker.measure.host import host_target

    path = Path(payload["path"])
    inputs = {name: Input(**each) for name, each in payload["inputs"].items()}
    entry, target = Entry(payload["name"], payload["path"], inputs=inputs), host_target()
    shapes = shapes_of(path, entry)
    shapes = {name: shape for name, shape in shapes.items() if name not in entry.constants}
    with (
        tempfile.TemporaryDirectory(prefix="tilefleet-") as scratch,
        assembled(path, entry.constants) as file,
    ):
        folder = Path(scratch)
        (folder / "log").write_text("")
        model = Model(file, shapes, [], [], Numerics.EXACT_INTEGERS)
        wanted = Wanted(folder, "net", path.name, folder / "log", [target], True, False, False, None, None)
        manifest = build_onnxruntime_model(model, wanted)
        plain = plain_model(file, shapes)
        (folder / "plain.onnx").write_bytes(plain.SerializeToString())
        feeds = feeds_for(inputs_of(fixed_model(file, shapes)), entry, 0) | first_states(path, plain)
        alone = session(folder / "plain.onnx", None, 1)
        ours = session(folder / "model.onnx", folder / "libnet.so", 1)
        runs = {"plain": lambda: alone.run(None, feeds), "ours": lambda: ours.run(None, feeds)}
        found = runs["ours"]()
        errors = [error_of(one, other) for one, other in zip(found, runs["plain"](), strict=True)]
        row: dict[str, Any] = {
            "operators": len(manifest["operators"]),
            "left": len(manifest["left"]),
            "max_error": max(errors, default=0.0),
        }
        if not manifest["left"]:
            main = _module(file, shapes, target)
            arguments = [_tensor(feeds[name]) for name in _order(manifest)]
            runs["module"] = lambda: main(*arguments)
            (folder / "nothing.onnx").write_bytes(_nothing(ours, found).SerializeToString())
            idle = session(folder / "nothing.onnx", None, 1)
            runs["nothing"] = lambda: idle.run(None, feeds)
            runs["floor"] = lambda: (idle.run(None, feeds), main(*arguments))
            result = main(*arguments)
            module = [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]
            row["same_bits"] = all(
                np.array_equal(
                    one.view(np.uint8) if one.ndim else one, two.view(np.uint8) if two.ndim else two
                )
                for one, two in zip(found, module, strict=True)
            )
        turns = take_turns(runs, _rounds(runs, payload["rounds"]))
    ms = {name: statistics.median(each.cpu) * 1e3 for name, each in turns.items()}
    row |= {"ms": ms, "over_plain": ms["plain"] / ms["ours"]}
    if "module" not in ms:
        return row
    return row | {"over_module": ms["module"] / ms["ours"], "over_floor": ms["floor"] / ms["ours"]}


def _nothing(session: Any, outputs: Sequence[Any]) -> Any:
    """A model with the inputs of ``session``, and its ``outputs`` as constants."""
    from onnx import TensorProto, helper, numpy_helper

    names = [each.name for each in session.get_outputs()]
    constants = [numpy_helper.from_array(each, name) for name, each in zip(names, outputs, strict=True)]
    kinds = {"float": "FLOAT", "double": "DOUBLE", "float16": "FLOAT16"}
    inputs = []
    for each in session.get_inputs():
        word = each.type.removeprefix("tensor(").removesuffix(")")
        kind = getattr(TensorProto, kinds.get(word, word.upper()))
        inputs.append(helper.make_tensor_value_info(each.name, kind, each.shape))
    results = [helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in constants]
    graph = helper.make_graph([], "nothing", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _order(manifest: dict[str, Any]) -> list[str]:
    return [each["name"] for each in manifest["operators"][0]["inputs"]]


def _module(path: Path, shapes: Any, target: Any) -> Any:
    """The ``main`` of our own module, with the calls of small models made one as a build makes them."""
    import tvm
    from tvm import relax

    from tuner.backend.shape_sets import build_sets

    executable, _ = build_sets(path, target, 1, [shapes] if shapes else [], [])
    return relax.VirtualMachine(executable, tvm.cpu())["main"]


def _tensor(value: Any) -> Any:
    import tvm

    return tvm.runtime.tensor(value)


def _rounds(runs: dict[str, Any], wanted: int) -> int:
    import time

    began = time.perf_counter()
    for run in runs.values():
        run()
    return max(3, min(wanted, int(LONGEST_S / (time.perf_counter() - began))))


def _line(row: dict[str, Any]) -> str:
    if "ms" not in row:
        return f"{row['name']}: {row['reason']}"
    times = ", ".join(f"{name} {ms:.4g} ms" for name, ms in row["ms"].items())
    ratios = f"{row['over_plain']:.2f} times onnxruntime"
    if "over_module" in row:
        same = "the same bits" if row["same_bits"] else "OTHER BITS"
        ratios += (
            f", {row['over_module']:.2f} times our module, {row['over_floor']:.2f} times the floor, {same}"
        )
    return f"{row['name']}: {ratios}; {times}; {row['operators']} operators, {row['left']} nodes left"


def _summary(rows: Sequence[dict[str, Any]]) -> str:
    timed = [row for row in rows if "ms" in row]
    whole = [row for row in timed if "over_module" in row]
    plain, module, floor = (
        [row[key] for row in timed if key in row] for key in ("over_plain", "over_module", "over_floor")
    )
    geomeans = [timing.geomean(values) or 0 for values in (plain, module, floor)]
    return (
        f"{len(timed)} of {len(rows)} models; {geomeans[0]:.2f} times onnxruntime "
        f"({sum(each >= 1 for each in plain)} not slower); {len(whole)} all ours, "
        f"{sum(row['same_bits'] for row in whole)} with the same bits, {geomeans[1]:.2f} times our module, "
        f"{geomeans[2]:.2f} times the floor ({min(floor, default=0):.2f} at least)"
    )


if __name__ == "__main__":
    main()
