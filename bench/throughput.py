"""How many candidates a minute go from config to record, and how busy the board is meanwhile.

python -m bench.throughput --trials 200 --json FILE
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.throughput", description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    report = run(arguments.trials)
    print(
        f"{report['trials']} trials in {report['elapsed_s']:.1f} s on {report['cores']} cores: "
        f"{report['per_minute_core']:.0f} candidates a minute a core, "
        f"board busy {report['board_busy']:.0%} of the time, {report['failed']} failed"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def run(trials: int) -> dict[str, Any]:
    """Random search on SqueezeNet's layers, after a few trials that start everything."""
    import onnx

    from bench.models import MAKERS
    from bench.service import run_job, service
    from kernels.workload.base import Conv2d, to_json

    layer = Conv2d(1, 64, 28, 28, 128, 3, 3, pad=(1, 1, 1, 1))
    with service() as client, TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        run_job(client, workload=to_json(layer), strategy="random", trials=8)
        before = client.boards()[0].busy_s
        path = Path(folder) / "squeezenet.onnx"
        onnx.save(MAKERS["squeezenet"](0), str(path))
        job = run_job(client, model=client.upload(path).hash, strategy="random", trials=trials)
        busy = client.boards()[0].busy_s - before
    elapsed = job.elapsed_s or 0.0
    cores = len(os.sched_getaffinity(0))
    return {
        "trials": job.trials,
        "failed": job.failed,
        "elapsed_s": elapsed,
        "cores": cores,
        "per_minute_core": 60 * job.trials / elapsed / cores,
        "board_busy": busy / elapsed,
    }


if __name__ == "__main__":
    main()
