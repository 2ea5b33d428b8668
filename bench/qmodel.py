"""A quantized model tuned through the service, checked to the last bit, and timed in turns with onnxruntime.

python -m bench.qmodel --suite resnet50 --threads 1 --budget-s 300 --json FILE

The model is a network with random weights, quantized by onnxruntime (``bench.quantized_models``). What it
must compute is defined by the integer reference of its products and operators: each build is compared with
that and may not differ at all. onnxruntime computes with float scales: how many of its quanta differ, and by
how much, is in FILE. FILE is written after tuning and at the end; called again the bench goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench import journal, timing
from kernels.numerics import Numerics
from tuner.runtimes.turns import take_turns

if TYPE_CHECKING:
    from onnx import ModelProto

    from kernels.kernel import Array
    from kernels.target import Target

SETTINGS = ("suite", "activations", "form", "threads", "trials_a_layer", "budget_s", "seed", "no_tuning")
"""What two runs must have in common to be one."""


def main() -> None:
    """Run the bench and print its figures."""
    from bench.quantized_models import NAMES, SMALL, Style, quantized

    parser = argparse.ArgumentParser(prog="python -m bench.qmodel", description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=(*NAMES, *SMALL), required=True, help="the network")
    parser.add_argument("--activations", choices=["uint8", "int8"], default="uint8")
    parser.add_argument("--form", choices=["qdq", "qoperator"], default="qdq")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trials-a-layer", type=int, help="trials of tuning for each distinct layer")
    parser.add_argument("--budget-s", type=float, default=300, help="seconds of tuning (default 300)")
    parser.add_argument("--no-tuning", action="store_true", help="build by the analysis alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=25, help="turns that each build gets (default 25)")
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args()
    try:
        timing.limit_threads(arguments.threads)
        settings = {name: getattr(arguments, name) for name in SETTINGS}
        report = journal.opened(arguments.json, "qmodel", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    import onnx

    model = quantized(arguments.suite, Style(arguments.activations, arguments.form), arguments.seed)
    with TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        path = Path(folder) / f"{arguments.suite}.onnx"
        onnx.save(model, path)
        run(path, model, report, arguments)
    print(_summary(report))


def run(path: Path, model: ModelProto, report: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Tune, unless that is done, with all the machine; then pin this process, build, check and time."""
    if "tuned" not in report and not arguments.no_tuning:
        report["tuned"] = tune(path, arguments)
        journal.save(arguments.json, report)
    timing.pin(arguments.threads)
    if "timed" not in report:
        report["timed"] = compare(path, model, report.get("tuned"), arguments)
        journal.save(arguments.json, report)


def tune(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """A job for the model; its best configs as lines of a log, and what finding them took."""
    from bench.service import run_job, service

    with service() as client:
        target = client.target("host")
        uploaded = client.upload(path)
        workloads = client.workloads(uploaded.hash).workloads
        job = run_job(
            client,
            model=uploaded.hash,
            trials=arguments.trials_a_layer and arguments.trials_a_layer * len(workloads),
            threads=arguments.threads,
            seconds=arguments.budget_s,
            seed=arguments.seed,
            numerics=Numerics.EXACT,
        )
        log = list(client.job_log(job.id, "best"))
    return {
        "target": target,
        "trials": job.trials,
        "failed": job.failed,
        "s": job.elapsed_s,
        "message": job.message,
        "log": log,
    }


def compare(
    path: Path, model: ModelProto, tuned: dict[str, Any] | None, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Build by the log and by the analysis alone, check, and time in turns with onnxruntime.

    Raises SystemExit when a build differs from the integer reference.
    """
    import numpy as np
    import tvm
    from tvm import relax

    from bench.partition_reference import evaluate
    from bench.quantized_models import random_feeds
    from compiler.load import load_partition
    from kernels.target import from_json
    from tuner.backend.apply import build_model
    from tuner.backend.comparison import run as run_build
    from tuner.log.record import read_log
    from tuner.log.relayouts import read_relayouts
    from tuner.runtimes.engines import onnx_session
    from worker.measure.host import host_target

    target: Target = from_json(tuned["target"]) if tuned else host_target()
    build = functools.partial(
        build_model, path, picks={}, target=target, threads=arguments.threads, numerics=Numerics.EXACT
    )
    builds = {"analysis": build()}
    if tuned:
        log = tuned["log"]
        builds["tuned"] = build(records=list(read_log(log)), relayouts=list(read_relayouts(log)))
    session: Any = onnx_session(str(path), arguments.threads)
    # Other values than those that the quantizer saw.
    feeds = random_feeds(model, np.random.default_rng(arguments.seed + 1))
    values = evaluate(load_partition(path), feeds)
    outputs = [output.name for output in model.graph.output]
    runs: dict[str, Callable[[], Any]] = {"onnxruntime": functools.partial(session.run, None, feeds)}
    for name, (executable, _) in builds.items():
        main_function = relax.VirtualMachine(executable, tvm.cpu())["main"]
        runs[name] = functools.partial(main_function, *map(tvm.runtime.tensor, feeds.values()))
        result = run_build(main_function, feeds)
        wrong = [
            out for out, each in zip(outputs, result, strict=True) if not np.array_equal(each, values[out])
        ]
        if wrong:
            raise SystemExit(f"bench.qmodel: {wrong[0]} of the {name} build is not what the reference has")
    off = {
        output: off_quanta(theirs, values[output], quantum_of(model, output))
        for output, theirs in zip(outputs, runs["onnxruntime"](), strict=True)
    }
    turns = take_turns(runs, arguments.rounds)
    seconds = {name: each.fair(arguments.threads) for name, each in turns.items()}
    ratios = {name: timing.ratio(seconds["onnxruntime"], seconds[name]) for name in builds}
    ours = builds["tuned" if tuned else "analysis"][1]
    return {
        "ms": {name: statistics.median(times) * 1e3 for name, times in seconds.items()},
        "speedup": {
            name: {
                **dict(zip(("median", "p10", "p90"), ratio, strict=True)),
                # What others on the machine disturb least.
                "of_minima": min(seconds["onnxruntime"]) / min(seconds[name]),
            }
            for name, ratio in ratios.items()
        },
        "speedup_wall": {
            name: timing.ratio(turns["onnxruntime"].wall, turns[name].wall)[0] for name in builds
        },
        "off": off,
        "layers": [layer.to_json() for layer in ours.layers],
    }


def quantum_of(model: ModelProto, output: str) -> float:
    """What one step of the bytes is worth that ``output`` of a quantized model was made from.

    Raises ValueError where it was not made from bytes with one scale.
    """
    from onnx import numpy_helper

    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if output in node.output and node.op_type == "DequantizeLinear" and scales[node.input[1]].size == 1:
            return float(scales[node.input[1]].reshape(()))
    raise ValueError(f"{output} is not the result of a DequantizeLinear of one scale")


def off_quanta(theirs: Array, ours: Array, quantum: float) -> dict[str, float]:
    """Share of the elements that differ, and the largest difference in quanta."""
    import numpy as np

    difference = np.abs(np.rint((theirs.astype(np.float64) - ours) / quantum))
    return {"share": float(np.mean(difference > 0)), "largest": int(difference.max())}


def _summary(report: dict[str, Any]) -> str:
    timed, settings = report["timed"], report["settings"]
    times = " ".join(f"{name} {value:.2f} ms" for name, value in timed["ms"].items())
    ratios = " ".join(
        f"{name} {each['median']:.3f} ({each['p10']:.2f}-{each['p90']:.2f}, minima {each['of_minima']:.3f})"
        for name, each in timed["speedup"].items()
    )
    off = ", ".join(
        f"{each['share']:.2%} by {each['largest']} quanta at most" for each in timed["off"].values()
    )
    trials = (
        f"{report['tuned']['trials']} trials in {report['tuned']['s']:.0f} s"
        if "tuned" in report
        else "untuned"
    )
    return (
        f"{settings['suite']}, {settings['form']}, {settings['activations']}, "
        f"{settings['threads']} thread(s), {trials}: {times} | onnxruntime/ours {ratios} "
        f"| ours exact, onnxruntime off in {off}"
    )


if __name__ == "__main__":
    main()
