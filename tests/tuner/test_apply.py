import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from test_extract import CONV, EPILOGUE_CONSTANTS, EPILOGUES
from tiny_models import LIGHT, model, node, save
from tvm import relax

from bench.random_weights import randomize
from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from kernels import registry
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from kernels.workload.qconv2d import QConv2d
from tuner.backend.apply import build_default, build_model, export
from tuner.backend.comparison import run
from tuner.backend.manifest import Layer, Manifest
from tuner.log.record import Record
from tuner.runtimes.engines import onnx_session

TARGET = CATALOGUE["x86-avx2"]
pytestmark = pytest.mark.usefixtures("avx2")


def expected(path, inputs):
    return onnx_session(str(path), 2).run(None, inputs)


def computed(executable, inputs):
    return run(relax.VirtualMachine(executable, tvm.cpu())["main"], inputs)


def assert_same(results, references, tolerance=1e-4):
    assert len(results) == len(references)
    for result, reference in zip(results, references, strict=True):
        assert result.shape == reference.shape
        assert np.max(np.abs(result - reference)) <= tolerance * np.max(np.abs(reference))


def random_inputs(path, shapes=None):
    rng = np.random.default_rng(7)
    return {
        value.name: rng.standard_normal(value.shape, dtype=np.float32)
        for value in extract(path, shapes).inputs
    }


def build_and_compare(path, picks=None, **options):
    inputs = random_inputs(path, options.get("shapes"))
    executable, manifest = build_model(path, picks or {}, TARGET, **options)
    assert_same(computed(executable, inputs), expected(path, inputs))
    return manifest


@pytest.mark.parametrize("name", ["light_squeezenet", "light_inception_v1", "light_resnet50"])
def test_whole_model_agrees_with_onnxruntime(tmp_path, name):
    path = save(tmp_path, randomize(onnx.load(LIGHT / f"{name}.onnx"), seed=3))
    manifest = build_and_compare(path)
    assert manifest.count("analysis") == len(manifest.layers) == sum(o.count for o in extract(path).operators)


@pytest.mark.parametrize("name", EPILOGUES)
def test_every_epilogue_computes_what_its_nodes_do(tmp_path, name):
    nodes, _ = EPILOGUES[name]
    made = model([CONV, *nodes], {"x": (1, 4, 6, 6), "row": (1, 4, 1, 6)}, ["y"], EPILOGUE_CONSTANTS)
    build_and_compare(save(tmp_path, made))


def test_products_of_all_forms_in_one_model(tmp_path):
    nodes = [
        node("Conv", ["x", "wg"], "a", group=2, auto_pad="SAME_LOWER", strides=[2, 1]),
        node("BatchNormalization", ["x", "v", "v", "v", "v"], "bn"),
        node("Relu", ["bn"], "bn_relu"),
        node("Conv", ["bn_relu", "wd"], "b", pads=[2, 1, 2, 3], dilations=[2, 2], strides=[2, 1]),
        node("Add", ["a", "b"], "s"),
        node("LRN", ["s"], "l", size=3, alpha=0.5, beta=0.75, bias=2.0),
        node("MatMul", ["l", "wm"], "m"),
        node("Clip", ["m", "", "two"], "mc"),
        node("Flatten", ["mc"], "f"),
        node("Gemm", ["f", "wt", "two"], "g", transB=1, alpha=0.5, beta=0.25),
        node("Gemm", ["turn", "wa", "f2"], "h", transA=1),
        node("MatMul", ["g", "turn"], "free"),
    ]
    constants = {
        "wg": (6, 2, 3, 3),
        "wd": (6, 4, 3, 3),
        "v": np.full(4, 0.7, np.float32),
        "two": np.float32(2),
        "wm": (9, 5),
        "wt": (3, 6 * 4 * 5),
        "wa": (3, 2),
    }
    inputs = {"x": (1, 4, 8, 9), "turn": (3, 4), "f2": (4, 2)}
    manifest = build_and_compare(save(tmp_path, model(nodes, inputs, ["free", "h"], constants)))
    free = [layer for layer in manifest.layers if layer.nodes == ("free",)]
    assert [(layer.source, layer.config.kernel) for layer in free] == [("analysis", "matmul")]


def test_dynamic_batch(tmp_path):
    made = model([node("Conv", ["x", "w"], "y")], {"x": ("N", 4, 9, 9)}, ["y"], {"w": (6, 4, 3, 3)})
    build_and_compare(save(tmp_path, made), shapes={"x": [3, 4, 9, 9]})


def test_two_threads_compute_the_same(tmp_path):
    nodes = [
        CONV,
        node("MaxPool", ["p"], "m", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Concat", ["m", "p"], "c", axis=1),
        node("GlobalAveragePool", ["c"], "y"),
    ]
    made = model(nodes, {"x": (2, 4, 80, 80)}, ["y", "c"], {"w": (4, 4, 3, 3)})
    assert build_and_compare(save(tmp_path, made), threads=2).threads == 2


def test_picks_are_used_and_named(tmp_path):
    nodes = [node("Conv", ["x", "w"], "a"), node("Conv", ["a", "w"], "y")]
    path = save(tmp_path, model(nodes, {"x": (1, 4, 12, 12)}, ["y"], {"w": (4, 4, 3, 3)}))
    first, second = (operator.workload for operator in extract(path).operators)
    recommended = registry.recommendations(first, TARGET)[0]
    other = next(config for config in registry.search_space(first, TARGET) if config != recommended)
    picks = {first.key: other}
    record = Record(first, TARGET, other, 1, cost_s=1e-5, max_error=2e-7, spread=0.03, disturbed=True)
    manifest = build_and_compare(path, picks, records=[record])
    assert [(layer.source, layer.expected_s, layer.max_error) for layer in manifest.layers] == [
        ("log", 1e-5, 2e-7),
        ("analysis", None, None),
    ]
    assert manifest.layers[0].config == other
    listed = json.loads(json.dumps(manifest.to_json()))["layers"]
    assert [(layer["key"], layer["nodes"]) for layer in listed] == [(first.key, ["a"]), (second.key, ["y"])]
    told = [(layer["spread"], layer["clock"], layer["disturbed"]) for layer in listed]
    assert told == [(0.03, "wall", True), (None, "", False)]
    assert listed[0]["config"] == other.to_json()


def test_an_exact_build_has_no_winograd(tmp_path):
    nodes = [node("Conv", ["x", "w"], "a"), node("Conv", ["a", "w"], "y")]
    path = save(tmp_path, model(nodes, {"x": (1, 32, 40, 40)}, ["y"], {"w": (32, 32, 3, 3)}))
    relaxed = build_and_compare(path)
    assert (relaxed.numerics, relaxed.layers[0].numerics) == ("exact-integers", "relaxed")
    exact = build_and_compare(path, numerics=Numerics.EXACT)
    listed = exact.to_json()
    assert [listed["numerics"], *(layer["numerics"] for layer in listed["layers"])] == ["exact"] * 3
    picks = {relaxed.layers[0].workload.key: relaxed.layers[0].config}
    with pytest.raises(ValueError, match="not exact: Winograd"):
        build_model(path, picks, TARGET, numerics=Numerics.EXACT)


def test_a_build_says_the_strictest_numerics_that_allow_its_layers():
    floats, integers = Conv2d(1, 8, 8, 8, 8, 3, 3), QConv2d(1, 8, 8, 8, 8, 3, 3)

    def said(of_floats, of_integers):
        pairs = ((floats, of_floats), (integers, of_integers))
        layers = [Layer((), "analysis", workload, None, Numerics(word)) for workload, word in pairs]
        return Manifest(TARGET, 1, (*layers, Layer(("soft",), "default"))).to_json()["numerics"]

    assert said("exact", "exact") == "exact"
    assert said("relaxed", "exact") == "exact-integers"
    assert said("exact", "relaxed") == said("relaxed", "relaxed") == "relaxed"


def test_a_config_outside_the_space_is_refused(tmp_path):
    path = save(tmp_path, model([CONV], {"x": (1, 4, 12, 12)}, ["p"], {"w": (4, 4, 3, 3)}))
    key = extract(path).operators[0].workload.key
    with pytest.raises(ValueError, match=r"conv 4x12x12.*sconv has the knobs"):
        build_model(path, {key: Config.of("sconv", nonsense=1)}, TARGET)


def test_an_operator_that_tvm_cannot_import_is_named(tmp_path):
    path = save(tmp_path, model([node("LpNormalization", ["x"], "y")], {"x": (4,)}, ["y"]))
    with pytest.raises(ModelError, match=r"LpNormalization \(node 'y'\)"):
        build_model(path, {}, TARGET)
    with pytest.raises(ModelError, match="LpNormalization"):
        build_default(path, TARGET)


def test_a_node_that_tvm_cannot_import_is_named(tmp_path, capsys):
    pool = node("AveragePool", ["x"], "y", kernel_shape=[2, 2, 2, 2])
    made = model([pool], {"x": (1, 1, 4, 4, 4, 4)}, ["y"])
    with pytest.raises(ModelError, match=r"node 'y' \(AveragePool\)"):
        build_model(save(tmp_path, made), {}, TARGET)
    assert capsys.readouterr().out == ""


def test_default_build_computes_the_same(tmp_path):
    made = model([CONV, node("Relu", ["p"], "y")], {"x": ("N", 4, 6, 6)}, ["y"], {"w": (4, 4, 3, 3)})
    path, shapes = save(tmp_path, made), {"x": [2, 4, 6, 6]}
    inputs = random_inputs(path, shapes)
    executable = build_default(path, TARGET, shapes)
    assert_same(computed(executable, inputs), expected(path, inputs))


LOADER = """
import sys, numpy, tvm
from tvm import relax
machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
result = machine["main"](tvm.runtime.tensor(numpy.load(sys.argv[2])))
numpy.save(sys.argv[3], result.numpy())
assert not {"kernels", "tuner", "worker"} & set(sys.modules)
"""


def test_an_exported_model_runs_in_stock_tvm_without_us_or_a_compiler(tmp_path, monkeypatch):
    nodes = [CONV, node("Relu", ["p"], "r"), node("MaxPool", ["r"], "y", kernel_shape=[2, 2])]
    path = save(tmp_path, model(nodes, {"x": (1, 4, 6, 6)}, ["y"], {"w": (4, 4, 3, 3)}))
    inputs = random_inputs(path)
    executable, _ = build_model(path, {}, TARGET)
    monkeypatch.setenv("PATH", "")
    export(executable, tmp_path / "model.so")
    np.save(tmp_path / "x.npy", inputs["x"])
    files = [str(tmp_path / name) for name in ("model.so", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-I", "-c", LOADER, *files], check=True, timeout=120, cwd=tmp_path)
    assert_same([np.load(tmp_path / "y.npy")], expected(path, inputs))


def test_old_models_that_list_initializers_as_inputs(tmp_path):
    inputs = {"x": (1, 4, 6, 6), "w": (4, 4, 3, 3)}
    made = model([CONV], inputs, ["p"], {"w": (4, 4, 3, 3)}, ir_version=3, opset=9)
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("p", TensorProto.FLOAT, (1, 4, 6, 6)))
    build_and_compare(save(tmp_path, made))


def test_constants_of_64_bits_stay_so(tmp_path):
    rows = np.array([2**40, -3, 2**31], np.int64)
    constants = {
        "one": np.array([1]),
        "end": np.array([2**63 - 1]),
        "which": np.array([2, 0]),
        "rows": rows,
        "half": np.array(0.1),
    }
    nodes = [
        node("Slice", ["x", "one", "end", "one"], "rest"),
        node("Cast", ["rest"], "wide", to=TensorProto.DOUBLE),
        node("Mul", ["wide", "half"], "tenth"),
        node("Cast", ["x"], "whole", to=TensorProto.INT64),
        node("Add", ["whole", "rows"], "sum"),
        node("Gather", ["sum", "which"], "taken", axis=1),
    ]
    made = model(nodes, {"x": (2, 3)}, ["rest", "tenth", "taken"], constants)
    for value, kind in zip(made.graph.output[1:], (TensorProto.DOUBLE, TensorProto.INT64), strict=True):
        value.type.tensor_type.elem_type = kind
    path, inputs = save(tmp_path, made), {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    results = computed(build_model(path, {}, TARGET)[0], inputs)
    references = expected(path, inputs)
    assert [value.dtype for value in results] == [np.float32, np.float64, np.int64]
    assert all(
        np.array_equal(result, reference) for result, reference in zip(results, references, strict=True)
    )
