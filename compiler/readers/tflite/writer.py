"""The tensors of a TFLite file in the ONNX graph that it becomes.

TFLite has images as NHWC, ONNX as NCHW. A tensor of rank 4 is written in either order, FILE or NCHW, and
turned where a node wants the other; all other ranks have the file's order alone. A quantized tensor holds 8
bits, and between two of them the graph computes with real numbers: DequantizeLinear, the operator,
QuantizeLinear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from compiler.ir.checks import ModelError, check_size
from compiler.passes.shapes.evaluate import Uncomputed
from compiler.passes.shapes.folding import evaluate_node
from compiler.readers.tflite.file import Array, Operator, Tensor, TfliteFile
from compiler.readers.tflite.nodes import Nodes, Step
from compiler.readers.tflite.padded import Padded

OPSET = 17
IR_VERSION = 8
FILE, NCHW = "file", "nchw"
TO_NCHW, TO_FILE = (0, 3, 1, 2), (0, 2, 3, 1)
ACTIVATIONS = ("float32", "int8", "uint8", "int16")
PLAIN = ("float32", "bool", "int32", "int64")
"""Types that stand for themselves."""
MOST_FOLDED = 1 << 16
"""Elements of a result that is computed while reading."""
CLAMPS = {
    "RELU": (0.0, math.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


class Writer:
    """Operators are written one after the other; ``model`` is what they add up to."""

    def __init__(self, file: TfliteFile) -> None:
        self.nodes, self.padded = Nodes(), Padded()
        self._file, self._tensors = file, list(file.tensors)
        self._labels = [self.nodes.name(tensor.name) for tensor in file.tensors]
        self._inputs = frozenset(file.inputs)
        self._held: dict[int, Array] = {}
        self._stored: dict[tuple[int, str], str] = {}
        self._real: dict[str, str] = {}
        self.spectra: dict[int, tuple[str, str]] = {}
        for index in file.inputs:
            if file.tensors[index].dtype not in (*ACTIVATIONS, *PLAIN):
                raise ModelError(f"input {self.label(index)!r} is of {file.tensors[index].dtype}")
            self._stored[index, FILE] = self.label(index)

    def tensor(self, index: int) -> Tensor:
        """The tensor as the file describes it; with its real shape where the file leaves that open."""
        return self._tensors[index]

    def label(self, index: int) -> str:
        """The tensor's name, made unique."""
        return self._labels[index]

    def order(self, index: int) -> str:
        """The order of axes in which nodes that care for axes read and write a tensor."""
        return NCHW if len(self.tensor(index).shape) == 4 else FILE

    def constant(self, index: int) -> Array | None:
        """The values of a constant, in the file's order; None for an activation."""
        if index in self._held:
            return self._held[index]
        if index in self._inputs:
            return None
        tensor = self.tensor(index)
        # What has no elements has no bytes in the file either.
        return tensor.values() if tensor.size else np.zeros(tensor.shape, tensor.checked_dtype())

    def hold(self, index: int, value: Array) -> None:
        """Let a tensor be the constant ``value`` from now on."""
        self.nodes.spend(value.nbytes)
        self._held[index] = value

    def fold(self, op: Operator) -> None:
        """Hold what an operator makes of constants alone, as of shapes; the big and the quantized stay."""
        if any(index >= 0 and self.constant(index) is None for index in op.inputs):
            return
        for index in op.outputs:
            places = [(index, order) for order in (FILE, NCHW) if (index, order) in self._stored]
            tensor = self.tensor(index)
            if not places or tensor.size > MOST_FOLDED or tensor.dtype not in PLAIN:
                continue
            name = self.stored(index, FILE)
            nodes, constants = self.nodes.needed([name])
            known = {each.name: numpy_helper.to_array(each) for each in constants}
            try:
                for node in nodes:
                    known[node.output[0]] = evaluate_node(node, known, OPSET)
            except Uncomputed:
                continue
            self.hold(index, known[name].reshape(tensor.shape))
            for order in (FILE, NCHW):
                self._stored.pop((index, order), None)

    def stored(self, index: int, order: str) -> str:
        """The name of the tensor's elements as they are stored, in ``order``."""
        if (index, order) in self._stored:
            return self._stored[index, order]
        constant = self.constant(index)
        if constant is not None:
            turned = constant.transpose(TO_NCHW) if order == NCHW else constant
            self._stored[index, order] = self.nodes.constant(f"{self.label(index)}/constant", turned)
            return self._stored[index, order]
        source = self._stored.get((index, FILE if order == NCHW else NCHW))
        if index in self.spectra:
            raise ModelError(f"it reads the complex numbers {self.label(index)!r}, which is not supported")
        if source is None:
            raise ModelError(f"it reads {self.label(index)!r} before any operator writes that")
        self.write(index, order, source, [self._turn(index, order)], f"{self.label(index)}/{order}")
        return self._stored[index, order]

    def _turn(self, index: int, order: str) -> Step:
        """The step from one order to ``order``."""
        if self.same_in_both(index):
            return self.reshape(self._shape(index, order))
        return "Transpose", [], {"perm": TO_NCHW if order == NCHW else TO_FILE}

    def same_in_both(self, index: int) -> bool:
        """Whether a tensor's elements come one after the other alike in both orders."""
        shape = self.tensor(index).shape
        return len(shape) != 4 or shape[3] == 1 or shape[1] * shape[2] == 1

    def _shape(self, index: int, order: str) -> tuple[int, ...]:
        shape = self.tensor(index).shape
        return tuple(shape[axis] for axis in TO_NCHW) if order == NCHW else shape

    def flat(self, index: int) -> str:
        """The name of the stored elements of a tensor, of some shape, in the file's order."""
        if self.same_in_both(index) and (index, NCHW) in self._stored:
            return self._stored[index, NCHW]
        return self.stored(index, FILE)

    def put_flat(self, index: int, source: str, steps: Sequence[Step] = ()) -> None:
        """Write a tensor from what has all its elements in the file's order, after ``steps``."""
        order = self.order(index) if self.same_in_both(index) else FILE
        self.write(index, order, source, [*steps, self.reshape(self._shape(index, order))])

    def reshape(self, shape: Sequence[int]) -> Step:
        """The step that gives another shape."""
        return "Reshape", [self.nodes.constant("shape", np.asarray(shape, np.int64))], {}

    def real(self, index: int, order: str | None = None) -> str:
        """The name of a tensor as real numbers; in its own order where none is said."""
        return self.dequantized(self.stored(index, order or self.order(index)), index)

    def dequantized(self, stored: str, index: int) -> str:
        """The name of the real numbers that ``stored``, with the type and scale of a tensor, stands for."""
        if self.tensor(index).dtype in PLAIN or index in self._held:
            return stored
        if stored not in self._real:
            if self.tensor(index).dtype == "int16":
                self._real[stored] = self._widened(stored, index)
            else:
                self._real[stored] = self.dequantize(stored, *self.scale_and_zero(index))
        return self._real[stored]

    def scale_and_zero(self, index: int) -> tuple[Array, Array]:
        """The scale and zero point of an activation, scalars."""
        tensor = self.tensor(index)
        if tensor.dtype not in ACTIVATIONS:
            raise ModelError(f"tensor {tensor.name!r} is of {tensor.dtype}, where real numbers are wanted")
        scale, zero = tensor.scale_and_zero()
        if scale.ndim:
            raise ModelError(f"tensor {tensor.name!r} has several scales; only weights may")
        return scale, zero

    def dequantize(self, stored: str, scale: Array, zero: Array, axis: int = 0) -> str:
        """Add a DequantizeLinear of ``stored``, ``axis`` for scales that are a vector; its result's name."""
        names = [self.nodes.constant(f"{stored}/scale", scale), self.nodes.constant(f"{stored}/zero", zero)]
        step: Step = ("DequantizeLinear", names, {"axis": axis} if scale.ndim else {})
        result = self.nodes.name(f"{stored}/real")
        return self.nodes.chain(stored, [step], f"{stored}/dequantize", result)

    def _widened(self, stored: str, index: int) -> str:
        """The real numbers of a tensor of 16 bits: no operator of ONNX's older sets knows such."""
        scale, zero = self.scale_and_zero(index)
        factor = self.nodes.constant(f"{stored}/scale", scale)
        steps: list[Step] = [("Cast", [], {"to": TensorProto.FLOAT}), ("Mul", [factor], {})]
        if zero:
            steps[1:1] = [("Sub", [self._number(index, float(zero))], {})]
        return self.nodes.chain(stored, steps, f"{stored}/dequantize", self.nodes.name(f"{stored}/real"))

    def _narrowed(self, index: int) -> list[Step]:
        """The steps from real numbers to 16 bits."""
        scale, zero = self.scale_and_zero(index)
        factor, low, high = (self._number(index, float(value)) for value in (1 / scale, -32768, 32767))
        shift: list[Step] = [("Add", [self._number(index, float(zero))], {})] if zero else []
        steps: list[Step] = [("Mul", [factor], {}), ("Round", [], {}), *shift, ("Clip", [low, high], {})]
        return [*steps, ("Cast", [], {"to": TensorProto.INT16})]

    def _number(self, index: int, value: float) -> str:
        return self.nodes.constant(f"{self.label(index)}/number", np.asarray(value, np.float32))

    def quantize(self, index: int) -> list[Step]:
        """The steps from real numbers to what a tensor stores."""
        if self.tensor(index).dtype in PLAIN:
            return []
        if self.tensor(index).dtype == "int16":
            return self._narrowed(index)
        scale, zero = self.scale_and_zero(index)
        name = self.label(index)
        names = [self.nodes.constant(f"{name}/scale", scale), self.nodes.constant(f"{name}/zero", zero)]
        return [("QuantizeLinear", names, {})]

    def clamp(self, index: int, kind: str) -> list[Step]:
        """The steps of an activation before ``quantize``; none where a tensor's range clamps as much."""
        if kind == "NONE":
            return []
        if kind not in CLAMPS:
            raise ModelError(f"its fused activation {kind} is not supported")
        low, high = CLAMPS[kind]
        if self.tensor(index).quantized:
            scale, zero = (float(value) for value in self.scale_and_zero(index))
            limits = np.iinfo(self.tensor(index).dtype)
            reached = limits.max if math.isinf(high) else round(high / scale) + zero
            if round(low / scale) + zero <= limits.min and reached >= limits.max:
                return []
        if math.isinf(high):
            return [("Relu", [], {})]
        ends = {"low": np.float32(low), "high": np.float32(high)}
        names = [self.nodes.constant(f"{self.label(index)}/{end}", np.asarray(v)) for end, v in ends.items()]
        return [("Clip", names, {})]

    def compute(
        self, op: Operator, first: str, steps: Sequence[Step], shape: Sequence[int], fused: str = "NONE"
    ) -> None:
        """Write the result of ``op``, by steps from the real numbers ``first`` and its fused activation.

        ``shape`` is the result's in the file's order of axes; the nodes work in the tensor's own.
        """
        index = self.result(op, shape)
        self.write(index, self.order(index), first, self.finished(index, steps, fused))

    def finished(self, index: int, steps: Sequence[Step], fused: str) -> list[Step]:
        """``steps`` to real numbers, then the activation and the quantization."""
        return [*steps, *self.clamp(index, fused), *self.quantize(index)]

    def result(self, op: Operator, shape: Sequence[int]) -> int:
        """The number of the one result of ``op``; raises ModelError where the file says another shape."""
        if len(op.outputs) != 1:
            raise ModelError(f"it has {len(op.outputs)} results instead of one")
        index = op.outputs[0]
        tensor = self.tensor(index)
        if tensor.dtype not in (*ACTIVATIONS, *PLAIN):
            raise ModelError(f"its result {tensor.name!r} is of {tensor.dtype}, which is not supported")
        self.agree(index, shape)
        written = any((index, order) in self._stored for order in (FILE, NCHW))
        if written or tensor.raw is not None or index in self._held:
            raise ModelError(f"its result {tensor.name!r} is a constant, an input, or written twice")
        return index

    def agree(self, index: int, shape: Sequence[int], sure: bool = False) -> None:
        """Let a tensor have ``shape``; raises ModelError where the file has another, unless ``sure``."""
        tensor = self.tensor(index)
        if sure or (tensor.open and len(tensor.shape) == len(shape)):
            check_size(8 * math.prod(shape), f"tensor {tensor.name!r}", shape)
            self._tensors[index] = replace(tensor, shape=tuple(int(extent) for extent in shape))
        elif tensor.shape != tuple(shape):
            raise ModelError(f"its result is {list(shape)}, but the file says {list(tensor.shape)}")

    def write(
        self, index: int, order: str, first: str, steps: Sequence[Step], node: str | None = None
    ) -> None:
        """Write a tensor as it is stored in ``order``, by steps from ``first``; ``node`` names the first."""
        label = self.label(index)
        name = label if order == FILE else self.nodes.name(f"{label}/nchw")
        self.nodes.chain(first, steps or [("Identity", [], {})], node or label, name)
        self._stored[index, order] = name

    def model(self) -> ModelProto:
        """The ONNX model; its inputs and outputs are called and laid out as in the file."""
        if len(set(self._file.inputs)) != len(self._file.inputs):
            raise ModelError("an input of the model is there twice")
        outputs = []
        for index in self._file.outputs:
            value = self.constant(index)
            if value is not None and self._stored.get((index, FILE)) != self.label(index):
                name = self.nodes.constant(f"{self.label(index)}/constant", value)
                self.write(index, FILE, name, [])
            outputs.append(self.stored(index, FILE))
        nodes, constants = self.nodes.needed(outputs)
        graph = helper.make_graph(
            nodes,
            "main",
            [self._described(index) for index in self._file.inputs],
            [self._described(index) for index in self._file.outputs],
            constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    def nested(self) -> GraphProto:
        """The graph inside an operator; a result may be an input or a constant."""
        outputs = [self.stored(index, FILE) for index in self._file.outputs]
        nodes, constants = self.nodes.needed(outputs)
        inputs = [self._described(index) for index in self._file.inputs]
        results = [helper.make_value_info(name, TypeProto()) for name in outputs]
        return helper.make_graph(nodes, "nested", inputs, results, constants)

    def _described(self, index: int) -> ValueInfoProto:
        tensor = self.tensor(index)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
        return helper.make_tensor_value_info(self.label(index), kind, tensor.shape)
