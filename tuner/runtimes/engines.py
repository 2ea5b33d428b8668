"""The runtimes that a model is run by: each loads a file and computes its outputs for the same inputs.

Needs NumPy and nothing else of this project, and imports a runtime only when that is asked for: so a process
has what it costs, and an emulated Python runs it as well. What file a runtime is given: ``prepare.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Engine:
    """``run`` computes once; ``outputs`` computes and gives what came out, in the model's order."""

    run: Callable[[], object]
    outputs: Callable[[], Sequence[Array]]


class Unable(Exception):
    """A runtime cannot compute a model; the message says why."""


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """The arrays of an .npz file by ``names``: it has them in their order, whatever they are called there."""
    with np.load(path) as file:
        return dict(zip(names, (file[each] for each in file.files), strict=True))


def onnx_session(model: bytes | str, threads: int, optimised: bool = True) -> Any:
    """An onnxruntime CPU session with all its optimisations, or none, and exactly ``threads`` threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def onnxruntime(path: Path, feeds: Mapping[str, Array], threads: int) -> Engine:
    """onnxruntime with its own optimisations."""
    session: Any = onnx_session(str(path), threads)

    def run() -> list[Array]:
        found: list[Array] = session.run(None, feeds)
        return found

    return Engine(run, run)


def litert(path: Path, feeds: Mapping[str, Array], threads: int) -> Engine:
    """LiteRT with XNNPACK."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=threads)
    for detail in interpreter.get_input_details():
        if tuple(detail["shape"]) != feeds[detail["name"]].shape:
            interpreter.resize_tensor_input(detail["index"], feeds[detail["name"]].shape)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    details = interpreter.get_output_details()

    def outputs() -> list[Array]:
        interpreter.invoke()
        return [interpreter.get_tensor(each["index"]) for each in details]

    return Engine(interpreter.invoke, outputs)


def openvino(path: Path, feeds: Mapping[str, Array], threads: int) -> Engine:
    """OpenVINO, floats of 32 bits as for all others.

    Where weights are whole numbers that become floats it would round the data to bytes, too, which no other
    does: a sentence encoder took half the time so, and was off by 0.008 instead of 4e-7.
    """
    import openvino as library

    core = library.Core()
    settings = {
        "INFERENCE_NUM_THREADS": f"{threads}",
        "NUM_STREAMS": "1",
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    }
    request = core.compile_model(core.read_model(str(path)), "CPU", settings).create_infer_request()
    for port in request.model_inputs:
        name = next((each for each in port.get_names() if each in feeds), None)
        if name is None:
            raise Unable(f"it calls an input {sorted(port.get_names())}")
        request.set_tensor(port, library.Tensor(np.ascontiguousarray(feeds[name]), shared_memory=False))

    def outputs() -> list[Array]:
        request.infer()
        return [request.get_output_tensor(index).data for index in range(len(request.model_outputs))]

    return Engine(request.infer, outputs)


def ncnn(path: Path, feeds: Mapping[str, Array], threads: int) -> Engine:
    """ncnn, floats of 32 bits; ``path`` is the ``.param`` file, beside which is the ``.bin``."""
    import ncnn as library

    net = library.Net()
    net.opt.num_threads = threads
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    if net.load_param(str(path)) or net.load_model(str(path.with_suffix(".bin"))):
        raise Unable("it does not load what its converter wrote")
    tensors = [
        library.Mat(np.ascontiguousarray(value[0] if value.ndim > 1 else value)) for value in feeds.values()
    ]
    inputs, names = net.input_names(), net.output_names()

    def outputs() -> list[Array]:
        with net.create_extractor() as extractor:
            for name, tensor in zip(inputs, tensors, strict=True):
                extractor.input(name, tensor)
            found = [extractor.extract(name) for name in names]
        if any(code for code, _ in found):
            raise Unable("it cannot compute it")
        return [np.array(value) for _, value in found]

    return Engine(outputs, outputs)


def mnn(path: Path, feeds: Mapping[str, Array], threads: int) -> Engine:
    """MNN, floats of 32 bits."""
    import MNN as library

    interpreter = library.Interpreter(str(path))
    session = interpreter.createSession({"backend": "CPU", "precision": "high", "numThread": threads})
    kinds = {"float32": library.Halide_Type_Float, "int32": library.Halide_Type_Int}
    kinds |= {"uint8": library.Halide_Type_Uint8}
    for name, tensor in interpreter.getSessionInputAll(session).items():
        value = feeds[name].astype(np.int32) if feeds[name].dtype == np.int64 else feeds[name]
        if value.dtype.name not in kinds:
            raise Unable(f"input {name!r} is {value.dtype}")
        # Plain order, whatever the model's own: the shape is the model's.
        order = library.Tensor_DimensionType_Caffe
        given = library.Tensor(value.shape, kinds[value.dtype.name], np.ascontiguousarray(value), order)
        tensor.copyFrom(given)

    def run() -> None:
        if interpreter.runSession(session):
            raise Unable("it cannot compute it")

    def outputs() -> list[Array]:
        run()
        found = []
        for tensor in interpreter.getSessionOutputAll(session).values():
            shape = tensor.getShape()
            kind = np.float32 if tensor.getDataType() == library.Halide_Type_Float else np.int32
            order = library.Tensor_DimensionType_Caffe
            into = library.Tensor(shape, tensor.getDataType(), np.zeros(shape, kind), order)
            tensor.copyToHostTensor(into)
            found.append(np.array(into.getNumpyData()).reshape(shape))
        return found

    return Engine(run, outputs)


def tvm(path: Path, feeds: Mapping[str, Array], threads: int) -> Engine:
    """A built module in TVM's virtual machine; ``threads`` are those that it was built for."""
    import tvm as library
    from tvm import relax

    main = relax.VirtualMachine(library.runtime.load_module(str(path)), library.cpu())["main"]
    arguments = [library.runtime.tensor(value) for value in feeds.values()]

    def outputs() -> list[Array]:
        result = main(*arguments)
        return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]

    return Engine(lambda: main(*arguments), outputs)


def library(path: Path, feeds: Mapping[str, Array], threads: int) -> Engine:
    """A C library of ours, called ``net``."""
    from tuner.clibrary.loaded import Loaded

    loaded, inputs = Loaded(path, "net", threads=threads), list(feeds.values())
    return Engine(loaded.caller(inputs), lambda: loaded.run(inputs))


LOAD: dict[str, Callable[[Path, Mapping[str, Array], int], Engine]] = {
    "onnxruntime": onnxruntime,
    "litert": litert,
    "openvino": openvino,
    "ncnn": ncnn,
    "mnn": mnn,
    "tvm": tvm,
    "library": library,
}
