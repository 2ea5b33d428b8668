"""A whole model tuned through the service, then timed in turns with onnxruntime.

python -m bench.model --model FILE|NAME --threads 1 --budget-s 120 --json FILE
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench import timing
from kernels.numerics import Numerics
from tuner.runtimes.turns import take_turns

if TYPE_CHECKING:
    from kernels.target import Target


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.model", description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="an ONNX file, or a name from bench/models.py")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=180, help="seconds of tuning (default 180)")
    parser.add_argument("--trials-a-layer", type=int, help="trials of tuning for each distinct layer")
    parser.add_argument("--strategy", default="model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--numerics", type=Numerics, choices=list(Numerics), default=Numerics.RELAXED, help="of all builds"
    )
    parser.add_argument("--rounds", type=int, default=25, help="turns that each build gets (default 25)")
    parser.add_argument("--default", action="store_true", help="time TVM's default lowering, too (slow)")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    try:
        timing.limit_threads(arguments.threads)
        with TemporaryDirectory(prefix="tilefleet-bench-") as folder:
            report = run(_model_file(arguments, Path(folder)), arguments)
    except ValueError as error:
        parser.error(str(error))
    print(_summary(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def run(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Tune the model with all the machine; then pin this process, build, check and time."""
    from bench.service import run_job, service
    from kernels.target import from_json

    # VGG-16 has 553 MB.
    with service(TILEFLEET_MAX_MODEL_MB="2048") as client:
        target = from_json(client.target("host"))
        model = client.upload(path)
        job = run_job(
            client,
            model=model.hash,
            trials=arguments.trials_a_layer
            and arguments.trials_a_layer * len(client.workloads(model.hash).workloads),
            threads=arguments.threads,
            strategy=arguments.strategy,
            seconds=arguments.budget_s,
            seed=arguments.seed,
            numerics=arguments.numerics,
        )
        log = list(client.job_log(job.id, "best"))
    report = {
        "model": arguments.model,
        "threads": arguments.threads,
        "numerics": arguments.numerics,
        "trials": job.trials,
        "failed_trials": job.failed,
        "tuning_s": job.elapsed_s,
    }
    timing.pin(arguments.threads)
    return report | compare(path, log, target, arguments)


def compare(path: Path, log: list[str], target: Target, arguments: argparse.Namespace) -> dict[str, Any]:
    """Build by the log, by the analysis alone, and by onnxruntime; check; time in turns."""
    import numpy as np
    import tvm
    from tvm import relax

    from tuner.backend.apply import build_default, build_model
    from tuner.backend.comparison import Build, check
    from tuner.log.record import read_log
    from tuner.log.relayouts import read_relayouts
    from tuner.runtimes.engines import onnx_session

    session: Any = onnx_session(str(path), arguments.threads)
    rng = np.random.default_rng(arguments.seed)
    feeds = {i.name: rng.standard_normal(i.shape, np.float32) for i in session.get_inputs()}
    build = functools.partial(
        build_model, path, target=target, threads=arguments.threads, numerics=arguments.numerics
    )
    tuned, manifest = build(picks={}, records=list(read_log(log)), relayouts=list(read_relayouts(log)))
    builds = {"tuned": tuned, "analysis": build(picks={})[0]}
    if arguments.default:
        builds["default"] = build_default(path, target)
    runs: dict[str, Callable[[], Any]] = {"onnxruntime": functools.partial(session.run, None, feeds)}
    built = Build(str(path), None, target, arguments.threads, manifest.configs, manifest.tolerance)
    checks = {}
    for name, executable in builds.items():
        main_function = relax.VirtualMachine(executable, tvm.cpu())["main"]
        runs[name] = functools.partial(main_function, *map(tvm.runtime.tensor, feeds.values()))
        checks[name] = check(lambda: main_function, built)  # noqa: B023  # called at once
        if not checks[name].checked:
            raise SystemExit(f"bench.model: the {name} build: {checks[name]}")
    turns = take_turns(runs, arguments.rounds)
    seconds = {name: each.fair(arguments.threads) for name, each in turns.items()}
    ratio = timing.ratio(seconds["onnxruntime"], seconds["tuned"])
    return {
        **{f"{name}_ms": statistics.median(times) * 1e3 for name, times in seconds.items()},
        "speedup_vs_onnxruntime": ratio[0],
        "speedup_p10": ratio[1],
        "speedup_p90": ratio[2],
        "speedup_wall": timing.ratio(turns["onnxruntime"].wall, turns["tuned"].wall)[0],
        "max_rel_err": max(checks["tuned"].errors.values()),
        "layers": [layer.to_json() for layer in manifest.layers],
    }


def _model_file(arguments: argparse.Namespace, folder: Path) -> Path:
    import onnx

    from bench.models import MAKERS

    path = Path(arguments.model)
    if arguments.model in MAKERS:
        path = folder / f"{arguments.model}.onnx"
        onnx.save(MAKERS[arguments.model](arguments.seed), str(path))
    if not path.is_file():
        raise ValueError(f"--model {arguments.model} is no file and none of {', '.join(sorted(MAKERS))}")
    return path


def _summary(report: dict[str, Any]) -> str:
    times = " ".join(f"{name[:-3]} {value:.2f} ms" for name, value in report.items() if name.endswith("_ms"))
    return (
        f"{report['model']}, {report['threads']} thread(s), {report['numerics']} numerics, "
        f"{report['trials']} trials in {report['tuning_s']:.0f} s: {times} | "
        f"onnxruntime/tuned {report['speedup_vs_onnxruntime']:.3f} "
        f"({report['speedup_p10']:.2f}-{report['speedup_p90']:.2f}), error {report['max_rel_err']:.1e}"
    )


if __name__ == "__main__":
    main()
