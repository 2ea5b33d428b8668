"""A TFLite file run by LiteRT, and the ONNX model that it becomes by onnxruntime, on the same inputs."""

from __future__ import annotations

import tempfile

import numpy as np
import onnx
import tvm
from ai_edge_litert.interpreter import Interpreter
from tvm import relax

from bench.partition_reference import evaluate
from compiler.ir.checks import check_structure, fix_input_shapes
from compiler.ir.own_nodes import FRAMES, INTERLEAVE
from compiler.passes.compilation import Compilation, run
from compiler.passes.pipeline import PRODUCTS
from compiler.readers.tflite.convert import to_onnx
from tuner.backend.apply import build_model
from tuner.runtimes.engines import onnx_session
from worker.measure.host import host_target


def inputs_of(data: bytes, seed: int = 0):
    """Random inputs by name: normal floats, or quanta of the whole range."""
    random = np.random.default_rng(seed)
    result = {}
    for detail in Interpreter(model_content=data).get_input_details():
        dtype, shape = np.dtype(detail["dtype"]), detail["shape"]
        if dtype.kind == "f":
            result[detail["name"]] = random.normal(size=shape).astype(dtype)
        else:
            kind = np.iinfo(dtype)
            result[detail["name"]] = random.integers(kind.min, kind.max + 1, shape).astype(dtype)
    return result


def by_litert(data: bytes, feed):
    """The outputs by name."""
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feed[detail["name"]])
    interpreter.invoke()
    return {each["name"]: interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()}


def by_onnxruntime(model: onnx.ModelProto, feed):
    """The outputs by name, every node computed as it stands: fused kernels of 8 bits may saturate."""
    session = onnx_session(model.SerializeToString(), 1, optimised=False)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def by_us(model: onnx.ModelProto, feed):
    """The outputs by name, of a module that is built for this machine."""
    return built(model)(feed)


def built(model: onnx.ModelProto):
    """A module that is built for this machine, as a function of inputs by name."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model.SerializeToString())
        file.flush()
        executable, _ = build_model(file.name, {}, host_target())
    machine = relax.VirtualMachine(executable, tvm.cpu())

    def run(feed):
        result = machine["main"](*(tvm.runtime.tensor(feed[value.name]) for value in model.graph.input))
        results = [result] if hasattr(result, "numpy") else result
        return {o.name: each.numpy() for o, each in zip(model.graph.output, results, strict=True)}

    return run


def assert_same(data: bytes, quanta: int = 1) -> onnx.ModelProto:
    """Compare: floats within 1e-4, integers within so many ``quanta``. Returns the ONNX model.

    What LiteRT computes is compared with onnxruntime on the ONNX model and with the references of its
    partition, or what a build of it computes. Integers must take more than a few values, else they would be
    alike whatever is computed.
    """
    model = to_onnx(data)
    onnx.checker.check_model(model, full_check=True)
    check_structure(model)
    fix_input_shapes(model, {})
    feed = inputs_of(data)
    wanted, found = by_litert(data, feed), by_onnxruntime(model, feed)
    assert wanted.keys() == found.keys()
    parts = run(PRODUCTS, Compilation(model)).partition
    assert parts is not None
    if {node.op_type for node in parts.graph.nodes} & {FRAMES, INTERLEAVE}:
        partitioned = by_us(model, feed)  # these have no reference here
    else:
        partitioned = evaluate(parts, feed)
    for name, value in wanted.items():
        for each in (found[name], partitioned[name]):
            assert (each.shape, each.dtype) == (value.shape, value.dtype)
            off = np.abs(each.astype(np.float64) - value.astype(np.float64)).max()
            assert off <= (1e-4 if value.dtype.kind == "f" else quanta)
        if value.dtype.kind != "f":
            assert len(np.unique(value)) >= min(8, value.size // 4)
    return model


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]
