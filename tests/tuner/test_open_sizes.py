"""Modules whose inputs have a size that is left open: any length of a range, each as onnxruntime has it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import ModelProto, TensorProto
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
from test_shape_sets import encoder
from tiny_models import model, node, save
from tvm import relax

from compiler.intake.extract import extract
from compiler.intake.shapes import OpenRange, sets_of
from compiler.ir.checks import ModelError
from kernels.int8.arm.plan import why_not_neon
from kernels.int8.x86.instructions import why_not_x86
from kernels.target import CATALOGUE
from tuner.backend.apply import export
from tuner.backend.check import Check
from tuner.backend.evaluation import SATURATING
from tuner.backend.sequence import SEQUENCE
from tuner.backend.shape_sets import build_sets, description_of
from worker.measure.host import host_target

LENGTHS = [*range(1, 21), 23, 31, 32, 33, 37, 39, 40]
WIDTH, HEADS = 32, 2


def transformer() -> ModelProto:
    """Two layers of attention with two heads and a feed-forward, on embeddings with positions."""
    rng = np.random.default_rng(5)
    nodes = [
        node("Gather", ["table", "ids"], "words"),
        node("Shape", ["ids"], "shape"),
        node("Gather", ["shape", "second"], "count"),
        node("Range", ["zero", "count", "first"], "steps"),
        node("Gather", ["places", "steps"], "positions"),
        node("Add", ["words", "positions"], "x0"),
        node("Cast", ["mask"], "kept", to=TensorProto.FLOAT),
        node("Sub", ["one", "kept"], "away"),
        node("Mul", ["away", "least"], "far"),
        node("Unsqueeze", ["far", "axes"], "bias"),
    ]
    constants: dict[str, Any] = {
        "table": rng.standard_normal((50, WIDTH)),
        "places": rng.standard_normal((64, WIDTH)),
        "one": np.array(1.0),
        "least": np.array(-1e9),
        "scale": np.array(0.25),
    }
    for at in range(2):
        data = f"x{at}"
        for each in "qkv":
            constants[f"w{each}{at}"] = 0.2 * rng.standard_normal((WIDTH, WIDTH))
            nodes += [
                node("MatMul", [data, f"w{each}{at}"], f"{each}{at}"),
                node("Reshape", [f"{each}{at}", "heads"], f"{each}h{at}"),
                node(
                    "Transpose",
                    [f"{each}h{at}"],
                    f"{each}t{at}",
                    perm=[0, 2, 3, 1] if each == "k" else [0, 2, 1, 3],
                ),
            ]
        constants |= {
            f"wo{at}": 0.2 * rng.standard_normal((WIDTH, WIDTH)),
            f"up{at}": 0.2 * rng.standard_normal((WIDTH, 72)),
            f"down{at}": 0.2 * rng.standard_normal((72, WIDTH)),
            f"gain{at}": rng.standard_normal(WIDTH),
            f"shift{at}": rng.standard_normal(WIDTH),
        }
        nodes += [
            node("MatMul", [f"qt{at}", f"kt{at}"], f"scores{at}"),
            node("Mul", [f"scores{at}", "scale"], f"scaled{at}"),
            node("Add", [f"scaled{at}", "bias"], f"masked{at}"),
            node("Softmax", [f"masked{at}"], f"p{at}", axis=-1),
            node("MatMul", [f"p{at}", f"vt{at}"], f"mixed{at}"),
            node("Transpose", [f"mixed{at}"], f"turned{at}", perm=[0, 2, 1, 3]),
            node("Reshape", [f"turned{at}", "flat"], f"joined{at}"),
            node("MatMul", [f"joined{at}", f"wo{at}"], f"o{at}"),
            node("Add", [f"o{at}", data], f"r{at}"),
            node("LayerNormalization", [f"r{at}", f"gain{at}", f"shift{at}"], f"n{at}"),
            node("MatMul", [f"n{at}", f"up{at}"], f"u{at}"),
            node("Relu", [f"u{at}"], f"h{at}"),
            node("MatMul", [f"h{at}", f"down{at}"], f"d{at}"),
            node("Add", [f"d{at}", f"n{at}"], f"x{at + 1}"),
        ]
    nodes += [
        node("Unsqueeze", ["kept", "last"], "weights"),
        node("Mul", ["x2", "weights"], "weighed"),
        node("ReduceSum", ["weighed", "tokens"], "summed", keepdims=0),
        node("ReduceSum", ["weights", "tokens"], "counted", keepdims=0),
        node("Div", ["summed", "counted"], "pooled"),
        node("Identity", ["pooled"], "again"),
    ]
    integers = {
        "heads": np.array([0, 0, HEADS, WIDTH // HEADS]),
        "flat": np.array([0, 0, WIDTH]),
        "axes": np.array([1, 2]),
        "last": np.array([2]),
        "tokens": np.array([1]),
        "second": np.array(1),
        "zero": np.array(0),
        "first": np.array(1),
    }
    arrays = {name: array.astype(np.float32) for name, array in constants.items()}
    inputs = {"ids": ("batch", "n"), "mask": ("batch", "n")}
    made = model(nodes, inputs, ["x2", "pooled", "again"], {**arrays, **integers}, dtype=TensorProto.INT64)
    for output in made.graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return made


def perceptron(activation: str = "Sigmoid") -> ModelProto:
    """Rows of numbers: two dense layers, a Softmax of each row."""
    rng = np.random.default_rng(2)
    nodes = [
        node("Gemm", ["x", "w", "b"], "a"),
        node(activation, ["a"], "s"),
        node("MatMul", ["s", "v"], "c"),
        node("Softmax", ["c"], "y", axis=-1),
    ]
    sizes = {"w": (16, 40), "b": (40,), "v": (40, 7)}
    arrays = {name: rng.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    return model(nodes, {"x": ("rows", 16)}, ["y"], arrays)


def elementwise() -> ModelProto:
    """Of a row of any length: a chain, a Softmax and a maximum along it, and what it is with itself."""
    nodes = [
        node("Exp", ["x"], "e"),
        node("Add", ["e", "half"], "f"),
        node("Softmax", ["f"], "p", axis=-1),
        node("ReduceMax", ["x"], "m", axes=[1], keepdims=1),
        node("Sub", ["x", "m"], "d"),
        node("Unsqueeze", ["x", "axis"], "column"),
        node("Mul", ["column", "x"], "square"),
        node("Transpose", ["square"], "turned", perm=[1, 0, 2]),
    ]
    arrays = {"half": np.array(0.5, np.float32), "axis": np.array([2])}
    return model(nodes, {"x": (1, "n")}, ["p", "d", "turned"], arrays)


def run_all(
    made: ModelProto,
    shapes: dict[str, list[Any]],
    folder: Path,
    lengths: list[int],
    threads: int = 1,
    within: float = 2e-5,
) -> Any:
    """Build it, compare it with onnxruntime at all ``lengths``, and return its ``main``."""
    path = save(folder, made)
    executable, (variant,) = build_sets(path, host_target(), threads, shapes=shapes)
    export(executable, folder / "open.so")
    main = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "open.so")), tvm.cpu())["main"]
    as_written = onnxruntime.SessionOptions()
    as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if any(node.op_type in SATURATING for node in made.graph.node):  # exact on all processors only so
        as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        as_written.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path), as_written)
    rng = np.random.default_rng(0)
    for length in lengths:
        feeds = {}
        for name, (shape, dtype) in variant.inputs.items():
            given = shapes.get(name, shape)
            size = [length if isinstance(each, str) else each for each in given]
            feeds[name] = (
                rng.integers(0, 50, size) if dtype == "int64" else rng.standard_normal(size).astype(dtype)
            )
            if name == "mask":
                feeds[name] = (np.arange(length) < max(1, length * 2 // 3))[None].astype(np.int64)
        found = main(*map(tvm.runtime.tensor, feeds.values()))
        results = [each.numpy() for each in ([found] if hasattr(found, "numpy") else found)]
        for right, ours in zip(session.run(None, feeds), results, strict=True):
            assert ours.shape == right.shape, length
            assert np.abs(ours - right).max() <= within * max(1.0, np.abs(right).max()), length
    return main


def tokens(last: int) -> dict[str, list[Any]]:
    return {"ids": [1, f"1..{last}"], "mask": [1, f"1..{last}"]}


def test_an_encoder_takes_every_length_of_a_range(tmp_path):
    main = run_all(transformer(), tokens(40), tmp_path, LENGTHS)
    for shape in ((1, 41), (2, 7)):
        wrong = [tvm.runtime.tensor(np.zeros(shape, np.int64)) for _ in range(2)]
        with pytest.raises(ValueError, match=r"ids=1,1\.\.40 mask=1,1\.\.40"):
            main(*wrong)
    uneven = [tvm.runtime.tensor(np.zeros((1, each), np.int64)) for each in (7, 8)]
    with pytest.raises(ValueError, match="was not built for these input shapes"):
        main(*uneven)


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_data_that_are_quantized_as_they_come(tmp_path, threads):
    if why_not_x86(host_target()) is not None:
        pytest.skip("their rows can be open on x86 alone")
    rng = np.random.default_rng(4)
    arrays = {
        "w": rng.integers(-60, 60, (36, 50)).astype(np.int8),
        "v": rng.integers(-60, 60, (50, 19)).astype(np.int8),
        "one": np.array(0.01, np.float32),
        "other": rng.uniform(0.01, 0.02, 19).astype(np.float32),
        "b": rng.standard_normal(19).astype(np.float32),
        "none": np.array(0, np.int8),
    }
    nodes = []
    for data, weights, unit, result in (("x", "w", "one", "h"), ("r", "v", "other", "z")):
        nodes += [
            node("DynamicQuantizeLinear", [data], f"{data}q"),
            node("MatMulInteger", [f"{data}q", weights, f"{data}zero", "none"], f"{data}sum"),
            node("Cast", [f"{data}sum"], f"{data}float", to=TensorProto.FLOAT),
            node("Mul", [f"{data}step", unit], f"{data}unit"),
            node("Mul", [f"{data}float", f"{data}unit"], result),
        ]
        nodes[-5].output.extend([f"{data}step", f"{data}zero"])
        if result == "h":
            nodes.append(node("Relu", ["h"], "r"))
    nodes.append(node("Add", ["z", "b"], "y"))
    made = model(nodes, {"x": (1, "n", 36)}, ["y"], arrays)
    lengths = [*range(1, 21), *rng.integers(21, 71, 5).tolist(), 70]
    run_all(made, {"x": [1, "1..70", 36]}, tmp_path, lengths, threads)


def quantized(made: ModelProto, folder: Path, static: bool = False) -> ModelProto:
    """As onnxruntime's quantizer writes it, of weights alone or of all."""
    path, done = save(folder, made), folder / "quantized.onnx"
    if not static:
        quantize_dynamic(path, done, weight_type=QuantType.QInt8)
        return onnx.load(done)
    inputs = {each.name: each.type.tensor_type.shape.dim[1].dim_value for each in made.graph.input}
    rng = np.random.default_rng(3)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        samples = iter([{n: rng.standard_normal((8, width)).astype("f") for n, width in inputs.items()}] * 2)

        def get_next(self) -> Any:
            return next(self.samples, None)

    quantize_static(path, done, Reader(), activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return onnx.load(done)


def test_an_encoder_whose_weights_are_bytes_takes_every_length(tmp_path):
    if why_not_x86(host_target()) is not None and why_not_neon(host_target()) is not None:
        pytest.skip("their rows can be open on x86 and Arm alone")
    # What a step of the scales rounds otherwise is seen.
    lengths = [1, 2, 3, 8, 17, 31, 40]
    run_all(quantized(transformer(), tmp_path), tokens(40), tmp_path, lengths, within=0.01)


def narrow(kind: str) -> ModelProto:
    """The perceptron whose larger product has weights of 4 or 8 bits with scales for blocks, or float16."""
    made, rng = perceptron("Relu"), np.random.default_rng(6)
    kept = [each for each in made.graph.initializer if each.name != "w"]
    bits = {"4 bits": 4, "8 bits": 8}.get(kind)
    if bits:
        arrays = {
            "quanta": rng.integers(0, 256, (1040, 1, 2 * bits)).astype(np.uint8),
            "scales": rng.uniform(0.02, 0.06, 1040).astype(np.float32) * 16 / 2**bits,
        }
        taken = node(
            "MatMulNBits", ["x", "quanta", "scales"], "product", K=16, N=1040, bits=bits, block_size=16
        )
        taken.domain = "com.microsoft"
        nodes = [taken, node("Add", ["product", "b"], "a")]
        made.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    else:
        arrays = {"w16": rng.standard_normal((16, 1040)).astype(np.float16)}
        nodes = [
            node("Cast", ["w16"], "w", to=TensorProto.FLOAT),
            node("Gemm", ["x", "w", "b"], "a"),
        ]
    for name, shape in {"b": (1040,), "v": (1040, 7)}.items():
        kept = [each for each in kept if each.name != name]
        arrays[name] = 0.1 * rng.standard_normal(shape).astype(np.float32)
    nodes += made.graph.node[1:]
    for field, values in (("node", nodes), ("initializer", kept)):
        values = [type(each).FromString(each.SerializeToString()) for each in values]
        made.graph.ClearField(field)
        getattr(made.graph, field).extend(values)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return made


@pytest.mark.parametrize("kind", ["4 bits", "8 bits", "float16"])
@pytest.mark.parametrize("last", [12, 40])
def test_weights_that_few_rows_would_read_narrow(tmp_path, kind, last):
    lengths = [length for length in (1, 2, 7, 12, 16, 17, 40) if length <= last]
    run_all(narrow(kind), {"x": [f"1..{last}", 16]}, tmp_path, lengths)


def test_a_model_of_float16_takes_every_length(tmp_path):
    made = perceptron("Tanh")
    for each in made.graph.initializer:
        half = onnx.numpy_helper.to_array(each).astype(np.float16)
        each.CopyFrom(onnx.numpy_helper.from_array(half, each.name))
    for port in (*made.graph.input, *made.graph.output):
        port.type.tensor_type.elem_type = TensorProto.FLOAT16
    # onnxruntime rounds what is between to float16.
    run_all(made, {"x": ["1..40", 16]}, tmp_path, [1, 2, 7, 16, 17, 40], within=0.005)


def test_products_of_bytes_between_static_scales(tmp_path):
    made = quantized(perceptron("Relu"), tmp_path, static=True)
    run_all(made, {"x": ["1..50", 16]}, tmp_path, [1, 2, 3, 16, 29, 50])


@pytest.mark.parametrize("kind", ["Add", "Mul"])
def test_tables_and_pairs_of_bytes_between_static_scales(tmp_path, kind):
    rng = np.random.default_rng(8)
    nodes = [
        node("MatMul", ["x", "w"], "a"),
        node("Sigmoid", ["a"], "s"),
        node("MatMul", ["x", "v"], "c"),
        node(kind, ["s", "c"], "t"),
        node("MatMul", ["t", "u"], "y"),
    ]
    arrays = {name: rng.standard_normal((16, 16)).astype(np.float32) for name in "wvu"}
    made = quantized(model(nodes, {"x": ("rows", 16)}, ["y"], arrays), tmp_path, static=True)
    # Ties are rounded up here, there to even: one step of a scale now and then.
    run_all(made, {"x": ["1..50", 16]}, tmp_path, [1, 2, 3, 16, 29, 50], within=0.02)


def test_a_mean_over_tokens_divides_by_their_number(tmp_path):
    run_all(encoder(), tokens(30), tmp_path, [1, 2, 5, 16, 17, 30])


def test_a_batch_of_rows_can_be_open(tmp_path):
    run_all(perceptron(), {"x": ["1..50", 16]}, tmp_path, [1, 2, 3, 16, 29, 49, 50])


def test_few_rows_meet_several_panels_of_weights(tmp_path):
    rng = np.random.default_rng(9)
    sizes = [24, 300, 601, 43]
    names = ["x", "a", "b", "y"]
    arrays = {
        f"w{at}": rng.standard_normal(size).astype(np.float32)
        for at, size in enumerate(itertools.pairwise(sizes))
    }
    nodes = [node("MatMul", [names[at], f"w{at}"], names[at + 1]) for at in range(3)]
    made = model(nodes, {"x": ("rows", 24)}, ["y"], arrays)
    run_all(made, {"x": ["1..40", 24]}, tmp_path, [*range(1, 21), *rng.integers(21, 41, 4).tolist()])


def test_loops_over_what_is_open(tmp_path):
    run_all(elementwise(), {"x": [1, "1..70"]}, tmp_path, [1, 2, 15, 16, 17, 33, 64, 70])


def test_what_cannot_be_open_is_refused_by_name(tmp_path):
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)}
    conv = model([node("Conv", ["x", "w"], "c")], {"x": ("n", 3, 8, 8)}, ["c"], weights)
    with pytest.raises(ModelError, match=r"node 'c' cannot be left open: a conv2d .* 8\.\.512:8"):
        extract(save(tmp_path, conv), {"x": ["1..16", 3, 8, 8]})
    product = model([node("MatMul", ["x", "x"], "square")], {"x": (1, "n", "n")}, ["square"], {})
    with pytest.raises(ModelError, match="node 'square' cannot be left open"):
        extract(save(tmp_path, product), {"x": [1, "1..16", "1..16"]})


@pytest.mark.parametrize("name", ["x86-avx2", "rpi5", "hexagon-v68"])
def test_functions_of_open_sizes_are_made_for_all_targets(tmp_path, name):
    target = CATALOGUE.get(name)
    if target is None:
        pytest.skip("no such target")
    build_sets(save(tmp_path, transformer()), target, shapes=tokens(40))


def test_a_run_at_any_length_is_one_call(tmp_path):
    path, called = save(tmp_path, transformer()), []
    executable, _ = build_sets(path, host_target(), shapes=tokens(40))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    right = onnxruntime.InferenceSession(str(path))

    def note(_function: Any, name: str, before: bool, _result: Any, *_: Any) -> int:
        if before and name.startswith(("tilefleet", "fused")):
            called.append(name)
        return 0

    machine.set_instrument(note)
    for length in (1, 40, 3):
        called.clear()
        feeds = [np.full((1, length), 7, np.int64), np.ones((1, length), np.int64)]
        found = machine["main"](*map(tvm.runtime.tensor, feeds))
        assert called == [SEQUENCE]
        expected = right.run(None, dict(zip(("ids", "mask"), feeds, strict=True)))
        for one, other in zip(expected, found, strict=True):
            assert np.allclose(one, other.numpy(), 1e-4, 1e-4)


def test_threads_share_open_sizes(tmp_path):
    path = save(tmp_path, transformer())
    executable, _ = build_sets(path, host_target(), threads=2, shapes=tokens(40))
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    feeds = [np.ones((1, 37), np.int64)] * 2
    right = onnxruntime.InferenceSession(str(path)).run(None, dict(zip(("ids", "mask"), feeds, strict=True)))
    for one, other in zip(right, main(*map(tvm.runtime.tensor, feeds)), strict=True):
        assert np.allclose(one, other.numpy(), 1e-4, 1e-4)


def test_it_is_tuned_for_its_usual_length_and_says_so(tmp_path):
    path = save(tmp_path, transformer())
    assert sets_of(tokens(512)) == ({"ids": [1, 128], "mask": [1, 128]},)
    assert {
        each.workload.m for each in extract(path, tokens(40)).operators if each.workload.kind == "gemm"
    } == {40}
    _, variants = build_sets(path, host_target(), shapes=tokens(40))
    said = json.loads(json.dumps(description_of(variants, [Check(1e-4, {"x2": 0.0}, {"x2": 1e-4}, "it")])))
    assert said["inputs"] == {"ids": [1, "1..40"], "mask": [1, "1..40"]}
    assert said["length"] == 40
    assert [each["ids"][1] for each in variants[0].checked_shapes] == list(OpenRange(1, 40).checked)


def test_a_range_is_one_and_the_only_set(tmp_path):
    path = save(tmp_path, transformer())
    for wrong, match in [
        ([tokens(40), tokens(60)], "has one set of them"),
        ({"ids": [1, "1..40"], "mask": [1, "1..41"]}, "one size can be left open"),
        ({"ids": [1, "1..3"], "mask": [1, "1..3"]}, "nor a range that can be left open"),
        ({"ids": [1, "0..300"], "mask": [1, "0..300"]}, "nor a range that can be left open"),
        ({"ids": [1, "1-40"], "mask": [1, "1-40"]}, "nor a range that can be left open"),
    ]:
        with pytest.raises(ModelError, match=match):
            extract(path, wrong)
