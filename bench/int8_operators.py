"""Integer operators against onnxruntime's on one thread, in turns: python -m bench.int8_operators

Shapes are of ResNet-50 and Inception-v3, channels last on both sides. Prints for each the microseconds of
ours, onnxruntime's time over ours (processor time, medians; the 10th and 90th percentile of the turns), and
how much of the results differs by a quantum.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench import timing

if TYPE_CHECKING:
    from kernels.kernel import Array
    from kernels.qoperator import QOperator
    from kernels.quantization import Quantization

MIN_S, ROUNDS = 0.005, 31


@dataclass(frozen=True)
class Case:
    """One of our operators beside the node of onnxruntime's that does the same.

    ``shapes`` are its inputs', ``inputs`` and ``out`` say how the tensors are quantized.
    """

    name: str
    operator: QOperator
    shapes: Sequence[tuple[int, ...]]
    inputs: Sequence[Quantization]
    out: Quantization
    op: str
    attributes: dict[str, Any]


def main() -> None:
    """Run the bench and print its figures."""
    timing.limit_threads(1)
    timing.pin(1)
    for case in _cases():
        print(_line(case), flush=True)


def _cases() -> list[Case]:
    import numpy as np

    from kernels.pool import Pool
    from kernels.qadd import QAdd
    from kernels.qconcat import QConcat
    from kernels.qlookup import QLookup
    from kernels.qmul import QMul
    from kernels.qpool import QPool
    from kernels.quantization import Quantization

    a, b = Quantization("uint8", 0.0213, 113), Quantization("uint8", 0.0517, 7)
    out, unit = Quantization("uint8", 0.0617, 10), Quantization("uint8", 1 / 256)
    cases = []
    for channels, side in ((256, 56), (512, 28), (1024, 14), (2048, 7)):
        shape = (1, channels, side, side)
        name = f"add {side}x{side}x{channels}"
        cases.append(Case(name, QAdd.of(shape, a, b, out), [shape] * 2, [a, b], out, "QLinearAdd", {}))
    for channels, side in ((96, 56), (480, 14)):
        shape, planes = (1, channels, side, side), (1, channels, 1, 1)
        name = f"multiply planes {side}x{side}x{channels}"
        product = QMul.of(shape, b, unit, a, None, planes)
        cases.append(Case(name, product, [shape, planes], [b, unit], a, "QLinearMul", {}))
    shape = (1, 256, 56, 56)
    product = QMul.of(shape, a, b, out)
    cases.append(Case("multiply 56x56x256", product, [shape] * 2, [a, b], out, "QLinearMul", {}))
    sigmoid = QLookup.of(shape, a, unit, lambda real: 1 / (1 + np.exp(-real)))
    cases.append(Case("sigmoid 56x56x256", sigmoid, [shape], [a], unit, "QLinearSigmoid", {}))
    last = {"channels_last": 1}
    for name, op, pool, to, attributes in (
        (
            "max 3x3/2 112x112x64",
            "NhwcMaxPool",
            Pool("max", (1, 64, 112, 112), (56, 56), (3, 3), (2, 2), (1, 1)),
            a,
            {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4},
        ),
        (
            "global average 7x7x2048",
            "QLinearGlobalAveragePool",
            Pool("average", (1, 2048, 7, 7), (1, 1), (7, 7), (1, 1), (0, 0)),
            out,
            last,
        ),
        (
            "average 3x3 35x35x288",
            "QLinearAveragePool",
            Pool("average", (1, 288, 35, 35), (35, 35), (3, 3), (1, 1), (1, 1)),
            out,
            {"kernel_shape": [3, 3], "pads": [1] * 4, **last},
        ),
    ):
        cases.append(Case(name, QPool.of(pool, a, to), [pool.shape], [a], to, op, attributes))
    shapes = tuple((1, channels, 35, 35) for channels in (64, 64, 96, 64))
    concat = QConcat(shapes, 1, "uint8")
    cases.append(Case("concat 35x35x288", concat, shapes, [a] * 4, a, "QLinearConcat", {"axis": 3}))
    return cases


def _line(case: Case) -> str:
    import numpy as np
    import tvm

    from kernels.compile import compile_module
    from kernels.qoperator import stored
    from kernels.target import CATALOGUE

    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 256, stored(shape)).astype(np.uint8) for shape in case.shapes]
    result = np.zeros(stored(case.operator.out_shape), case.operator.result_dtype)
    target = CATALOGUE["x86-avx2"]
    function = compile_module(case.operator.build(target, 1, "main"), target)["main"]
    arrays = [*inputs, *case.operator.constants(), result]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    session, theirs = _onnxruntime(case, inputs, result)
    turns = timing.take_turns({"ours": lambda: function(*tensors), "onnxruntime": session}, ROUNDS, MIN_S)
    off = np.abs(theirs().astype(int) - tensors[-1].numpy())
    if off.max() > 1:
        raise SystemExit(f"bench.int8_operators: {case.name} differs by {off.max()} quanta")
    ratio, low, high = timing.ratio(turns["onnxruntime"].cpu, turns["ours"].cpu)
    ours = statistics.median(turns["ours"].cpu) * 1e6
    return f"{case.name:28}{ours:8.1f} us  {ratio:6.2f} ({low:.2f} to {high:.2f})  {(off > 0).mean():.3%} off"


def _onnxruntime(
    case: Case, inputs: list[Array], result: Array
) -> tuple[Callable[[], object], Callable[[], Array]]:
    """What runs the node, and what gives its result."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    from bench.peers import onnx_session

    codes = {**{f"x{at}": code for at, code in enumerate(case.inputs)}, "y": case.out}
    scales = {f"{name}_scale": np.float32(code.scale) for name, code in codes.items()}
    zeros = {f"{name}_zero": np.array(code.zero, code.dtype) for name, code in codes.items()}
    triples = [[name, f"{name}_scale", f"{name}_zero"] for name in codes]
    # A concat has its result's scale first, other operators last, and a maximum none at all.
    words = [word for triple in triples[:-1] for word in triple]
    words = [*triples[-1][1:], *words] if case.op == "QLinearConcat" else [*words, *triples[-1][1:]]
    if case.op == "NhwcMaxPool":
        words = ["x0"]
    node = helper.make_node(case.op, words, ["y"], domain="com.microsoft", **case.attributes)
    values = [
        helper.make_tensor_value_info(f"x{at}", TensorProto.UINT8, array.shape)
        for at, array in enumerate(inputs)
    ]
    graph = helper.make_graph(
        [node],
        "operator",
        values,
        [helper.make_tensor_value_info("y", TensorProto.UINT8, result.shape)],
        [
            numpy_helper.from_array(np.asarray(v), name)
            for name, v in (scales | zeros).items()
            if name in words
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnx_session(model.SerializeToString(), 1)
    output = onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(result))
    binding = session.io_binding()  # type: ignore[attr-defined]  # onnxruntime ships no types
    for at, array in enumerate(inputs):
        binding.bind_ortvalue_input(f"x{at}", onnxruntime.OrtValue.ortvalue_from_numpy(array))
    binding.bind_ortvalue_output("y", output)
    run = session.run_with_iobinding  # type: ignore[attr-defined]
    return lambda: run(binding), output.numpy


if __name__ == "__main__":
    main()
