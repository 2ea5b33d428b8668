"""bench.model for several models and numbers of threads, one after the other.

python -m bench.model_table --models resnet18,vgg16 --threads 1,4 --trials-a-layer 60 --json FILE

Each model and number of threads is a process of its own, as libraries read theirs when they start. FILE is
written after each; called again with the same settings, the bench does what is missing. ``python -m
bench.report FILE`` makes a table of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import journal
from kernels.numerics import Numerics

MODELS = "squeezenet,resnet18,inception_v1,inception_v2,resnet50,resnet152,vgg16,mobilenet_v2"
SETTINGS = ("numerics", "trials_a_layer", "budget_s", "strategy", "seed")


def main() -> None:
    """Run what is missing, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.model_table", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=MODELS, help=f"ONNX files or names (default {MODELS})")
    parser.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}", help="default: 1 and all")
    parser.add_argument("--trials-a-layer", type=int, default=60)
    parser.add_argument("--budget-s", type=float, default=600, help="seconds of tuning a model (default 600)")
    parser.add_argument("--numerics", type=Numerics, choices=list(Numerics), default=Numerics.RELAXED)
    parser.add_argument("--strategy", default="model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", type=Path, required=True, help="write all figures here")
    arguments = parser.parse_args()
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    try:
        report = journal.opened(arguments.json, "model_table", settings)
    except ValueError as error:
        parser.error(str(error))
    run(arguments, settings, report)


def run(arguments: argparse.Namespace, settings: dict[str, Any], report: dict[str, Any]) -> None:
    """Every model by every number of threads that the report does not have yet; SystemExit if one failed."""
    rows = report.setdefault("rows", [])
    done = {(row["model"], row["threads"]) for row in rows}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    failed = []
    for model in arguments.models.split(","):
        for threads in map(int, arguments.threads.split(",")):
            if (model, threads) in done:
                continue
            with TemporaryDirectory(prefix="tilefleet-bench-") as folder:
                path = Path(folder) / "row.json"
                command = [sys.executable, "-m", "bench.model", f"--model={model}", f"--threads={threads}"]
                command += [*options, f"--rounds={arguments.rounds}", f"--json={path}"]
                if subprocess.run(command, check=False).returncode:
                    failed.append(f"{model} with {threads} thread(s)")
                    continue
                rows.append(json.loads(path.read_text()))
            journal.save(arguments.json, report)
    if failed:
        raise SystemExit(f"bench.model_table: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
