"""Tables of large trees: read as arrays, the same numbers as protobuf's, in little memory."""

from contextlib import suppress

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import AttributeProto, ModelProto, helper, numpy_helper
from tvm import relax

from bench.trees import FEATURES, cost, ensemble
from compiler.ir.checks import ModelError
from compiler.load import load_graph
from compiler.passes.expand.onnx_ml.wire import codes, parse
from tuner.backend.apply import build_model
from worker.measure.host import host_target


def _attributes(model):
    return {each.name: each for each in model.graph.node[0].attribute}


def _varint(value):
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def test_the_numbers_are_protobufs():
    made = ensemble(40, 1000)
    node = made.graph.node[0]
    far = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 20_000)
    node.attribute.append(helper.make_attribute("nodes_far", far.tolist()))
    read = parse(made.SerializeToString())
    ours, theirs = _attributes(read), _attributes(made)
    assert set(ours) == set(theirs) - {"nodes_hitrates"}
    taken = {name for name, each in ours.items() if each.type == AttributeProto.TENSOR}
    assert {"nodes_modes", "nodes_values", "nodes_truenodeids", "nodes_far"} <= taken
    for name in taken:
        expected = helper.get_attribute_value(theirs[name])
        if name == "nodes_modes":
            expected = codes(expected)
        values = numpy_helper.to_array(ours[name].t)
        np.testing.assert_array_equal(values, np.asarray(expected))
    assert numpy_helper.to_array(ours["nodes_missing_value_tracks_true"].t).itemsize == 1
    for name in set(ours) - taken:
        assert ours[name] == theirs[name]
    del read.graph.node[:], made.graph.node[:]
    assert read == made


def _wrapped(field, *parts):
    body = b"".join(parts)
    return bytes([field << 3 | 2]) + _varint(len(body)) + body


def test_numbers_behind_one_tag():
    """As proto3 packs them."""
    values = np.random.default_rng(1).integers(-5, 2**40, 30_000)
    limits = np.random.default_rng(2).standard_normal(30_000).astype(np.float32)
    ints = b"".join(_varint(int(value) & (2**64 - 1)) for value in values)
    attributes = [
        _wrapped(5, _wrapped(1, b"nodes_treeids"), _wrapped(8, ints), b"\xa0\x01\x07"),
        _wrapped(5, _wrapped(1, b"nodes_values"), _wrapped(7, limits.tobytes()), b"\xa0\x01\x06"),
    ]
    data = _wrapped(7, _wrapped(1, _wrapped(2, b"y"), _wrapped(4, b"TreeEnsembleRegressor"), *attributes))
    assert list(ModelProto.FromString(data).graph.node[0].attribute[0].ints) == values.tolist()
    found = _attributes(parse(data))
    np.testing.assert_array_equal(numpy_helper.to_array(found["nodes_treeids"].t), values)
    np.testing.assert_array_equal(numpy_helper.to_array(found["nodes_values"].t), limits)


def test_other_names_and_damage_are_protobufs_matter(tmp_path):
    made = ensemble(40, 1000)
    modes = _attributes(made)["nodes_modes"]
    modes.strings[7] = b"BRANCH_ODD"
    data = made.SerializeToString()
    assert parse(data) == made
    path = tmp_path / "trees.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"'y'.*compares in a way that is not known"):
        load_graph(path)
    whole = ensemble(40, 1000).SerializeToString()
    random = np.random.default_rng(3)
    for _ in range(30):
        damaged = bytearray(whole)
        for at in random.integers(0, len(whole), 3):
            damaged[at] = random.integers(0, 256)
        path.write_bytes(damaged)
        with suppress(ModelError):
            load_graph(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="truncated"):
        load_graph(path)


def test_a_large_ensemble_is_onnxruntimes(tmp_path):
    path = tmp_path / "trees.onnx"
    made = ensemble(100, 1000)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 50
    path.write_bytes(made.SerializeToString())
    data = np.random.default_rng(1).standard_normal((50, FEATURES)).astype(np.float32)
    data[::7, ::3] = np.nan
    executable, _ = build_model(path, {}, host_target())
    ours = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()
    (theirs,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_reading_takes_little_memory(tmp_path):
    path = tmp_path / "trees.onnx"
    path.write_bytes(ensemble(400, 1000).SerializeToString())
    size = path.stat().st_size
    before, most, _ = cost("tilefleet", path)
    theirs = cost("onnxruntime", path)
    assert most - before < 5 * size
    assert 2 * (most - before) < theirs[1] - theirs[0]
