"""One module for several sets of input shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import ModelProto, TensorProto
from tiny_models import model, node, save
from tvm import relax

from compiler.intake.extract import extract
from compiler.intake.extraction import Extraction
from compiler.intake.shapes import MOST_SETS, given_of, sets_of
from compiler.ir.checks import ModelError
from kernels.workload.base import Gemm
from tuner.backend.apply import export
from tuner.backend.check import Check, Delivery, worst
from tuner.backend.shape_sets import Variant, build_sets, description_of
from tuner.job import delivery_child
from worker.measure.host import host_target

WIDE = 96
TOKENS = [{"ids": [1, n], "mask": [1, n]} for n in (7, 33, 12)] + [{"ids": [3, 12], "mask": [3, 12]}]
IMAGES = [{"x": [1, 3, h, w]} for h, w in ((20, 20), (13, 20), (20, 13))]


def encoder() -> ModelProto:
    """Tokens and a mask: a layer of attention, a norm and a feed-forward; all states, and their mean."""
    rng = np.random.default_rng(1)
    nodes = [
        node("Gather", ["table", "ids"], "e"),
        *(node("MatMul", ["e", f"w{each}"], each) for each in "qkv"),
        node("Transpose", ["k"], "kt", perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], "scores"),
        node("Mul", ["scores", "scale"], "scaled"),
        node("Cast", ["mask"], "m", to=TensorProto.FLOAT),
        node("Sub", ["one", "m"], "away"),
        node("Mul", ["away", "least"], "far"),
        node("Unsqueeze", ["far", "axis"], "bias"),
        node("Add", ["scaled", "bias"], "masked"),
        node("Softmax", ["masked"], "p", axis=-1),
        node("MatMul", ["p", "v"], "a"),
        node("Add", ["a", "e"], "r"),
        node("LayerNormalization", ["r", "gain", "shift"], "n"),
        node("MatMul", ["n", "up"], "u"),
        node("Relu", ["u"], "h"),
        node("MatMul", ["h", "down"], "states"),
        node("ReduceMean", ["states"], "pooled", axes=[1], keepdims=0),
    ]
    constants: dict[str, Any] = {f"w{each}": 0.1 * rng.standard_normal((WIDE, WIDE)) for each in "qkv"}
    constants |= {"table": rng.standard_normal((50, WIDE)), "gain": np.ones(WIDE), "shift": np.zeros(WIDE)}
    constants |= {
        "up": 0.1 * rng.standard_normal((WIDE, 200)),
        "down": 0.1 * rng.standard_normal((200, WIDE)),
    }
    constants |= {"scale": np.array(0.1), "one": np.array(1.0), "least": np.array(-1e4)}
    arrays = {name: array.astype(np.float32) for name, array in constants.items()}
    inputs = {"ids": ("batch", "n"), "mask": ("batch", "n")}
    made = model(
        nodes, inputs, ["states", "pooled"], {**arrays, "axis": np.array([1])}, dtype=TensorProto.INT64
    )
    for output in made.graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return made


def net() -> ModelProto:
    """Images of any size: convolutions, a residual, a pool."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1] * 4),
        node("Relu", ["a"], "b"),
        node("Conv", ["b", "v"], "c", pads=[1] * 4),
        node("Add", ["c", "b"], "d"),
        node("MaxPool", ["d"], "y", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    shape = (1, 3, "h", "w")
    return model(nodes, {"x": shape}, ["y"], {"w": (16, 3, 3, 3), "v": (16, 16, 3, 3)})


@dataclass
class Built:
    """A module as stock TVM loads it, and what it was made of."""

    file: Path
    machine: Any
    variants: Sequence[Variant]
    model: Path
    constants: str
    functions: str

    def __call__(self, entry: str, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        result = self.machine[entry](*map(tvm.runtime.tensor, feeds.values()))
        return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]


def built(folder: Path, made: ModelProto, sets: Any) -> Built:
    path, file = save(folder, made), folder / "module.so"
    executable, variants = build_sets(path, host_target(), 1, sets)
    export(executable, file)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(file)), tvm.cpu())
    return Built(file, machine, variants, path, *executable.stats().split("Globals"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(tmp_path_factory.mktemp("tokens"), encoder(), TOKENS)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(tmp_path_factory.mktemp("images"), net(), IMAGES)


def feeds_for(shapes: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng()
    if "x" in shapes:
        return {"x": rng.standard_normal(shapes["x"]).astype(np.float32)}
    mask = (rng.random(shapes["mask"]) < 0.7).astype(np.int64)
    mask[:, 0] = 1
    return {"ids": rng.integers(0, 50, shapes["ids"]), "mask": mask}


@pytest.mark.parametrize("name", ["tokens", "images"])
def test_every_set_of_shapes_gives_what_the_model_defines(name: str, request: pytest.FixtureRequest) -> None:
    module: Built = request.getfixturevalue(name)
    session = onnxruntime.InferenceSession(str(module.model), providers=["CPUExecutionProvider"])
    for each in [*module.variants, *reversed(module.variants)]:  # what one left in memory disturbs no other
        feeds = feeds_for(each.shapes)
        found = module("main", feeds)
        for value, right in zip(found, session.run(None, feeds), strict=True):
            assert value.shape == right.shape
            np.testing.assert_allclose(value, right, atol=2e-5 * np.abs(right).max())
        for value, alone in zip(found, module(each.entry, feeds), strict=True):
            np.testing.assert_array_equal(value, alone)


@pytest.mark.parametrize("shape", [(1, 8), (3, 7), (3, 33), (1, 34), (1, 1), (4, 12)])
def test_any_other_shape_is_an_error_that_lists_those_there_are(
    tokens: Built, shape: tuple[int, int]
) -> None:
    told = re.escape("; ".join(each.name for each in tokens.variants))
    with pytest.raises(ValueError, match=told):
        tokens("main", feeds_for({"ids": shape, "mask": shape}))
    assert "ids=1,33 mask=1,33" in told.replace("\\", "")


def test_inputs_of_different_sets_do_not_go_together(tokens: Built) -> None:
    with pytest.raises(ValueError, match="was not built for these input shapes"):
        tokens("main", feeds_for({"ids": (1, 7), "mask": (1, 12)}))
    tokens("main", feeds_for({"ids": (1, 12), "mask": (1, 12)}))  # and nothing is broken by that


def test_weights_are_there_once(tokens: Built) -> None:
    arrays = [onnx.numpy_helper.to_array(each) for each in onnx.load(tokens.model).graph.initializer]
    table = next(array for array in arrays if array.shape == (50, WIDE))
    assert tokens.file.read_bytes().count(table.tobytes()) == 1
    # Three products of the same shape, packed once for all sets whose configs want the same panels.
    packings = {
        layer.config["vectors"]
        for each in tokens.variants
        for layer in each.manifest.layers
        if isinstance(layer.workload, Gemm) and (layer.workload.n, layer.workload.k) == (WIDE, WIDE)
    }
    assert len(re.findall(rf"\[{WIDE * WIDE}\]", tokens.constants)) == 3 * len(packings)


def test_the_calls_of_a_small_model_are_one_for_each_set(tokens: Built) -> None:
    called = set(re.findall(r"tilefleet_sequence_\d", tokens.functions))
    assert called == {f"tilefleet_sequence_{at}" for at in range(len(TOKENS))}


def test_the_manifest_has_the_layers_of_each(images: Built) -> None:
    checks = [Check(1e-4, {"y": 1e-6}, {"y": 1e-4}, "onnxruntime") for _ in IMAGES]
    said = json.loads(json.dumps(description_of(images.variants, checks)))
    assert [each["inputs"] for each in said["shapes"]] == IMAGES
    assert all(len(each["layers"]) == 2 and each["checked"] for each in said["shapes"])
    assert said["checked"]
    assert said["target"] == said["shapes"][0]["target"]


def test_a_wrong_set_is_named() -> None:
    right = Check(1e-4, {"y": 1e-6}, {"y": 1e-4}, "onnxruntime")
    found = worst({"x=1,2": right, "x=1,3": Check(1e-4, wrong="y differs"), "x=1,4": right})
    assert found.wrong == "with x=1,3: y differs"
    assert worst({"": right}) == right


def test_workloads_are_those_of_all_sets(tmp_path: Path) -> None:
    path = save(tmp_path, net())
    alone = [extract(path, each) for each in IMAGES]
    found = extract(path, [*IMAGES, IMAGES[0]])
    assert sum(each.count for each in found.operators) == sum(
        o.count for each in alone for o in each.operators
    )
    assert {each.workload for each in found.operators} == {
        o.workload for each in alone for o in each.operators
    }
    assert [each[0].shape for each in (found.inputs, *found.more)] == [tuple(each["x"]) for each in IMAGES]
    assert Extraction.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_sets_are_bounded_and_told_as_given(tmp_path: Path) -> None:
    assert sets_of(None) == sets_of({}) == sets_of([]) == ({},)
    assert given_of(sets_of(IMAGES)) == IMAGES
    assert given_of(sets_of(IMAGES[0])) == IMAGES[0]
    assert given_of(sets_of(None)) is None
    with pytest.raises(ModelError, match=f"at most {MOST_SETS} sets"):
        sets_of([{"x": [n]} for n in range(1, MOST_SETS + 2)])
    free = model([node("Relu", ["x"], "y")], {"x": ()}, ["y"])
    free.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match="one number of axes, but there are x=2 and x=2,3"):
        build_sets(save(tmp_path, free), host_target(), 1, [{"x": [2]}, {"x": [2, 3]}])


def test_a_job_delivers_each_set(images: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels import target as targets

    monkeypatch.setattr(delivery_child, "ROUNDS", 5)
    payload = {
        "model": str(images.model),
        "shapes": IMAGES,
        "target": targets.to_json(host_target()),
        "threads": 1,
        "numerics": "relaxed",
        "records": [],
        "relayouts": [],
        "lock": str(tmp_path / "lock"),
        "id": "host",
    }
    found = Delivery.from_json(
        json.loads(json.dumps(delivery_child.deliver_in_child(payload, lambda _: None)))
    )
    assert found.check.checked
    assert [dict(each.shapes or {}) for each in found.each] == IMAGES
    assert all(each.check.checked and each.seconds for each in found.each)
    assert found.seconds == pytest.approx(sum(each.seconds or 0 for each in found.each))
