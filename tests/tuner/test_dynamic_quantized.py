"""Models as onnxruntime.quantization.quantize_dynamic writes them: one product each, and its result."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import QuantType, quantize_dynamic
from tvm import relax

from compiler.load import load_partition
from kernels.numerics import Numerics
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model, build_partition, plan_of
from worker.measure.host import host_target

ROUNDING = 1e-5
SHAPES = {"a": (40, 24), "b": (24, 17)}


def run(executable, **feeds):
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](*map(tvm.runtime.tensor, feeds.values()))
    return result.numpy()


def save(tmp_path, nodes, inputs, constants, output):
    floats = {name: (TensorProto.FLOAT, shape) for name, shape in inputs.items()}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *kind) for name, kind in floats.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("shape", [(3, 40), (2, 5, 40), (2, 2, 3, 40)], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"weight_type": QuantType.QInt8},
        {"weight_type": QuantType.QUInt8},
        {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True},
    ],
    ids=["int8", "uint8", "by-channel"],
)
def test_dynamic_quantization_by_onnxruntime_is_one_product_each(tmp_path, options, shape):
    rng = np.random.default_rng()
    constants = {name: rng.standard_normal(size, np.float32) for name, size in SHAPES.items()}
    constants["bias"] = rng.standard_normal(24, np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"], name="first"),
        helper.make_node("Add", ["p", "bias"], ["q"]),
        helper.make_node("Relu", ["q"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"], name="second"),
    ]
    path = save(tmp_path, nodes, {"x": shape}, constants, "y")
    quantize_dynamic(path, tmp_path / "quantized.onnx", **options)
    partition = load_partition(tmp_path / "quantized.onnx")
    assert [product.workload.out_dtype for product in partition.products] == ["float32"] * 2
    assert not {"Cast", "Mul", "Add", "MatMulInteger"} & {node.op_type for node in partition.graph.nodes}
    target = host_target()
    executable, manifest = build_model(tmp_path / "quantized.onnx", {}, target)
    assert manifest.numerics is Numerics.EXACT
    data = rng.standard_normal(shape, np.float32)
    (expected,) = ReferenceEvaluator(str(tmp_path / "quantized.onnx")).run(None, {"x": data})
    # Between the products a byte may fall the other way.
    assert np.abs(run(executable, x=data) - expected).max() < 0.02 * np.abs(expected).max()


def integers(tmp_path, tail, constants=None, shape=(5, 40)):
    """A model of one MatMulInteger of dynamic bytes, and the nodes of ``tail`` behind its ``sums``."""
    rng = np.random.default_rng()
    made = {
        "w": rng.integers(-128, 128, (40, 17)).astype(np.int8),
        "zw": np.array(3, np.int8),
        "unit": rng.uniform(0.01, 0.02, 17).astype(np.float32),
        **(constants or {}),
    }
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "step", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero", "zw"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        *tail,
    ]
    return save(tmp_path, nodes, {"x": shape}, made, "y")


SCALED = [
    helper.make_node("Mul", ["step", "unit"], ["scale"]),
    helper.make_node("Mul", ["real", "scale"], ["p"]),
]
TAILS = {
    "bias of all": ([*SCALED, helper.make_node("Add", ["one", "p"], ["y"])], "float32"),
    "bias of each": ([*SCALED, helper.make_node("Add", ["p", "bias"], ["y"])], "float32"),
    "step alone": ([helper.make_node("Mul", ["step", "real"], ["y"])], "float32"),
    "scale a row": ([helper.make_node("Mul", ["real", "rows"], ["y"])], "int32"),
    "read twice": ([*SCALED, helper.make_node("Add", ["real", "p"], ["y"])], "int32"),
}


@pytest.mark.parametrize("name", TAILS)
def test_what_follows_the_sums_is_taken_in_where_it_is_a_scale_and_a_bias(tmp_path, name):
    tail, dtype = TAILS[name]
    rng = np.random.default_rng()
    constants = {
        "one": np.float32(0.3),
        "bias": rng.standard_normal(17, np.float32),
        "rows": rng.standard_normal((5, 1), np.float32),
    }
    used = {each for node in tail for each in node.input}
    path = integers(tmp_path, tail, {each: value for each, value in constants.items() if each in used})
    (product,) = load_partition(path).products
    assert product.workload.out_dtype == dtype
    data = rng.standard_normal((5, 40), np.float32)
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"x": data})
    executable, _ = build_model(path, {}, host_target())
    assert np.abs(run(executable, x=data) - expected).max() < ROUNDING * np.abs(expected).max()


def test_a_machine_without_a_kernel_for_it_computes_it_by_the_compiler(tmp_path):
    """A target that no integer family knows, whose code this machine can run."""
    target = host_target()
    path = integers(
        tmp_path, [*SCALED, helper.make_node("Add", ["p", "bias"], ["y"])], {"bias": np.ones(17, np.float32)}
    )
    partition = load_partition(path)
    plan = plan_of(partition, {}, target)
    unplanned = type(plan)((None,), plan.states, plan.rules, plan.conversions, plan.seconds)
    data = np.random.default_rng().standard_normal((5, 40), np.float32)
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"x": data})
    result = run(build_partition(partition, unplanned, target, 1), x=data)
    assert np.abs(result - expected).max() < ROUNDING * np.abs(expected).max()


def test_other_machines_have_a_kernel_for_it(tmp_path):
    path = integers(tmp_path, [*SCALED[:1], helper.make_node("Mul", ["real", "scale"], ["y"])])
    for name, family in {"rpi4": "qgemm", "graviton3": "qgemm", "x86-avx512": "qdirect"}.items():
        (option,) = plan_of(load_partition(path), {}, CATALOGUE[name]).options
        assert option is not None
        assert option.config.kernel == family
