"""The main job in one go: ``python -m bench.demo`` tunes a real model here and says what it gained."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Timer
from typing import Annotated, Any

import onnx
import typer
from rich.console import Console

from bench.demo.report import layer_of, print_results
from bench.random_weights import randomize
from bench.service import service
from compiler.readers.model_file import TFLITE
from server.models.schemas import Model
from tilefleet import baselines, render
from tilefleet.client import Client
from tilefleet.commands.common import console as make_console
from tilefleet.commands.shape_options import ShapeOption, read_fixed
from tilefleet.errors import TilefleetError
from tilefleet.watching import watch

FOLDER = Path(".tilefleet/demo")
REPORT = Path("demo-report.json")
COMPARE_S = 1800


def demo(
    model: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="An ONNX file; by default SqueezeNet.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds to tune for.")] = 150,
    shape: ShapeOption = None,
) -> None:
    """Tune a model on this machine, and compare with TVM's default and onnxruntime, one thread each."""
    console = make_console()
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        path, shapes = _prepare(model, console), read_fixed(shape, "the demo")
        console.print("Starting Tilefleet: SQLite file, embedded Dask cluster, this machine as the one board")
        with service() as client:
            console.print(f"Dashboard: {client.url}")
            report = run(client, path, shapes, seconds, console)
            REPORT.write_text(json.dumps(report, indent=2) + "\n")
            console.print(f"All of this is in {REPORT}")
            if not report["checked"]:
                raise TilefleetError(f"the tuned model was not checked: {report['check']['skipped']}")
            if console.is_terminal:
                _stay(client.url, console)
    except (TilefleetError, OSError) as error:
        typer.echo(f"demo: {error}", err=True)
        raise typer.Exit(1) from None


def _stay(url: str, console: Console) -> None:
    """Keep the coordinator up for whoever wants to look, until Ctrl-C."""
    console.print(f"The dashboard stays at {url} until Ctrl-C")
    with suppress(KeyboardInterrupt):
        signal.pause()


def run(
    client: Client, path: Path, shapes: dict[str, list[int]], seconds: float, console: Console
) -> dict[str, Any]:
    """Tune, build and compare; the report. Raises TilefleetError when any of it fails."""
    log, built = path.with_suffix(".jsonl"), path.with_suffix(".so")
    model = client.upload(path, shapes=shapes)
    console.print(
        f"{model.name}: {model.tunable} of {model.operators} convolutions and matrix products can be "
        f"tuned, {(model.flops or 0) / 1e9:.2f} billion operations an inference"
    )
    job = client.submit(model=model.hash, target="host", seconds=seconds, shapes=shapes or None)
    job = watch(client, job.id, console)
    if job.state not in ("done", "incomplete"):
        raise TilefleetError(f"the job ended {job.state}: {job.message or 'no message'}")
    tasks, target = client.tasks(job.id), client.target("host")
    console.print("Timing onnxruntime on each layer, for the lines in the dashboard")
    baselines.store(client, job, tasks)
    log.write_text("".join(client.job_log(job.id)))
    console.print(f"Tuned {len(tasks)} distinct layers: {render.times(job)}; {render.summary(job)}")
    command = _build(path, log, built, shapes, console)
    console.print("Comparing, one thread each, in turns in one process pinned to one core")
    request = {
        "model": str(path),
        "shapes": {**_shapes_of(model), **shapes},
        "tuned": str(built),
        "target": target,
        "workloads": [task.workload for task in tasks],
    }
    manifest = json.loads(Path(f"{built}.json").read_text())
    default_s, totals = _compare(request)
    layers = [layer_of(task, default_s[task.workload_key]) for task in tasks]
    report = {
        "model": model.name,
        "threads": 1,
        "layers": [asdict(layer) for layer in layers],
        "default_ms": totals["default_ms"],
        "tuned_ms": totals["tuned_ms"],
        "estimated_ms": job.estimated_ms,
        "built": job.built.model_dump() if job.built else None,
        "verdict": job.verdict.model_dump() if job.verdict else None,
        "onnxruntime_ms": totals["onnxruntime_ms"],
        "speedup_vs_onnxruntime": totals["onnxruntime_ms"] / totals["tuned_ms"],
        **{name: manifest[name] for name in ("checked", "check")},
        "trials": job.trials,
        "failed_trials": job.failed,
        "tuning_s": job.elapsed_s,
        "peak_gflops": job.peak_gflops,
    }
    print_results(console, layers, report)
    console.print(f"The log: {log}\nBuild from it:\n  {' '.join(command)}", soft_wrap=True)
    return report


def _prepare(model: Path | None, console: Console) -> Path:
    """The model to tune as a file of the demo's own, its weights replaced where they are all alike."""
    if model is None:
        model = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    path = FOLDER / f"{model.stem}.onnx"
    with model.open("rb") as file:
        if file.read(8).endswith(TFLITE):
            raise TilefleetError(
                f"{model.name} is a TFLite file, and the demo compares with onnxruntime, which takes none: "
                f"start `tilefleet up`, then `tilefleet submit {model}`"
            )
    try:
        graph = onnx.load(model, load_external_data=False)
    except Exception:  # the server says what is wrong with it, better than protobuf does
        return model
    if _has_constant_weights(graph):
        console.print(f"{model.name} has constant weights; seeded random ones take their place")
        onnx.save(randomize(graph, seed=0), path)
    else:
        path.write_bytes(model.read_bytes())
    return path


def _has_constant_weights(model: onnx.ModelProto) -> bool:
    """Whether the weights of a product are one value repeated, as in graphs published without weights."""
    nodes = model.graph.node
    repeated = {name for node in nodes if node.op_type == "ConstantOfShape" for name in node.output}
    products = [node for node in nodes if node.op_type in ("Conv", "Gemm", "MatMul")]
    return any(node.input[1] in repeated for node in products if len(node.input) > 1)


def _build(path: Path, log: Path, built: Path, shapes: dict[str, list[int]], console: Console) -> list[str]:
    """Build the tuned model as a user would; the command."""
    arguments = ["build", str(path), "--log", str(log), "--target", "host", "-o", str(built)]
    for name, sizes in shapes.items():
        arguments += ["--shape", f"{name}={','.join(map(str, sizes))}"]
    console.print("Building the whole model from the log")
    done = subprocess.run(
        [sys.executable, "-m", "tilefleet", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise TilefleetError(f"the build failed: {_last_line(done.stderr)}")
    return [os.path.relpath(Path(sys.executable).with_name("tilefleet")), *arguments]


def _compare(request: dict[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds a layer by TVM's default, by workload key, and the whole model's figures."""
    default_s: dict[str, float] = {}
    totals: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tilefleet-demo-") as folder:
        file, errors = Path(folder) / "request.json", Path(folder) / "errors"
        file.write_text(json.dumps(request))
        command = [sys.executable, "-m", "bench.demo.compare", str(file)]
        with (
            errors.open("w") as stderr,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as child,
        ):
            assert child.stdout is not None  # asked for above
            deadline = Timer(COMPARE_S, child.kill)
            deadline.start()
            try:
                for step in map(json.loads, child.stdout):
                    if "layer" in step:
                        default_s[step["layer"]] = step["default_s"]
                    else:
                        totals = step
            finally:
                deadline.cancel()
                child.kill()
        if not totals:
            raise TilefleetError(f"the comparison failed: {_last_line(errors.read_text())}")
    return default_s, totals


def _shapes_of(model: Model) -> dict[str, list[int]]:
    """The model's input shapes."""
    return {each.name: each.shape for each in model.inputs}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it printed nothing"])[-1]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the service ends with us
    typer.run(demo)
