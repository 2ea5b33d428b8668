"""Whole TFLite models: against LiteRT, and what is found to tune in them."""

from collections import Counter

import numpy as np
import onnx
import pytest
import tvm
from tflite_compare import assert_same, by_litert, by_onnxruntime, inputs_of, operators
from tvm import relax

from bench.partition_reference import evaluate
from bench.tflite_models import TYPES, VALID, Maker, branches, mobilenet
from compiler.intake.extract import extract
from compiler.ir.own_nodes import OPERATOR, PRODUCT
from compiler.load import load_partition
from compiler.readers.tflite.convert import to_onnx
from kernels.operators.int8.mul import QMul
from kernels.workload.base import Conv2d, Gemm, QConv2d
from tuner.backend.apply import build_model
from worker.measure.host import host_target


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("network", [mobilenet, branches])
def test_network(network, dtype):
    """A result that rounds the other way in one layer may move the next by a quantum more."""
    model = assert_same(network(dtype), quanta=2)
    kinds = operators(model)
    assert "Pad" not in kinds
    # The image is turned once, and a result of rank 4 and what is flattened back.
    assert kinds.count("Transpose") == {mobilenet: 1, branches: 3}[network]


def test_quantized_model_is_in_qdq_form():
    """Every 8-bit tensor is written by QuantizeLinear, or moved as it is, and read by DequantizeLinear."""
    model = assert_same(branches("int8"), quanta=2)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    types = {value.name: value.type.tensor_type.elem_type for value in inferred.graph.value_info}
    types |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    quanta = {onnx.TensorProto.INT8, onnx.TensorProto.INT32}
    for node in model.graph.node:
        if node.op_type not in ("Transpose", "Reshape", "DequantizeLinear", "QuantizeLinear"):
            assert not quanta & {types.get(name) for name in (*node.input, *node.output)}
    bias = next(tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.INT32)
    reader = next(node for node in model.graph.node if bias.name in node.input)
    assert reader.op_type == "DequantizeLinear"


def test_inputs_and_outputs_are_as_in_the_file(tmp_path):
    make = Maker("uint8")
    data = make.input((1, 9, 8, 3), name="serving_default_input:0")
    path = tmp_path / "named.tflite"
    path.write_bytes(make.file(make.convolution(data, 4, name="logits")))
    found = extract(path)
    assert [(value.name, value.shape, value.dtype) for value in found.inputs] == [
        ("serving_default_input:0", (1, 9, 8, 3), "uint8")
    ]


def test_what_is_tuned_in_a_float_model(tmp_path):
    path = tmp_path / "mobilenet.tflite"
    path.write_bytes(mobilenet("float32"))
    found = extract(path)
    assert not found.not_tunable
    kinds = [type(operator.workload) for operator in found.operators for _ in operator.nodes]
    assert (kinds.count(Conv2d), kinds.count(Gemm)) == (11, 1)
    stem = found.operators[0]
    assert stem.nodes == (("stem", "stem/Clip"),)
    assert (stem.workload.in_h, stem.workload.in_c, stem.workload.pad) == (32, 3, (0, 0, 1, 1))
    assert stem.workload.epilogue.clamp == (0.0, 6.0)
    workloads = [operator.workload for operator in found.operators]
    depthwise = [each for each in workloads if isinstance(each, Conv2d) and each.groups > 1]
    assert {(each.stride, each.pad) for each in depthwise} == {((1, 1), (1, 1, 1, 1)), ((2, 2), (0, 0, 1, 1))}
    assert sum(each.epilogue.residual for each in workloads) == 2


def test_options_and_operator_codes_as_other_writers_leave_them_out():
    make = Maker("int8")
    value = make.convolution(make.input((1, 5, 5, 4)), 4)
    value = make.operator("ADD", [value, value], make.shape(value), (-6.0, 6.0))
    make.graph.operators[1].builtinOptions = None
    for code in make.model.operatorCodes:
        code.deprecatedBuiltinCode = 0
    assert "Conv" in operators(assert_same(make.file(value)))


def test_the_same_name_twice():
    make = Maker("float32")
    value = make.convolution(make.input((1, 5, 5, 2), name="a"), 3, name="a")
    assert_same(make.file(make.convolution(value, 3, padding=VALID)))


def test_float_data_with_quantized_weights():
    """Weights that are merely stored with 8 bits are real numbers here; LiteRT quantizes the data as well."""
    make = Maker("int8")
    value = make.convolution(make.input((1, 6, 6, 3)), 4)
    for tensor in (make.graph.tensors[0], make.graph.tensors[value]):
        tensor.type, tensor.quantization = TYPES["float32"], None
    bias = make.tensor((4,), "float32", values=make.random.normal(size=4))
    make.graph.operators[0].inputs[2] = bias
    file = make.file(value)
    feed = inputs_of(file)
    wanted, found = by_litert(file, feed)["y"], by_onnxruntime(to_onnx(file), feed)["y"]
    assert np.abs(found - wanted).max() <= 0.03 * np.abs(wanted).max()


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_built_model(tmp_path, dtype):
    """By the analysis's configs, for this machine, against LiteRT and the integer reference."""
    path, data = tmp_path / "mobilenet.tflite", mobilenet(dtype)
    path.write_bytes(data)
    executable, manifest = build_model(path, {}, host_target())
    assert manifest.count("analysis") == 12
    feed = inputs_of(data)
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(feed["x"])).numpy()
    off = np.abs(result.astype(np.float64) - by_litert(data, feed)["y"]).max()
    assert off <= (1e-5 if dtype == "float32" else 2)
    if dtype == "uint8":
        # All but the softmax is integers, and that one rounds alike but for ties.
        assert np.abs(result.astype(int) - evaluate(load_partition(path), feed)["y"]).max() <= 1


def test_what_is_left_of_a_quantized_model(tmp_path):
    """Products and sums of integers, a pool; only the softmax computes with floats."""
    path = tmp_path / "mobilenet.tflite"
    path.write_bytes(mobilenet("int8"))
    partition = load_partition(path)
    assert not partition.not_tunable
    assert {type(product.workload) for product in partition.products} == {QConv2d}
    kinds = Counter(node.op_type for node in partition.graph.nodes)
    assert (kinds.pop(PRODUCT), kinds.pop(OPERATOR)) == (12, 3)
    assert set(kinds) == {"Transpose", "Reshape", "DequantizeLinear", "Softmax", "QuantizeLinear"}
    stem = partition.products[0].workload
    assert (stem.data_dtype, stem.weight_dtype, stem.out_dtype, stem.data_zero) == ("int8", "int8", "int8", 0)


def test_a_quantized_gate_is_integers(tmp_path):
    """Between the model's own borders nothing computes with floats, and the build is exact."""
    path, data = tmp_path / "branches.tflite", branches("int8")
    path.write_bytes(data)
    partition = load_partition(path)
    kinds = {node.op_type for node in partition.graph.nodes}
    assert kinds == {PRODUCT, OPERATOR, "Transpose", "Reshape"}
    (gate,) = (operator for operator in partition.operators if isinstance(operator.what, QMul))
    assert gate.what.second == (1, 24, 1, 1) != gate.what.shape
    executable, _ = build_model(path, {}, host_target())
    feed = inputs_of(data)
    results = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(feed["x"]))
    wanted = evaluate(partition, feed)
    for name, result in zip(partition.graph.outputs, results, strict=True):
        assert np.array_equal(result.numpy(), wanted[name])
