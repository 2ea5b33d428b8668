"""What onnxruntime takes for workloads on this machine: ``python -m bench.library_times REQUEST``.

REQUEST is a JSON file ``{target, threads, workloads}`` with a target and workloads in canonical form. A line
of JSON comes out for each: ``{workload, library, version, seconds}``, or ``{workload, why}`` where it cannot.
Calls follow each other, so that weights lie in the caches, unlike those of our trials: that is in the
library's favour.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.timing import limit_threads, pin
from tuner.runtimes.turns import take_turns

LIBRARY = "onnxruntime"


def main() -> None:
    """Answer one request."""
    request = json.loads(Path(sys.argv[1]).read_text())
    limit_threads(request["threads"])
    pin(request["threads"])
    from kernels import target as targets
    from kernels.workload import base as workloads
    from worker.measure.host import host_target

    wanted, here = targets.from_json(request["target"]), host_target()
    if wanted.key != here.key:
        raise SystemExit(f"target {wanted.name} ({wanted.cpu}) is not this machine ({here.cpu})")
    for document in request["workloads"]:
        workload = workloads.from_json(document)
        print(json.dumps({"workload": workload.key, **timed(workload, request["threads"])}), flush=True)


def timed(workload: Any, threads: int) -> dict[str, Any]:
    """``{library, version, seconds}``, seconds a median of turns, or ``{why}`` there are none.

    By one thread the clock is the processor's: what others run on the machine is not in it.
    """
    import numpy as np
    import onnxruntime

    from bench.onnx_layer import onnxruntime_layer
    from bench.qpeers import onnxruntime_qconv
    from kernels.reference import random_inputs
    from kernels.workload.base import NarrowGemm, OfActivations, QConv2d

    if isinstance(workload, OfActivations | NarrowGemm):
        return {"why": f"{LIBRARY} computes {workload.kind} only as part of a model"}
    inputs = random_inputs(workload, np.random.default_rng(0))
    try:
        if isinstance(workload, QConv2d):
            if not workload.scale_length:
                return {"why": f"{LIBRARY} has no such layer with {workload.out_dtype} as result"}
            peer = onnxruntime_qconv(workload, inputs, threads)
        else:
            peer = onnxruntime_layer(workload, inputs, threads)
        turns = take_turns({LIBRARY: peer.run})[LIBRARY]
    except RuntimeError as error:  # the root of onnxruntime's own
        return {"why": str(error).splitlines()[0]}
    seconds = statistics.median(turns.fair(threads))
    return {"library": LIBRARY, "version": onnxruntime.__version__, "seconds": seconds}


if __name__ == "__main__":
    main()
