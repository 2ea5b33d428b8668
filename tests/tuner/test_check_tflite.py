"""Builds of TFLite files beside LiteRT: a conversion of ours that is wrong is seen."""

import os

import numpy as np
import pytest
import tvm
from test_tflite_states import lstm, svdf
from tvm import relax

from bench.tflite_models import FUSED, Maker, mobilenet
from compiler.load import load_graph
from compiler.readers.tflite import nearest
from tuner.backend.apply import build_model
from tuner.backend.comparison import CONVERSION, Build, check, check_and_locate
from tuner.backend.definition import Source, define
from tuner.backend.draws import plain_feeds
from worker.measure.host import host_target


def checked(folder, data, find=False):
    path = folder / "model.tflite"
    path.write_bytes(data)
    executable, manifest = build_model(path, {}, host_target())
    made = Build(str(path), None, manifest.target, 1, manifest.configs, manifest.tolerance)
    load = lambda: relax.VirtualMachine(executable, tvm.cpu())["main"]  # noqa: E731
    return check_and_locate(load, made, lambda _: None) if find else check(load, made)


def nearest_resize():
    make = Maker()
    both = {"alignCorners": True, "halfPixelCenters": True}
    data, size = make.input((1, 5, 6, 4)), [make.numbers(10, 12)]
    return make.file(make.like("RESIZE_NEAREST_NEIGHBOR", data, (1, 10, 12, 4), size, **both))


def test_a_wrong_conversion_is_wrong(tmp_path, monkeypatch):
    right = checked(tmp_path, nearest_resize())
    assert right.checked
    assert right.by.startswith("LiteRT ")
    monkeypatch.setattr(nearest, "is_resize", lambda *_: True)
    found = checked(tmp_path, nearest_resize(), find=True)
    assert "y differs by" in found.wrong
    assert "from what LiteRT" in found.wrong
    assert CONVERSION in found.wrong


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_networks_are_compared_with_litert(tmp_path, dtype):
    found = checked(tmp_path, mobilenet(dtype))
    assert found.checked, found
    assert found.by.startswith("LiteRT ")


def dense(by_bytes, folder=None):
    """A layer of floats; its weights are floats or bytes."""
    make = Maker()
    data, values = make.input((4, 64)), make.random.integers(-127, 128, (16, 64))
    if by_bytes:
        weights = make.tensor((16, 64), "int8", values=values, scales=np.float32(0.01), zero=0)
    else:
        weights = make.tensor((16, 64), values=values * 0.01)
    options = {"fusedActivationFunction": FUSED.NONE}
    return make.file(make.operator("FULLY_CONNECTED", [data, weights, -1], (4, 16), **options))


def test_what_litert_rounds_on_the_way_is_told(tmp_path):
    found = checked(tmp_path, dense(by_bytes=True))
    assert found.checked, found
    assert "which rounds data to bytes" in found.by
    assert found.allowed["y"] < 1e-3, "the module itself is compared as closely as any"
    assert checked(tmp_path, dense(by_bytes=False)).by.startswith("LiteRT ")


def test_weights_of_bytes_hide_no_wrong_conversion(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(dense(by_bytes=True))
    source = Source.of(path)
    feeds = plain_feeds(load_graph(path))
    assert "of our conversion; LiteRT" in define(source, feeds).by
    added = source.model.graph.node.add(op_type="Neg", output=["y"])
    source.model.graph.node[-2].output[0] = "negated"
    added.input.append("negated")
    defined = define(source, feeds)
    assert defined.by.startswith("LiteRT "), "it is too far from that: what is built of it will be wrong"


@pytest.mark.parametrize("data", [lstm(), svdf(2, True)], ids=["lstm", "svdf"])
def test_what_a_run_leaves_is_seen_by_the_next(tmp_path, data, monkeypatch):
    found = checked(tmp_path, data)
    assert found.checked, found
    assert found.by.startswith("LiteRT ")
    assert {"y"} < found.errors.keys()
    read = Source.of

    def forgetful(path, shapes=None):
        """A conversion that leaves another state."""
        source = read(path, shapes)
        for node in list(source.model.graph.node):
            for place, name in enumerate(node.output):
                if name.endswith("/next"):
                    node.output[place] = f"{name}/real"
                    added = source.model.graph.node.add(op_type="Neg")
                    added.input.append(f"{name}/real")
                    added.output.append(name)
        return source

    monkeypatch.setattr(Source, "of", forgetful)
    assert checked(tmp_path, data).wrong


def test_custom_operators_that_litert_lacks_are_compared_with_our_conversion(tmp_path):
    make = Maker()
    points, matrix = make.input((1, 9, 2), name="points"), make.input((1, 4, 4), name="matrix")
    value = make.custom("TransformLandmarks", [points, matrix], (1, 9, 2), b"")
    found = checked(tmp_path, make.file(value))
    assert found.checked, found
    assert "(LiteRT lacks its custom operators: of our conversion)" in found.by


def test_without_litert_the_verdict_says_so(tmp_path, monkeypatch):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['ai_edge_litert'] = None\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", ".")]))
    found = checked(tmp_path, nearest_resize())
    assert found.checked, found
    assert "(ai-edge-litert is not installed: of our conversion)" in str(found)


def test_kernels_that_crash_are_no_end(tmp_path, monkeypatch):
    """The plain ones are tried first, then the fast ones, at last our conversion."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import os\n"
        "import tuner.backend.litert as litert\n"
        "made = litert.LiteRT.__init__\n"
        "def crash(self, path, shapes, kind):\n"
        "    if kind == 'plain':\n"
        "        os.abort()\n"
        "    made(self, path, shapes, kind)\n"
        "litert.LiteRT.__init__ = crash\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", ".")]))
    found = checked(tmp_path, nearest_resize())
    assert found.checked, found
    assert "(its fast kernels)" in found.by
