"""The demo's own measuring, in a process of its own that is pinned to one core: TVM's default lowering of
every layer, and the whole model by TVM's default, tuned, and by onnxruntime, in turns.

Called as ``python -m bench.demo.compare REQUEST`` (a JSON file); a line of JSON comes out for every step.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.timing import in_turns, pin
from tuner.runtimes.turns import take_turns

SLOW_S = 3.0
"""A call longer than this is not repeated."""


def say(**step: Any) -> None:
    """Report a step to the demo."""
    print(json.dumps(step), flush=True)


def main() -> None:
    """Answer one request: ``{model, shapes, tuned, target, workloads}``."""
    request = json.loads(Path(sys.argv[1]).read_text())
    pin(1)
    from kernels import target as targets
    from kernels.workload import base as workloads

    target = targets.from_json(request["target"])
    for value in request["workloads"]:
        workload = workloads.from_json(value)
        say(layer=workload.key, default_s=default_layer_s(workload, target))
    say(**whole_model(request, target))


def default_layer_s(workload: Any, target: Any) -> float:
    """Seconds a call of ``workload`` as TVM's default pipeline lowers its Relax operators."""
    import numpy as np
    import tvm
    from tvm import relax

    from kernels.reference import random_inputs

    inputs = random_inputs(workload, np.random.default_rng(0))
    module = relax.build(relax_of(workload), target=tvm.target.Target(target.tvm))
    run = relax.VirtualMachine(module, tvm.cpu())["main"]
    arguments = [tvm.runtime.tensor(array) for array in inputs]
    return _median_s(lambda: run(*arguments))


def relax_of(workload: Any) -> Any:
    """A module whose ``main`` is ``workload`` in plain Relax operators, all its inputs as parameters."""
    from tvm import relax

    from kernels.workload.base import Conv2d
    from tuner.backend.lowered import finished

    is_conv, epilogue = isinstance(workload, Conv2d), workload.epilogue

    def parameter(name: str, shape: tuple[int, ...]) -> Any:
        return relax.Var(name, relax.TensorType(shape, "float32"))

    parameters = [parameter("data", workload.data_shape), parameter("weights", workload.weight_shape)]
    if epilogue.bias:
        parameters.append(parameter("bias", (workload.bias_length,)))
    if epilogue.slope:
        parameters.append(parameter("slope", (workload.bias_length,)))
    if epilogue.residual:
        parameters.append(parameter("residual", workload.out_shape))
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        data, weights, *rest = parameters
        with builder.dataflow():
            if is_conv:
                attributes = [list(workload.stride), list(workload.pad), list(workload.dilation)]
                value = relax.op.nn.conv2d(data, weights, *attributes, workload.groups)
            else:
                value = relax.op.matmul(data, weights)
            given = iter(rest)
            has = (epilogue.bias, epilogue.slope, epilogue.residual)
            value = finished(workload, value, *(next(given) if each else None for each in has))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    return builder.finalize()


def whole_model(request: dict[str, Any], target: Any) -> dict[str, float]:
    """Median ms of one inference by each."""
    import numpy as np
    import tvm
    from tvm import relax

    from tuner.backend.apply import build_default
    from tuner.runtimes.engines import onnx_session

    session: Any = onnx_session(request["model"], 1)
    random, feed = np.random.default_rng(0), {}
    for each in session.get_inputs():
        shape = request["shapes"][each.name]
        feed[each.name] = random.standard_normal(shape).astype(np.float32)
    arguments = [tvm.runtime.tensor(array) for array in feed.values()]
    default = relax.VirtualMachine(build_default(request["model"], target, request["shapes"]), tvm.cpu())
    tuned = relax.VirtualMachine(tvm.runtime.load_module(request["tuned"]), tvm.cpu())

    calls: dict[str, Callable[[], Any]] = {
        "default": lambda: default["main"](*arguments),
        "tuned": lambda: tuned["main"](*arguments),
        "onnxruntime": lambda: session.run(None, feed),
    }
    start = time.perf_counter()
    calls["default"]()
    slow = time.perf_counter() - start > SLOW_S
    seconds = {name: turns.fair(1) for name, turns in take_turns(calls, rounds=1 if slow else 3).items()}
    del calls["default"]
    for name, turns in take_turns(calls, rounds=21).items():
        seconds[name] += turns.fair(1)
    return {f"{name}_ms": statistics.median(values) * 1e3 for name, values in seconds.items()}


def _median_s(call: Callable[[], Any]) -> float:
    """Median of five calls after a warm-up, of one where a call is slow."""
    start = time.perf_counter()
    call()
    if (first := time.perf_counter() - start) > SLOW_S:
        return first
    return statistics.median(in_turns({"": call}, rounds=5, min_s=0.0)[""])


if __name__ == "__main__":
    main()
