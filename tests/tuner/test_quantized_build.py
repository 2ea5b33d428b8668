"""Partitions made by hand, built and compared with the integer references to the last bit."""

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from compiler.ir.graph import OnnxGraph, TensorInfo
from compiler.ir.own_nodes import OPERATOR, PRODUCT
from compiler.ir.partition import Partition, Product, QuantizedOperator
from kernels import registry
from kernels.int8.quantization import Quantization
from kernels.int8.reference import fixed_point, reference
from kernels.operators.int8.add import QAdd
from kernels.operators.int8.concat import QConcat
from kernels.operators.int8.lookup import QLookup
from kernels.operators.int8.mul import QMul
from kernels.operators.int8.pool import QPool
from kernels.operators.pool import Pool
from kernels.target import CATALOGUE
from kernels.workload.qconv2d import QConv2d
from tuner.backend.apply import build_partition, plan_of
from tuner.backend.manifest import describe
from tuner.log.record import Record

TARGET = CATALOGUE["x86-avx2"]
pytestmark = pytest.mark.usefixtures("avx2")


class Net:
    """A partition that grows node by node, and beside it what every tensor must be."""

    def __init__(self, shape, dtype="float32", seed=None):
        self.rng = np.random.default_rng(seed)
        self.graph = OnnxGraph({}, [], [], {}, {}, 17)
        self.partition = Partition(self.graph)
        low, high = (0, 1) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
        value = self.rng.normal(0, 1, shape) if dtype == "float32" else self.rng.integers(low, high, shape)
        self.values = {}
        self.keep("x", value.astype(dtype))
        self.graph.inputs["x"] = self.graph.tensors["x"]

    def keep(self, name, value):
        self.values[name] = value
        self.graph.tensors[name] = TensorInfo(value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
        return name

    def node(self, op, inputs, output, value, **attributes):
        """A node of ONNX's that gives ``value``."""
        self.graph.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return self.keep(output, value)

    def constant(self, name, value):
        self.graph.constants[name] = value
        self.graph.tensors[name] = TensorInfo(value.shape, helper.np_dtype_to_tensor_dtype(value.dtype))
        return name

    def border(self, op, source, output, code):
        scale = self.constant(f"{output}/scale", np.array(code.scale, np.float32))
        zero = self.constant(f"{output}/zero", np.array(code.zero, code.dtype))
        value = self.values[source]
        value = code.quanta(value) if op == "QuantizeLinear" else code.real(value)
        return self.node(op, [source, scale, zero], output, value)

    def product(self, source, output, rows=None, **fields):
        """A convolution of an image, or (``rows``) a product of rows of whatever ``source`` is."""
        value = self.values[source]
        matrix = rows is not None
        data = value.reshape(1, 1, rows, -1) if matrix else value.transpose(0, 2, 3, 1)
        conv = QConv2d(*data.shape, data_dtype=value.dtype.name, **fields)
        weights = self.rng.integers(-127, 128, conv.weight_shape).astype(conv.weight_dtype)
        bias = self.rng.integers(-2000, 2000, conv.out_c).astype(np.int32)
        scales = self.rng.uniform(0.5, 1.5, conv.scale_length) / (74 * 74) / np.sqrt(weights[..., 0].size)
        constants = (weights, bias, *(fixed_point(scales * 60) if conv.scale_length else ()))
        result = reference(conv, [np.ascontiguousarray(data), *constants])
        product = Product(conv, (output,), source, None, output, np.empty(0), None, None, constants)
        index = len(self.partition.products)
        self.partition.products.append(product)
        shape = (*value.shape[:-1], conv.out_c)
        result = result.reshape(shape) if matrix else result.transpose(0, 3, 1, 2)
        return self.node(PRODUCT, [source], output, result, index=index)

    def operator(self, what, sources, output):
        result = what.reference(*(self.values[source] for source in sources))
        self.partition.operators.append(QuantizedOperator(output, what, tuple(sources), output))
        index = len(self.partition.operators) - 1
        return self.node(OPERATOR, list(sources), output, result, index=index)

    def check(self, outputs, threads=1, target=TARGET, **choices):
        """Build, run and compare every one of ``outputs``; the manifest."""
        self.graph.outputs = outputs
        plan = plan_of(self.partition, {}, target, threads, **choices)
        executable = build_partition(self.partition, plan, target, threads)
        got = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(self.values["x"]))
        for name, tensor in zip(outputs, [got] if len(outputs) == 1 else got, strict=True):
            assert tensor.numpy().dtype == self.values[name].dtype
            assert np.array_equal(tensor.numpy(), self.values[name]), name
        return describe(self.partition, plan, target, threads)


U8, S8, OUT = (
    Quantization("uint8", 0.02, 128),
    Quantization("int8", 0.03, -4),
    Quantization("uint8", 0.05, 120),
)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_network_with_everything_is_the_reference_to_the_last_bit(threads):
    net = Net((1, 3, 37, 41))
    net.border("QuantizeLinear", "x", "q", U8)
    net.product("q", "a", out_c=24, kh=3, kw=3, stride=(2, 2), pad=(1, 1, 1, 1), data_zero=128, out_zero=120)
    net.product("a", "b", out_c=24, kh=3, kw=3, groups=24, pad=(1, 1, 1, 1), data_zero=120, out_zero=130)
    net.product(
        "b", "c", out_c=24, kh=1, kw=1, data_zero=130, out_zero=120, per_channel=False, clamp=(120, 255)
    )
    shape = net.values["a"].shape
    net.operator(QAdd.of(shape, OUT, OUT, U8), ["a", "c"], "d")
    net.operator(QLookup.of(shape, OUT, U8, np.tanh), ["b"], "e")
    net.operator(QConcat((shape, shape), 1, "uint8"), ["d", "e"], "f")
    window = Pool("max", net.values["f"].shape, (10, 11), (3, 3), (2, 2), (1, 1))
    net.operator(QPool.of(window, U8, U8), ["f"], "g")
    net.operator(
        QPool.of(Pool("average", (1, 48, 10, 11), (1, 1), (10, 11), (1, 1), (0, 0)), U8, S8), ["g"], "h"
    )
    net.node("Flatten", ["h"], "i", net.values["h"].reshape(1, 48))
    net.product("i", "j", rows=1, out_c=10, kh=1, kw=1, data_zero=-4, out_dtype="int8", out_zero=3)
    net.border("DequantizeLinear", "j", "y", S8)
    net.border("DequantizeLinear", "f", "z", U8)
    manifest = net.check(["y", "z", "g", "j"], threads)
    assert [layer.source for layer in manifest.layers] == ["analysis"] * 4


@pytest.mark.parametrize("threads", [1, 3])
def test_gates_meet_whole_planes(threads):
    net = Net((2, 40, 33, 31), "uint8")
    shape = net.values["x"].shape
    planes = (*shape[:2], 1, 1)
    pool = Pool("average", shape, (1, 1), shape[2:], (1, 1), (0, 0))
    net.operator(QPool.of(pool, U8, OUT), ["x"], "a")
    net.product("a", "b", out_c=40, kh=1, kw=1, out_zero=120)
    net.operator(QMul.of(shape, U8, OUT, OUT, None, planes), ["x", "b"], "c")
    net.operator(QAdd.of(shape, OUT, OUT, OUT, None, planes), ["c", "b"], "d")
    constant = net.constant("e", net.rng.integers(0, 256, planes).astype(np.uint8))
    net.values["e"] = net.graph.constants[constant]
    net.operator(QMul.of(shape, OUT, U8, S8, (-100, 90), planes), ["d", "e"], "f")
    net.operator(QMul.of(planes, OUT, U8, U8), ["a", "e"], "g")
    net.check(["c", "f", "g"], threads)


def test_bytes_that_tvm_computes_are_planes():
    net = Net((2, 16, 9, 7), "int8")
    net.node(
        "Transpose",
        ["x"],
        "a",
        np.ascontiguousarray(net.values["x"].transpose(0, 1, 3, 2)),
        perm=[0, 1, 3, 2],
    )
    net.product("a", "b", out_c=16, kh=3, kw=3, data_zero=3, out_dtype="int32")
    net.product("x", "c", out_c=16, kh=1, kw=1, data_zero=3, weight_dtype="int8", out_dtype="int8")
    net.node("Transpose", ["c"], "d", net.values["c"].transpose(0, 2, 3, 1), perm=[0, 2, 3, 1])
    net.product("d", "e", rows=2 * 9 * 7, out_c=5, kh=1, kw=1, out_dtype="uint8")
    net.operator(QConcat(((2, 16, 9, 7), (2, 16, 9, 7)), 3, "int8"), ["c", "x"], "f")
    net.check(["b", "c", "d", "e", "f"])


@pytest.mark.parametrize("threads", [1, 3])
def test_what_no_kernel_computes_is_as_exact(threads):
    net = Net((2, 12, 11, 9), "uint8")
    fields = {"kh": 3, "kw": 2, "groups": 4, "stride": (2, 1), "pad": (1, 0, 2, 1), "dilation": (1, 2)}
    net.product(
        "x",
        "a",
        out_c=20,
        data_zero=77,
        weight_zero=-3,
        out_dtype="int8",
        out_zero=-8,
        clamp=(-8, 90),
        **fields,
    )
    net.product("x", "b", out_c=20, data_zero=77, out_dtype="int32", **fields)
    # RISC-V has no quantized kernels, so nothing but these; the code is the host's all the same.
    none = CATALOGUE["riscv-k1"]
    assert all(registry.why_not_tunable(product.workload, none) for product in net.partition.products)
    net.graph.outputs = ["a", "b"]
    plan = plan_of(net.partition, {}, none, threads)
    executable = build_partition(net.partition, plan, TARGET, threads)
    got = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(net.values["x"]))
    assert all(np.array_equal(got[at].numpy(), net.values[name]) for at, name in enumerate("ab"))
    assert [layer.source for layer in describe(net.partition, plan, none, threads).layers] == ["default"] * 2


def test_floats_beside_bytes_keep_their_layouts():
    net = Net((1, 16, 8, 8))
    net.border("QuantizeLinear", "x", "q", U8)
    net.product("q", "a", out_c=16, kh=1, kw=1, data_zero=128, out_zero=120)
    net.border("DequantizeLinear", "a", "b", OUT)
    net.node("Relu", ["b"], "c", np.maximum(net.values["b"], 0))
    net.border("QuantizeLinear", "c", "d", U8)
    net.product("d", "e", out_c=16, kh=1, kw=1, data_zero=128, out_zero=120)
    net.border("DequantizeLinear", "e", "f", OUT)
    net.graph.outputs = ["f"]
    plan = plan_of(net.partition, {}, TARGET)
    assert (plan.layout_of("b"), plan.layout_of("c"), plan.layout_of("f")) == ("nhwc", "nhwc", "nchw")
    net.check(["f"])


@pytest.mark.parametrize("threads", [1, 3])
def test_sums_become_floats_by_the_scales_of_their_channels(threads):
    net = Net((2, 8, 37, 41), "uint8")
    net.product("x", "a", out_c=24, kh=3, kw=3, data_zero=3, out_dtype="int32")
    scales = net.constant("scales", net.rng.uniform(0.01, 0.02, 24).astype(np.float32))
    by_channel = net.graph.constants[scales]
    real = net.values["a"].astype(np.float32) * by_channel.reshape(-1, 1, 1)
    net.node("DequantizeLinear", ["a", scales], "b", real, axis=1)
    net.node("Relu", ["b"], "c", np.maximum(real, 0))
    one = net.constant("one", np.array(0.5, np.float32))
    net.node("DequantizeLinear", ["a", one], "d", net.values["a"].astype(np.float32) / 2)
    net.node("Flatten", ["x"], "e", net.values["x"].reshape(2, -1))
    net.product("e", "f", rows=2, out_c=24, kh=1, kw=1, out_dtype="int32")
    net.node("DequantizeLinear", ["f", scales], "g", net.values["f"].astype(np.float32) * by_channel, axis=-1)
    net.node("DequantizeLinear", ["a", scales], "unread", real, axis=1)
    net.check(["c", "d", "g"], threads)


def test_measured_configs_are_built_and_the_fastest_is_taken():
    net = Net((1, 16, 12, 12), "uint8")
    net.product("x", "a", out_c=32, kh=3, kw=3, pad=(1, 1, 1, 1))
    net.product("a", "b", out_c=32, kh=3, kw=3, pad=(1, 1, 1, 1), data_zero=7)
    first, second = (product.workload for product in net.partition.products)
    records = []
    for name, seconds in (("qwinograd", 1e-6), ("qdirect", 2e-6)):
        kernel = registry.kernel(name)
        config = kernel.recommend(first, TARGET)
        records.append(Record(first, TARGET, config, kernel.version, cost_s=seconds))
    records = [Record.from_json(record.to_json()) for record in records]
    forced = registry.kernel("qdirect").recommend(second, TARGET)
    manifest = net.check(["b"], records=records, plan={1: forced})
    assert [layer.source for layer in manifest.layers] == ["log", "log"]
    assert [layer.config for layer in manifest.layers] == [records[0].config, forced]
    assert [layer.expected_s for layer in manifest.layers] == [1e-6, None]


@pytest.mark.parametrize("target", ["rpi4", "rpi5", "graviton3", "x86-avx512"])
def test_other_targets_have_code(target):
    net = Net((1, 16, 14, 14))
    net.border("QuantizeLinear", "x", "q", U8)
    net.product("q", "a", out_c=32, kh=3, kw=3, pad=(1, 1, 1, 1), data_zero=128, out_zero=120)
    net.operator(QLookup.of((1, 32, 14, 14), OUT, U8, np.tanh), ["a"], "b")
    net.operator(QAdd.of((1, 32, 14, 14), OUT, U8, U8), ["a", "b"], "c")
    net.border("DequantizeLinear", "c", "d", U8)
    net.graph.outputs = ["d"]
    plan = plan_of(net.partition, {}, CATALOGUE[target])
    assert build_partition(net.partition, plan, CATALOGUE[target], 1)
