"""``tilefleet build`` for another target: the module runs on a simulated board before it is handed over."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from typer.testing import CliRunner

from tilefleet import one_board
from tilefleet.cli import app
from tuner.backend import apply
from tuner.clibrary import on_board
from tuner.job.delivery_child import deliver_in_child

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(600)]


class InThisProcess:
    """A nursery whose children are calls, so that what a test has spoiled is spoiled there too."""

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None: ...

    def call(self, function: str, payload: dict, **_: object) -> dict:
        assert function == "tuner.job.delivery_child:deliver_in_child"
        return deliver_in_child(payload, lambda _: None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    weights = {"w": (8, 3, 3, 3), "v": (16, 8, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 11, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    path = tmp_path / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    (tmp_path / "log.jsonl").write_text("")
    return path


@pytest.fixture(autouse=True)
def home(simulated_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder that has the agents already."""
    monkeypatch.setenv("TILEFLEET_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "boards").symlink_to(simulated_dir)


def build(model: Path, module: Path, *more: str) -> Result:
    module.parent.mkdir(exist_ok=True)
    words = ["build", str(model), "--log", str(model.with_name("log.jsonl")), "-o", str(module), *more]
    return CliRunner().invoke(app, words)


def test_a_right_module_is_run_on_the_board_and_written(model: Path, tmp_path: Path) -> None:
    module = tmp_path / "out" / "m.so"
    done = build(model, module, "--target", "rpi4", "--board", "rpi4-sim")
    assert done.exit_code == 0, done.output
    assert "checked on board rpi4-sim: y differs by" in done.stdout
    manifest = json.loads(Path(f"{module}.json").read_text())
    assert manifest["checked"] is True
    assert (manifest["check"]["where"], manifest["check"]["skipped"]) == ("board rpi4-sim", "")
    assert 0 < manifest["check"]["errors"]["y"] < 1e-4
    assert {path.name for path in module.parent.iterdir()} == {"m.so", "m.so.json"}


def test_a_wrong_module_is_refused_by_its_first_wrong_tensor(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = apply.constants_of

    def spoil(product, config, target):
        weights, *rest = packed(product, config, target)
        return [weights * np.float32(1.1) if product.workload.out_c == 16 else weights, *rest]

    monkeypatch.setattr(apply, "constants_of", spoil)
    monkeypatch.setattr(one_board, "Nursery", InThisProcess)
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    done = build(model, tmp_path / "out" / "m.so", "--target", "rpi4", "--board", "rpi4-sim")
    assert done.exit_code == 1
    assert "the built module is wrong and was not written: c differs by 0.1" in done.stderr
    assert "(board rpi4-sim)" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_a_board_of_another_target_is_refused(model: Path, tmp_path: Path) -> None:
    done = build(model, tmp_path / "out" / "m.so", "--target", "power10", "--board", "rpi4-sim")
    assert done.exit_code == 1
    assert "board rpi4-sim is a rpi4, the module is for power10" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_a_library_is_run_on_the_board_and_a_wrong_one_is_not_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--target", "rpi4", "--board", "rpi4-sim", "--as", "c", "--name", "net")
    right, wrong = tmp_path / "out" / "right", tmp_path / "out" / "wrong"
    done = build(model, right, *words, "--weights", "file", "--threads", "2")
    assert done.exit_code == 0, done.output
    assert "rpi4: checked on board rpi4-sim: y differs by" in done.stdout
    (variant,) = json.loads((right / "net.json").read_text())["variants"]
    assert variant["check"]["where"] == "board rpi4-sim"

    whole = on_board.embedded
    monkeypatch.setattr(on_board, "embedded", lambda data, *rest: whole(data[::-1], *rest))
    done = build(model, wrong, *words)
    assert done.exit_code == 1
    assert "the library is wrong and was not written: y " in done.stderr
    assert "(board rpi4-sim)" in done.stderr
    assert list(wrong.iterdir()) == []


def test_a_library_with_an_open_size_is_run_there_at_several_lengths(tmp_path: Path) -> None:
    """Its product is of bytes, by kernels for Arm."""
    weights = {"w": np.random.default_rng(0).standard_normal((16, 7)).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"], axis=-1),
    ]
    ports = {"x": ["n", 16], "y": None}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports.items())
    arrays = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "test", [x], [y], arrays)
    path = tmp_path / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    quantize_dynamic(made, path, weight_type=QuantType.QInt8)
    (tmp_path / "log.jsonl").write_text("")
    words = ("--target", "rpi4", "--board", "rpi4-sim", "--as", "c", "--name", "net", "--shape", "x=1..40,16")
    done = build(path, tmp_path / "out", *words)
    assert done.exit_code == 0, done.output
    assert "rpi4: checked on board rpi4-sim: y differs by" in done.stdout
