import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tiny_models import LIGHT, model, node, save

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.load import load_graph, read_model
from worker.children.nursery import ChildRaised, Nursery


def conv_model(x=(1, 4, 6, 6), **fields):
    return model([node("Conv", ["x", "w"], "y")], {"x": x}, ["y"], {"w": (4, 4, 3, 3)}, **fields)


def refused(path, *words, shapes=None):
    with pytest.raises(ModelError) as error:
        extract(path, shapes)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"GIF89a not a model at all", "not an ONNX or TFLite model"),
        (b"\x08\x07", "not an ONNX or TFLite model"),
        (bytes(range(256)) * 40, "not an ONNX or TFLite model"),
    ],
)
def test_no_model(tmp_path, data, word):
    (tmp_path / "thing.onnx").write_bytes(data)
    refused(tmp_path / "thing.onnx", "thing.onnx", word)


def test_no_file(tmp_path):
    refused(tmp_path / "absent.onnx", "absent.onnx", "cannot be read")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated(tmp_path, share):
    data = (LIGHT / "light_squeezenet.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(data[: int(len(data) * share)])
    refused(tmp_path / "cut.onnx")


def test_external_data_is_never_read(tmp_path):
    made = conv_model()
    weights = made.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    refused(save(tmp_path, made), "initializer 'w'", "another file")


def test_external_data_in_an_attribute(tmp_path):
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    made = model([node("Constant", [], "c", value=tensor), node("Add", ["x", "c"], "y")], {"x": (4,)}, ["y"])
    refused(save(tmp_path, made), "attribute 'value'", "node 'c'", "another file")


def test_nothing_to_compute(tmp_path):
    made = conv_model()
    del made.graph.output[:]
    refused(save(tmp_path, made), "no outputs")


def test_more_dimensions_than_data(tmp_path):
    made = conv_model()
    made.graph.initializer[0].dims[0] = 400
    refused(save(tmp_path, made), "initializer 'w'", "needs 57600 bytes and has 576")


def test_dimensions_whose_product_is_absurd(tmp_path):
    made = conv_model()
    made.graph.initializer[0].dims[:] = [2**40, 2**40, 3, 3]
    refused(save(tmp_path, made), "initializer 'w'", "GiB")


def test_negative_dimension(tmp_path):
    made = conv_model()
    made.graph.initializer[0].dims[:] = [-4, -4, 3, 3]
    refused(save(tmp_path, made), "initializer 'w'", "negative")


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_unknown_operator(tmp_path, domain):
    made = model([node("Frobnicate", ["x"], "y", domain=domain)], {"x": (4,)}, ["y"])
    refused(save(tmp_path, made), "Frobnicate", "node 'y'")


def test_dynamic_shape_says_how_to_give_it(tmp_path):
    path = save(tmp_path, conv_model(("N", 4, 6, "width")))
    refused(path, "input 'x' [N, 4, 6, width]", "--shape x=1,4,6,224")
    assert extract(path, {"x": [2, 4, 6, 7]}).operators[0].workload.data_shape == (2, 4, 6, 7)


def test_an_extent_of_minus_one_is_dynamic(tmp_path):
    path = save(tmp_path, conv_model((-1, 4, 6, -1)))
    refused(path, "[?, 4, 6, ?]", "x=1,4,6,224")
    assert extract(path, {"x": [2, 4, 6, 7]}).operators[0].workload.data_shape == (2, 4, 6, 7)


def test_all_dynamic_inputs_are_told_at_once_with_sizes_that_can_be_used(tmp_path):
    """What is told is read without complaint; one that is given is not asked for again."""
    nodes = [
        *(
            node("MatMul", ["ids", "w"], "a"),
            node("MatMul", ["mask 1", "w"], "b"),
            node("Add", ["a", "b"], "y"),
        ),
        *(node("Relu", ["image"], "z"), node("Exp", ["fixed"], "f")),
    ]
    shapes = {"ids": ("batch", "seq"), "mask 1": ("batch", "seq"), "image": None, "fixed": (2,)}
    made = model(nodes, shapes, ["y", "z", "f"], {"w": (512, 3)})
    path = save(tmp_path, made)
    with pytest.raises(ModelError) as error:
        extract(path)
    said = str(error.value)
    assert "'ids' [batch, seq], 'mask 1' [batch, seq], 'image' of unknown shape" in said
    assert "--shape ids=1,512 --shape 'mask 1'=1,512 --shape image=1,3,512,512" in said
    given = {"ids": [1, 512], "mask 1": [1, 512]}
    with pytest.raises(ModelError, match=r"^input 'image' .* like --shape image=1,3,224,224$"):
        extract(path, given)
    extract(path, {**given, "image": [1, 3, 8, 8]})


def test_of_several_misfits_the_first_is_told(tmp_path):
    nodes = [node("Add", ["x", "w"], "sum"), node("Transpose", ["sum"], "t", perm=[0, 1])]
    made = model([*nodes, node("Concat", ["t", "w"], "y", axis=0)], {"x": (1, 4, 6, 6)}, ["y"], {"w": (5, 7)})
    refused(save(tmp_path, made), "'sum' (Add)", "ncompatible dimensions")


def test_operators_of_the_optimizer_say_how_to_export_without(tmp_path):
    made = model([node("SkipGroupNorm", ["x"], "y", domain="com.microsoft")], {"x": (4,)}, ["y"])
    refused(
        save(tmp_path, made),
        "com.microsoft.SkipGroupNorm (node 'y')",
        "without onnxruntime's optimizer",
    )


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"z": [1, 4, 6, 6]}, ["no input 'z'", "['x']"]),
        ({"x": [1, 4, 6]}, ["[1, 4, 6]", "[N, 4, 6, 6]"]),
        ({"x": [1, 5, 6, 6]}, ["[1, 5, 6, 6]", "[N, 4, 6, 6]"]),
        ({"x": [-1, 4, 6, 6]}, ["negative", "'x'"]),
        ({"x": [1, 4, 6, "6"]}, ["positive", "'x'"]),
        ({"x": [10**9, 4, 6, 6]}, ["input 'x'", "GiB"]),
    ],
)
def test_shapes_that_do_not_fit(tmp_path, shapes, words):
    refused(save(tmp_path, conv_model(("N", 4, 6, 6))), *words, shapes=shapes)


def test_weights_that_do_not_fit_the_input(tmp_path):
    refused(save(tmp_path, conv_model((1, 5, 6, 6))), "shapes do not fit")


def bomb(op, *inputs, **constants):
    return model([node(op, list(inputs), "big"), node("Relu", ["big"], "y")], {"x": (1,)}, ["y"], constants)


@pytest.mark.parametrize(
    "made",
    [
        bomb("ConstantOfShape", "s", s=np.array([10**6, 10**6])),
        bomb("Expand", "c", "s", c=np.ones(1, np.float32), s=np.array([10**6, 10**6])),
        bomb("Expand", "x", "s", s=np.array([10**6, 10**6])),
        bomb("Tile", "c", "r", c=np.ones((1, 1), np.float32), r=np.array([10**6, 10**6])),
        bomb("Range", "a", "b", "c", a=np.float32(0), b=np.float32(1e12), c=np.float32(1)),
    ],
    ids=["ConstantOfShape", "Expand", "Expand of an input", "Tile", "Range"],
)
def test_bombs_are_refused_before_they_go_off(tmp_path, made):
    refused(save(tmp_path, made), "big")


def test_many_constants_of_allowed_size_are_a_bomb_too(tmp_path, monkeypatch):
    monkeypatch.setattr("compiler.passes.shapes.folding.FOLDED_BYTES", 10 * 1024**2)
    nodes = [node("Expand", ["c", f"s{i}"], f"big{i}") for i in range(4)] + [
        node("Sum", [f"big{i}" for i in range(4)], "total"),
        node("Add", ["x", "total"], "y"),
    ]
    sizes = {f"s{i}": np.array([1024**2]) for i in range(4)}
    made = model(nodes, {"x": (1,)}, ["y"], {"c": np.ones(1, np.float32), **sizes})
    refused(save(tmp_path, made), "constants take more than")


def test_loop(tmp_path):
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, [])]
    inputs += [helper.make_tensor_value_info("on", TensorProto.BOOL, [])]
    inputs += [helper.make_tensor_value_info("a", 1, [4])]
    body = helper.make_graph(
        [node("Identity", ["on"], "still"), node("Add", ["a", "a"], "b")],
        "body",
        inputs,
        [helper.make_tensor_value_info("still", TensorProto.BOOL, []), inputs[2], inputs[2]],
    )
    loop = node("Loop", ["n", "", "x"], ["y", "all"], body=body)
    made = model([loop], {"x": (4,)}, ["all"], {"n": np.array(10**9)})
    refused(save(tmp_path, made), "y/all/room", "[1000000000, 4]", "GiB")


def doubling(*nodes):
    """A model that calls functions of its own; each of them makes b of a."""
    made = model([node("F0", ["x"], "y", domain="mine")], {"x": (4,)}, ["y"])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    made.opset_import.append(imports[1])
    for number, body in enumerate(nodes):
        made.functions.append(helper.make_function("mine", f"F{number}", ["a"], ["b"], body, imports))
    return made


def test_functions_of_its_own_are_put_in_the_place_of_their_calls(tmp_path):
    """One calls another; the build computes what the file does."""
    inner = [node("F1", ["a"], "t", domain="mine"), node("Mul", ["t", "t"], "b")]
    made = doubling(inner, [node("Add", ["a", "a"], "b")])
    read = read_model(save(tmp_path, made))
    assert [each.op_type for each in read.graph.node] == ["Add", "Mul"]


def test_functions_without_end(tmp_path):
    again = [node("F1", ["a"], "b", domain="mine")]
    refused(save(tmp_path, doubling(again, [node("F0", ["a"], "b", domain="mine")])), "'F0' calls itself")
    twice = [
        [node(f"F{n + 1}", ["a"], "t", domain="mine"), node(f"F{n + 1}", ["t"], "b", domain="mine")]
        for n in range(40)
    ]
    many = doubling(*twice, [node("Neg", ["a"], "b")])
    refused(save(tmp_path, many), f"come to {2**40} nodes")


def test_a_node_that_reads_what_nobody_writes(tmp_path):
    refused(
        save(tmp_path, model([node("Relu", ["ghost"], "y")], {"x": (4,)}, ["y"])), "not valid ONNX", "ghost"
    )


def test_two_initializers_of_one_name(tmp_path):
    made = conv_model()
    made.graph.initializer.append(made.graph.initializer[0])
    refused(save(tmp_path, made), "two initializers", "'w'")


def test_an_operator_set_from_the_future(tmp_path):
    made = conv_model()
    made.opset_import[0].version = onnx.defs.onnx_opset_version() + 5
    refused(save(tmp_path, made), "operator set", "newest")


def test_no_default_operator_set(tmp_path):
    made = conv_model()
    made.opset_import[0].domain = "com.example"
    refused(save(tmp_path, made))


def test_in_a_disposable_child_it_is_the_same(tmp_path):
    bad = save(tmp_path, conv_model(("N", 4, 6, 6)))
    with Nursery(preload=("compiler.intake.extract",)) as nursery:
        found = nursery.call(
            "compiler.intake.extract:extract_child",
            {"path": str(bad), "shapes": {"x": [1, 4, 6, 6]}},
            timeout_s=60,
        )
        assert [operator["count"] for operator in found["operators"]] == [1]
        with pytest.raises(ChildRaised) as error:
            nursery.call("compiler.intake.extract:extract_child", {"path": str(bad)}, timeout_s=60)
    assert error.value.type_name == "ModelError"
    assert "[N, 4, 6, 6] has a dynamic shape" in error.value.message


def test_flipped_bytes_are_a_model_error_or_do_no_harm(tmp_path):
    rng = random.Random(11)
    original = (LIGHT / "light_shufflenet.onnx").read_bytes()
    refusals = 0
    for _ in range(60):
        data = bytearray(original)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / "flipped.onnx").write_bytes(data)
        try:
            extract(tmp_path / "flipped.onnx")
        except ModelError:
            refusals += 1
    assert refusals > 20


@pytest.mark.parametrize(
    ("op", "shape", "fields", "words"),
    [
        (
            "Conv",
            (4, 4, 3, 3),
            {"kernel_shape": [7, 7]},
            r"kernel_shape \[7, 7\], but .* windows of \[3, 3\]",
        ),
        ("ConvTranspose", (4, 2, 3, 3), {"kernel_shape": [3, 5]}, r"kernel_shape \[3, 5\]"),
        ("Conv", (4, 4, 3, 3), {"auto_pad": "EVIL"}, "auto_pad 'EVIL'; there are NOTSET, VALID"),
        ("ConvTranspose", (4, 2, 3, 3), {"auto_pad": "same"}, "auto_pad 'same'"),
        ("MaxPool", None, {"auto_pad": "EVIL", "kernel_shape": [2, 2]}, "auto_pad 'EVIL'"),
    ],
)
def test_windows_that_contradict_themselves(tmp_path, op, shape, fields, words):
    inputs = ["x", "w"] if shape else ["x"]
    made = model([node(op, inputs, "y", **fields)], {"x": (1, 4, 6, 6)}, ["y"], {"w": shape} if shape else {})
    with pytest.raises(ModelError, match=rf"node 'y' \({op}\) has {words}"):
        extract(save(tmp_path, made))


def test_what_an_operator_is_defined_by_has_its_name(tmp_path):
    moments = node("MeanVarianceNormalization", ["x"], "moments")
    path = save(tmp_path, model([moments], {"x": (2, 3)}, ["moments"], opset=13))
    refused(path, "shapes do not fit together at node 'moments'")
    cut = node("CenterCropPad", ["x", "size"], "middle")
    made = model([node("Relu", ["z"], "x"), cut], {"z": (4, 5), "size": (2,)}, ["middle"], opset=18)
    made.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    refused(save(tmp_path, made), "what node 'middle'", "--value size=NUMBER,NUMBER")


def test_a_size_that_an_input_gives(tmp_path):
    made = model(
        [node("Concat", ["start", "size"], "to", axis=0), node("Resize", ["x", "", "", "to"], "y")],
        {"x": (1, 3, 8, 8), "size": (2,)},
        ["y"],
        {"start": np.array([1, 3])},
    )
    made.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    refused(save(tmp_path, made), "node 'y' (Resize)", "on the input 'size'", "--value size=NUMBER,NUMBER")


def test_weights_of_texts(tmp_path):
    made = conv_model()
    texts = onnx.TensorProto(name="w", data_type=TensorProto.STRING, dims=[4, 4, 3, 3])
    texts.string_data.extend([b"7"] * 144)
    made.graph.initializer[0].CopyFrom(texts)
    refused(save(tmp_path, made), "types do not fit together at node 'y' (Conv)", "tensor(string)")


def test_two_operator_sets_of_one_domain(tmp_path):
    made = conv_model()
    made.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    refused(save(tmp_path, made), "imports two operator sets of 'ai.onnx'")


@pytest.mark.parametrize(
    ("made", "shape", "name"),
    [
        (node("CumSum", ["x", "n"], "y"), (), "n"),
        (node("CumSum", ["x", "n"], "y"), (1,), "n"),
        (node("DFT", ["x", "", "n"], "y"), (), "n"),
        (node("Dropout", ["x", "", "t"], "y"), (), "t"),
    ],
)
def test_what_decides_is_asked_for(tmp_path, made, shape, name):
    """Also where the shape of the result is known without it."""
    kind = TensorProto.BOOL if name == "t" else TensorProto.INT64
    whole = model([made], {"x": (1, 4, 1)}, ["y"], opset=20)
    whole.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    with pytest.raises(ModelError, match=rf"depends on the input '{name}': give .* --value {name}=NUMBER$"):
        load_graph(save(tmp_path, whole))
    double = helper.make_tensor_value_info("m", kind, (4, 40))
    whole.graph.input.pop()
    whole.graph.input.append(double)
    op = "Or" if name == "t" else "Add"
    reduced = [node("Reshape", ["m", "all"], "flat"), node("Gather", ["flat", "zero"], "first")]
    whole.graph.initializer.extend(
        numpy_helper.from_array(np.array(value), key) for key, value in (("all", [-1]), ("zero", 0))
    )
    nodes = [*reduced, node(op, ["first", "first"], name), made]
    del whole.graph.node[:]
    whole.graph.node.extend(nodes)
    with pytest.raises(ModelError, match=r"that is computed from data: export the model with a constant"):
        load_graph(save(tmp_path, whole))


def _typed(kind, node_, where):
    """A model with an input or output of another type than a tensor's."""
    value, tensor = helper.make_value_info("v", kind), helper.make_tensor_value_info("t", 1, [2])
    inputs, outputs = ([value], [tensor]) if where == "input" else ([tensor], [value])
    graph = helper.make_graph([node_], "test", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_what_is_no_tensor_is_named_with_the_way_out(tmp_path):
    tensor = helper.make_tensor_type_proto(1, [2])
    optional, sequence = helper.make_optional_type_proto(tensor), helper.make_sequence_type_proto(tensor)
    sparse = helper.make_sparse_tensor_type_proto(1, [2])
    for kind, made, where, words in (
        (optional, node("OptionalGetElement", ["v"], "t"), "input", "'v' is optional, .* always there"),
        (optional, node("Optional", ["t"], "v"), "output", "output 'v' is optional"),
        (
            sequence,
            node("ConcatFromSequence", ["v"], "t", axis=0),
            "input",
            "'v' is a sequence, .* one for each",
        ),
        (sparse, node("Relu", ["v"], "t"), "input", "'v' is a sparse tensor, .* a dense one"),
    ):
        with pytest.raises(ModelError, match=words):
            load_graph(save(tmp_path, _typed(kind, made, where)))
    inside = [node("Optional", ["x"], "o"), node("OptionalGetElement", ["o"], "y")]
    with pytest.raises(ModelError, match=r"'o' \(Optional\) is about values that may be absent, .* export"):
        load_graph(save(tmp_path, model(inside, {"x": (2,)}, ["y"])))
