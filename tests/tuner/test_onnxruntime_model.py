"""A model for onnxruntime with our operators in it: the module's bits, and what onnxruntime keeps."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import onnx
import pytest
import tvm
from c_models import MODELS
from onnx import TensorProto, helper
from test_c_library import TARGET
from test_c_shapes import open_model
from test_open_sizes import transformer
from tiny_models import model, node, save
from tvm import relax
from typer.testing import CliRunner

from kernels.numerics import Numerics
from tilefleet.cli import app
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.backend.shape_sets import build_sets
from tuner.clibrary.build import Model, make, write
from tuner.clibrary.cpu import Needs
from tuner.ortmodel import session as sessions
from tuner.ortmodel.library import write_library
from tuner.ortmodel.model import plain_model, ports_of, rewired, whole
from tuner.ortmodel.regions import Parts
from tuner.ortmodel.session import Turns, session

pytestmark = [
    pytest.mark.usefixtures("avx2"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("onnxruntime_model"),
]
pytest.importorskip("onnxruntime")


def mixed():
    """Two regions of ours around a norm that nothing here computes; what follows has as many as data say."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1] * 4),
        node("Relu", ["a"], "b"),
        node("LpNormalization", ["b"], "c", p=1, axis=1),
        node("Conv", ["b", "v"], "side", pads=[1] * 4),
        node("Add", ["c", "side"], "d"),
        node("Conv", ["d", "u"], "e"),
        node("Shape", ["c"], "extents"),
        node("Slice", ["extents", "zero", "one"], "first"),
        node("Concat", ["first", "rest"], "target", axis=0),
        node("Reshape", ["e", "target"], "f"),
        node("MatMul", ["f", "t"], "g"),
        node("TopK", ["g", "few"], ["top", "at"], axis=1),
        node("NonZero", ["g"], "where"),
    ]
    constants = {"w": (8, 3, 3, 3), "v": (8, 8, 3, 3), "u": (5, 8, 3, 3), "t": (5 * 7 * 9, 10)}
    constants |= {name: np.array([value]) for name, value in (("zero", 0), ("one", 1), ("rest", -1))}
    constants["few"] = np.array([3])
    made = model(nodes, {"x": (1, 3, 9, 11)}, ["top", "at", "where", "c"], constants)
    for value in made.graph.output[1:3]:
        value.type.tensor_type.elem_type = TensorProto.INT64
    return made


def build(folder, made, *more):
    path, log = save(folder, made), folder / "log.jsonl"
    log.write_text("")
    words = ["build", path, "--log", log, "--as", "onnxruntime", "-o", folder / "out", "--name", "net", *more]
    return CliRunner().invoke(app, [*map(str, words)])


def manifest(folder):
    return json.loads((folder / "out" / "net.json").read_text())


def loaded(folder, threads=1):
    return session(folder / "out" / "model.onnx", folder / "out" / "libnet.so", threads)


def bits(results):
    return [(each.dtype, each.shape, each.tobytes()) for each in results]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Name -> the folder of a model and of what was built of it for two threads."""
    made = {"convolutions": MODELS["convolutions"](), "mixed": mixed()}
    folders = {name: tmp_path_factory.mktemp(name) for name in made}
    for name, folder in folders.items():
        done = build(folder, made[name], "--target", "x86-avx2", "--threads", "2")
        assert done.exit_code == 0, done.output
    return folders


def test_a_model_that_is_all_ours_is_one_node_with_the_bits_of_the_module(built):
    folder = built["convolutions"]
    (only,) = onnx.load(folder / "out" / "model.onnx").graph.node
    assert (only.domain, only.op_type) == ("tilefleet.net", "net")
    said = manifest(folder)
    assert said["checked"]
    assert [each["name"] for each in said["operators"]] == ["net"]
    assert said["left"] == said["slower"] == []
    found = loaded(folder, 2)
    executable, _ = build_model(folder / "model.onnx", {}, TARGET, 2)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    data = np.random.default_rng().standard_normal((1, 5, 17, 19)).astype(np.float32)
    expected = bits(run(main, {"x": data}))
    assert bits(found.run(None, {"x": data})) == expected
    # Threads that run it at once each have their arena; one session with a pool, one without.
    alone = loaded(folder, 1)
    with ThreadPoolExecutor(4) as pool:
        for each in pool.map(lambda n: (found, alone)[n % 2].run(None, {"x": data}), range(40)):
            assert bits(each) == expected


def test_arrays_that_begin_anywhere_are_taken_as_onnxruntime_takes_them(built):
    folder = built["convolutions"]
    data = np.random.default_rng().standard_normal((1, 5, 17, 19)).astype(np.float32)
    memory = np.zeros(data.nbytes + 1, np.uint8)
    memory[1:] = np.frombuffer(data.tobytes(), np.uint8)
    odd = memory[1:].view(np.float32).reshape(data.shape)
    assert odd.ctypes.data % 4
    session(folder / "model.onnx", None, 1).run(None, {"x": odd})
    found = loaded(folder, 2)
    assert bits(found.run(None, {"x": odd})) == bits(found.run(None, {"x": data}))


def test_nodes_that_nothing_here_computes_stay_with_onnxruntime(built):
    folder = built["mixed"]
    graph = onnx.load(folder / "out" / "model.onnx").graph
    assert [each.op_type for each in graph.node] == ["net_0", "LpNormalization", "net_1", "NonZero"]
    assert not graph.initializer
    said = manifest(folder)
    assert said["checked"]
    assert [(each["node"], each["op"]) for each in said["left"]] == [
        ("c", "LpNormalization"),
        ("where", "NonZero"),
    ]
    reasons = [each["reason"] for each in said["left"]]
    for reason, word in zip(reasons, ["LpNormalization", "not known before it runs"], strict=True):
        assert word in reason
    assert [each["nodes"] for each in said["operators"]] == [3, 5]
    data = np.random.default_rng().standard_normal((1, 3, 9, 11)).astype(np.float32)
    found = loaded(folder).run(None, {"x": data})
    right = session(folder / "model.onnx", None, 1).run(None, {"x": data})
    for ours, theirs in zip(found, right, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_behind_an_operator_of_another_library_there_are_regions_as_well(tmp_path):
    """Only onnxruntime knows its shape."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1] * 4),
        node("SampleOp", ["a"], "b", domain="com.microsoft"),
        node("Shape", ["b"], "extents"),
        node("Reshape", ["b", "extents"], "c"),
        node("Conv", ["c", "v"], "d", pads=[1] * 4),
        node("Flatten", ["d"], "y"),
    ]
    made = model(nodes, {"x": (1, 3, 7, 7)}, ["y"], {"w": (4, 3, 3, 3), "v": (4, 4, 3, 3)})
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    parts = Parts("net", made, made, tmp_path)
    assert [(each.nodes, each.inputs, each.outputs) for each in parts.regions()] == [
        ({0}, ("x",), ("a",)),
        ({3, 4, 5}, ("b",), ("y",)),
    ]
    assert [(each.node, each.op) for each in parts.left()] == [("b", "SampleOp")]


def test_regions_are_never_left_and_entered_again(tmp_path):
    """What is on a way through another's node is not in one operator with both of its ends."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1] * 4),
        node("LpNormalization", ["a"], "b", p=1, axis=1),
        node("Conv", ["a", "w"], "c", pads=[1] * 4),
        node("Add", ["b", "c"], "d"),
        node("Conv", ["c", "w"], "e", pads=[1] * 4),
        node("Add", ["d", "e"], "f"),
        node("Conv", ["f", "w"], "y", pads=[1] * 4),
    ]
    made = model(nodes, {"x": (1, 4, 7, 7)}, ["y"], {"w": (4, 4, 3, 3)})
    parts = Parts("net", made, made, tmp_path)
    assert [each.nodes for each in parts.regions()] == [{0, 2, 4}, {3, 5, 6}]


def test_what_cannot_be_written_as_c_is_left_alone_and_what_is_near_it_is_not(tmp_path):
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1] * 4),
        node("Sigmoid", ["a"], "b"),
        node("Conv", ["b", "w"], "c", pads=[1] * 4),
        node("Tanh", ["c"], "y"),
    ]
    made = model(nodes, {"x": (1, 4, 7, 7)}, ["y"], {"w": (4, 4, 3, 3)})
    parts = Parts("net", made, made, tmp_path)

    def refusal(path):
        return "no Sigmoid" if any(each.op_type == "Sigmoid" for each in onnx.load(path).graph.node) else ""

    (region,) = parts.regions()
    parts.refuse(region, refusal, "it has a Sigmoid")
    assert [each.nodes for each in parts.regions()] == [{0}, {2, 3}]
    assert [(each.node, each.reason) for each in parts.left()] == [("b", "no Sigmoid")]
    # Where no node by itself is the cause, the region is left as a whole.
    parts.refuse(parts.regions()[1], lambda _: "", "they do not go together")
    assert [each.nodes for each in parts.regions()] == [{0}]
    assert parts.left()[-1].reason == "they do not go together"


def test_others_see_one_function_and_it_needs_the_system_alone(built):
    library = built["mixed"] / "out" / "libnet.so"
    done = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True)
    symbols = [line.split()[-2:] for line in done.stdout.splitlines()]
    assert [name for kind, name in symbols if kind not in "Uw"] == ["RegisterCustomOps"]
    wanted = {name.partition("@")[0] for kind, name in symbols if kind == "U"}
    memory = {"aligned_alloc", "free", "malloc", "memcpy", "memmove", "memset", "memcmp", "bcmp"}
    text = {"snprintf", "strchr", "strtol", "atoi"}
    assert wanted <= memory | text | {"pthread_mutex_lock", "pthread_mutex_unlock"}


def test_another_shape_gets_an_error_with_its_name(built, tmp_path):
    folder = built["convolutions"]
    opened = onnx.load(folder / "out" / "model.onnx")
    opened.graph.input[0].type.tensor_type.shape.dim[3].Clear()
    onnx.save(opened, tmp_path / "open.onnx")
    found = session(tmp_path / "open.onnx", folder / "out" / "libnet.so", 1)
    for shape in ((1, 5, 17, 20), (1, 5, 17, 0)):
        with pytest.raises(
            Exception, match=r"input 'x' has the shape .* was built for .1, 5, 17, 19"
        ) as error:
            found.run(None, {"x": np.zeros(shape, np.float32)})
        assert ", ".join(map(str, shape)) in str(error.value)
    found.run(None, {"x": np.zeros((1, 5, 17, 19), np.float32)})


def test_a_processor_that_is_too_old_is_told_when_the_model_is_loaded(tmp_path):
    path = save(tmp_path, model([node("Relu", ["x"], "y")], {"x": (3, 5)}, ["y"]))
    made = make(Model(path, None, [], [], Numerics.EXACT_INTEGERS), [TARGET], "net", "", "", embed=True)
    (variant,) = made.library.variants
    never = Needs({**variant.needs.registers, "leaf7_edx": 1}, variant.needs.kept)  # a bit that means nothing
    library = replace(made.library, variants=(replace(variant, needs=never),))
    write(replace(made, library=library), tmp_path)
    plain = plain_model(path, None)
    region = whole("net", plain, path, None)
    (tmp_path / "ours.onnx").write_bytes(rewired(plain, "net", [(region, library)]).SerializeToString())
    write_library("net", [(library, tmp_path)], TARGET, tmp_path / "libnet.so")
    with pytest.raises(Exception, match="this processor lacks instructions"):
        session(tmp_path / "ours.onnx", tmp_path / "libnet.so", 1)


def test_what_is_slower_than_onnxruntime_is_left_to_it(tmp_path, monkeypatch):
    taken = iter([Turns(2.0, 1.0), Turns(1.0, 2.0), Turns(3.0, 2.0)])
    monkeypatch.setattr(sessions, "compared", lambda *_: next(taken))
    done = build(tmp_path, mixed())
    assert done.exit_code == 0, done.output
    said = manifest(tmp_path)
    assert [each["name"] for each in said["operators"]] == ["net_0"]
    assert [(each["name"], each["ratio"]) for each in said["slower"]] == [("net_1", 0.5)]
    assert said["timed"] == {"plain_s": 3.0, "ours_s": 2.0, "ratio": 1.5}
    left = [each.op_type for each in onnx.load(tmp_path / "out" / "model.onnx").graph.node]
    assert {"net_0", "LpNormalization"} < set(left)
    assert "MatMul" in left

    taken = iter([Turns(1.0, 2.0)])
    done = build(tmp_path, model([node("Gemm", ["x", "w"], "y")], {"x": (3, 5)}, ["y"], {"w": (5, 7)}))
    assert done.exit_code == 0, done.output
    assert "because it is faster: 1 operator" in done.output
    said = manifest(tmp_path)
    assert said["operators"] == []
    assert [each["ratio"] for each in said["slower"]] == [0.5]
    assert [each.op_type for each in onnx.load(tmp_path / "out" / "model.onnx").graph.node] == ["Gemm"]
    assert ports_of(plain_model(tmp_path / "out" / "model.onnx", None)) == {"x": ((3, 5), "float32")}
    (result,) = loaded(tmp_path).run(None, {"x": np.ones((3, 5), np.float32)})
    assert result.shape == (3, 7)


def test_another_machine_is_built_for_and_the_manifest_says_that_nothing_ran(tmp_path):
    made = model([node("Gemm", ["x", "w"], "y")], {"x": (3, 5)}, ["y"], {"w": (5, 7)})
    done = build(tmp_path, made, "--target", "rpi4")
    assert done.exit_code == 0, done.output
    said = manifest(tmp_path)
    assert not said["checked"]
    assert "another machine" in said["check"]["skipped"]
    assert "this machine is not of rpi4" in said["timed"]["skipped"]
    machine = (tmp_path / "out" / "libnet.so").read_bytes()[18:20]
    assert int.from_bytes(machine, "little") == 183  # aarch64


def test_what_cannot_be_built_is_refused_by_its_name(tmp_path):
    norm = model([node("LpNormalization", ["x"], "y", p=1)], {"x": (3, 5)}, ["y"])
    refused = build(tmp_path, norm)
    assert refused.exit_code == 1
    assert "LpNormalization (node 'y')" in refused.output
    assert not (tmp_path / "out" / "model.onnx").exists()
    relu = model([node("Relu", ["x"], "y")], {"x": (3, 5)}, ["y"])
    assert "weights in it" in build(tmp_path, relu, "--weights", "file").output
    assert "no onnxruntime" in build(tmp_path, relu, "--target", "hexagon-v68", "--no-check").output
    relu = model([node("Relu", ["x"], "y")], {"x": ("n", 5)}, ["y"])
    assert "'x' [n, 5] has a dynamic shape" in build(tmp_path, relu).output
    mixed = model(
        [node("Gemm", ["x", "w"], "a"), node("LpNormalization", ["a"], "y", p=1)],
        {"x": ("n", 5)},
        ["y"],
        {"w": (5, 7)},
    )
    several = " ".join(build(tmp_path, mixed, "--shape", "x=3,5", "--shape", "x=4,5").output.split())
    assert "all of it must be computed here, and" in several
    assert "LpNormalization (node 'y')" in several


def test_several_sets_of_shapes_are_one_operator(tmp_path):
    sets = [(1, 5, 17, 19), (2, 5, 9, 8)]
    words = [word for each in sets for word in ("--shape", f"x={','.join(map(str, each))}")]
    done = build(tmp_path, open_model(), *words, "--target", "x86-avx2", "--threads", "2")
    assert done.exit_code == 0, done.output
    assert "checked on this machine" in done.output
    made = onnx.load(tmp_path / "out" / "model.onnx")
    (only,) = made.graph.node
    assert (only.domain, only.op_type) == ("tilefleet.net", "net")
    dims = made.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["x_0", 5, "x_2", "x_3"]
    found = loaded(tmp_path, 2)
    given = [{"x": shape} for shape in sets]
    executable, _ = build_sets(tmp_path / "model.onnx", TARGET, 2, given)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for shape in (*sets, sets[0]):
        data = np.random.default_rng().standard_normal(shape).astype(np.float32)
        assert bits(found.run(None, {"x": data})) == bits(run(main, {"x": data}))
    with pytest.raises(Exception, match=r"shape .1, 5, 9, 8., .* for .1, 5, 17, 19. and 1 other sets of"):
        found.run(None, {"x": np.zeros((1, 5, 9, 8), np.float32)})


def test_a_size_may_be_left_open(tmp_path):
    shapes = {"ids": (1, "1..40"), "mask": (1, "1..40")}
    words = ("--shape", "ids=1,1..40 mask=1,1..40", "--target", "x86-avx2")
    done = build(tmp_path, transformer(), *words)
    assert done.exit_code == 0, done.output
    assert "checked on this machine" in done.output
    found = loaded(tmp_path)
    executable, _ = build_sets(tmp_path / "model.onnx", TARGET, 1, shapes)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    rng = np.random.default_rng()
    for length in (1, 17, 40, 3):
        feeds = {"ids": rng.integers(0, 50, (1, length)), "mask": np.ones((1, length), np.int64)}
        assert bits(found.run(None, feeds)) == bits(run(main, feeds))
    for wrong in ((1, 41), (1, 0)):
        feeds = dict.fromkeys(("ids", "mask"), np.ones(wrong, np.int64))
        with pytest.raises(Exception, match="of which a size is from 1 to 40"):
            found.run(None, feeds)
