"""Lengths that data decide, through operators that see more than one element, against onnxruntime.

The model as it is read has room for the greatest length; onnxruntime runs that, too, so that each operator is
tried in milliseconds. One model of many of them is built.
"""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from compiler.ir.checks import ModelError
from compiler.load import read_model
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TARGET = CATALOGUE["x86-avx2"]
node = helper.make_node
FLOAT = TensorProto.FLOAT
CHANNELS, ROOM = 4, 24
LENGTHS = (3, 4, 7, 16, 23, 24)


def feed(length, seed=0):
    """Inputs that make a length."""
    random = np.random.default_rng(seed + length)
    most = np.full(8, -40 if length < ROOM else 40, np.float32)
    whole, rest = divmod(length, 3)
    most[:whole] = 40
    if rest:
        most[whole] = np.log(rest / 3 / (1 - rest / 3))
    data = random.normal(0, 1, (1, CHANNELS, ROOM)).astype(np.float32)
    # Whoever looks at what does not count has nothing else either.
    data[..., length:] = np.nan
    return {"x": most[None], "v": data}


def prelude():
    """Nodes that cut ``v`` to a sum of sigmoids, as speech models say how many frames a sound takes."""
    return [
        node("Sigmoid", ["x"], ["s"]),
        node("Mul", ["s", "three"], ["d"]),
        node("ReduceSum", ["d", "last"], ["sum"], keepdims=0),
        node("Round", ["sum"], ["round"]),
        node("Clip", ["round", "one_f"], ["clip"]),
        node("Cast", ["clip"], ["whole"], to=TensorProto.INT64),
        node("CumSum", ["whole", "zero"], ["running"]),
        node("Gather", ["running", "minus"], ["n"]),
        node("Range", ["zero", "n", "one"], ["places"], name="places"),
        node("Gather", ["v", "places"], ["c"], axis=2),
    ]


RANDOM = np.random.default_rng(1)


def normal(*shape):
    return RANDOM.normal(0, 0.5, shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


CONSTANTS = {
    "three": np.float32(3), "last": ints(-1), "one_f": np.float32(1), "zero": np.array(0),
    "one": np.array(1), "minus": np.array(-1), "w3": normal(6, CHANNELS, 3), "w4": normal(6, CHANNELS, 4),
    "t4": normal(CHANNELS, 5, 4), "t3": normal(CHANNELS, 1, 3),
    "wi": RANDOM.integers(0, 255, (6, CHANNELS, 3)).astype(np.uint8), "wz": np.array(120, np.uint8),
    "two_up": np.float32([1, 1, 2]), "down": np.float32([1, 1, 0.5]), "third": np.float32([1, 1, 1 / 3]),
    "pads": ints(0, 0, 2, 0, 0, 1), "pads_all": ints(0, 1, 2, 0, 0, 3), "crop": ints(0, 0, -1, 0, 0, 2),
    "pi": np.float32(3.5), "zeros": ints(0), "ones": ints(1), "twos": ints(2), "threes": ints(3),
    "minus2": ints(-2), "minus1": ints(-1), "far": ints(2**40), "near": ints(-(2**40)),
    "axis2": np.array(2), "g": normal(CHANNELS), "b": normal(CHANNELS), "step": np.array(3),
    "frame": np.array(5), "window": np.float32(np.hanning(5) + 0.1), "w_lstm": normal(2, 12, CHANNELS),
    "r_lstm": normal(2, 12, 3), "b_lstm": normal(2, 24), "w_gru": normal(1, 9, CHANNELS),
    "r_gru": normal(1, 9, 3), "hot": np.float32([0, 1]), "class": np.array(9), "five": ints(5),
    "three_d": ints(1, CHANNELS, -1), "half": np.array(2), "wide": np.zeros((1, CHANNELS, 30), np.float32),
    "row": ints(0, 1), "two_groups": ints(0, 2, -1), "ones_f": np.float32([1, 1]),
    "zeros_f": np.float32([0, 0]), "in_pairs": ints(CHANNELS, -1, 2), "at": np.array([[0], [-1]]),
    "two_values": np.float32([7, 8]),
}  # fmt: skip


def one(op, *operands, **attributes):
    """A case of one node behind ``c``."""
    return [node(op, ["c", *operands], ["y"], name="it", **attributes)]


CASES = {
    "conv": one("Conv", "w3", pads=[1, 1]),
    "conv with steps": one("Conv", "w4", strides=[2], pads=[2, 1], dilations=[2]),
    "conv without pads": one("Conv", "w3"),
    "conv same": one("Conv", "w4", auto_pad="SAME_LOWER"),
    "transposed": one("ConvTranspose", "t4", strides=[3], pads=[1, 2], output_padding=[1]),
    "transposed by groups": one(
        "ConvTranspose", "t3", strides=[2], pads=[1, 1], output_padding=[1], group=CHANNELS
    ),
    "bytes": [
        node("DynamicQuantizeLinear", ["c"], ["q", "q_scale", "q_zero"]),
        node("ConvInteger", ["q", "wi", "q_zero", "wz"], ["sums"], pads=[1, 2]),
        node("Cast", ["sums"], ["sums_f"], to=FLOAT),
        node("Mul", ["sums_f", "q_scale"], ["y"]),
    ],
    "average": one("AveragePool", kernel_shape=[3], strides=[2], pads=[1, 1]),
    "average with pads": one("AveragePool", kernel_shape=[3], pads=[1, 1], count_include_pad=1),
    "greatest": one("MaxPool", kernel_shape=[3], strides=[2], pads=[1, 1]),
    "all averaged": one("GlobalAveragePool"),
    "greatest of all": one("GlobalMaxPool"),
    "mean": one("ReduceMean", axes=[1, 2]),
    "mean without axis": one("ReduceMean", axes=[2], keepdims=0),
    "sum of exponentials": one("ReduceLogSumExp", axes=[2]),
    "written norm": [
        node("ReduceMean", ["c"], ["mean"], axes=[2]),
        node("Sub", ["c", "mean"], ["away"]),
        node("Mul", ["away", "away"], ["square_of"]),
        node("ReduceMean", ["square_of"], ["var"], axes=[2]),
        node("Sqrt", ["var"], ["deviation"]),
        node("Div", ["away", "deviation"], ["y"]),
    ],
    "instances": one("InstanceNormalization", "g", "b"),
    "layers": [
        node("Transpose", ["c"], ["turned"], perm=[0, 2, 1]),
        node("LayerNormalization", ["turned", "g", "b"], ["y"]),
    ],
    "softmax": one("Softmax", axis=2),
    "log softmax": one("LogSoftmax", axis=-1),
    "running": one("CumSum", "axis2"),
    "running from the end": one("CumSum", "axis2", reverse=1, exclusive=1),
    "twice as long": one(
        "Resize",
        "",
        "two_up",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "twice, linear": one("Resize", "", "two_up", mode="linear"),
    "half": one("Resize", "", "down", mode="linear", coordinate_transformation_mode="asymmetric"),
    "a third": one("Resize", "", "third", mode="linear"),
    "to a size": [
        node("Shape", ["c"], ["shape"]),
        node("Gather", ["shape", "twos"], ["length"]),
        node("Mul", ["length", "threes"], ["longer"]),
        node("Concat", ["ones", "five", "longer"], ["sizes"], axis=0),
        node("Resize", ["c", "", "", "sizes"], ["y"], mode="linear"),
    ],
    "to a size by way of floats": [
        node("Shape", ["c"], ["shape"]),
        node("Slice", ["shape", "twos", "threes"], ["length"]),
        node("Cast", ["length"], ["length_f"], to=FLOAT),
        node("Mul", ["length_f", "three"], ["longer"]),
        node("Floor", ["longer"], ["floor"]),
        node("Cast", ["floor"], ["length_now"], to=TensorProto.INT64),
        node("Slice", ["shape", "zeros", "twos"], ["others"]),
        node("Concat", ["others", "length_now"], ["sizes"], axis=0),
        node("Resize", ["c", "", "", "sizes"], ["y"], mode="nearest"),
    ],
    "padded": one("Pad", "pads_all", "pi"),
    "cropped": one("Pad", "crop", "pi"),
    "reflected": one("Pad", "pads", mode="reflect"),
    "edges": one("Pad", "pads_all", mode="edge"),
    "frames": [
        node("Slice", ["c", "zeros", "ones", "ones"], ["first"]),
        node("Squeeze", ["first", "ones"], ["line"]),
        node("STFT", ["line", "step", "window", "frame"], ["y"]),
    ],
    "last ones": one("Slice", "minus2", "far", "twos"),
    "all but the last": one("Slice", "ones", "minus1", "twos"),
    "turned round": one("Slice", "minus1", "near", "twos", "minus1"),
    "every other": one("Slice", "ones", "far", "twos", "twos"),
    "the last": one("Gather", "minus", axis=2),
    "lstm": [
        node("Transpose", ["c"], ["steps"], perm=[2, 0, 1]),
        node(
            "LSTM",
            ["steps", "w_lstm", "r_lstm", "b_lstm"],
            ["y", "h", "cell"],
            hidden_size=3,
            direction="bidirectional",
        ),
    ],
    "gru": [
        node("Transpose", ["c"], ["steps"], perm=[2, 0, 1]),
        node("GRU", ["steps", "w_gru", "r_gru"], ["y", "h"], hidden_size=3, direction="reverse"),
    ],
    "rows and columns": [
        node("Transpose", ["c"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["turned", "c"], ["all"]),
        node("Softmax", ["all"], ["shares"], axis=-1),
        node("MatMul", ["c", "shares"], ["y"]),
    ],
    "bytes added up": [
        node("Reshape", ["c", "three_d"], ["same"]),
        node("DynamicQuantizeLinear", ["same"], ["q", "q_scale", "q_zero"]),
        node("Transpose", ["q"], ["q_turned"], perm=[0, 2, 1]),
        node("MatMulInteger", ["q", "q_turned", "q_zero", "q_zero"], ["y"]),
    ],
    "joined": [
        node("Resize", ["c", "", "two_up"], ["long"], mode="nearest"),
        node("AveragePool", ["long"], ["back"], kernel_shape=[2], strides=[2]),
        node("Concat", ["c", "back"], ["both"], axis=1),
        node("Concat", ["both", "both"], ["y"], axis=2),
    ],
    "one hot": [node("Mod", ["places", "class"], ["kind"]), node("OneHot", ["kind", "class", "hot"], ["y"])],
    "alignment": [node("OneHot", ["row", "n", "hot"], ["y"])],
    "scattered": [
        node("Unsqueeze", ["places", "last"], ["rows"]),
        node("Transpose", ["c"], ["turned"], perm=[2, 1, 0]),
        node("Transpose", ["wide"], ["table"], perm=[2, 1, 0]),
        node("ScatterND", ["table", "rows", "turned"], ["y"]),
    ],
    "by elements": [
        node("Sub", ["n", "one"], ["before"]),
        node("Sub", ["before", "places"], ["from_the_end"]),
        node("Shape", ["c"], ["shape"]),
        node("Expand", ["from_the_end", "shape"], ["where"]),
        node("ScatterElements", ["c", "where", "c"], ["y"], axis=2),
    ],
    "into what counts": [
        node("Gather", ["c", "zero"], ["rest"], axis=0),
        node("Gather", ["rest", "zero"], ["line"], axis=0),
        node("ScatterND", ["line", "at", "two_values"], ["y"]),
    ],
    "groups": [
        node("Reshape", ["c", "two_groups"], ["grouped"]),
        node("InstanceNormalization", ["grouped", "ones_f", "zeros_f"], ["normal"]),
        node("Shape", ["c"], ["shape"]),
        node("Reshape", ["normal", "shape"], ["y"]),
    ],
    "pairs": [
        node("Div", ["n", "half"], ["halves"]),
        node("Mul", ["halves", "half"], ["doubled"]),
        node("Reshape", ["doubled", "ones"], ["length"]),
        node("Slice", ["c", "zeros", "length", "twos"], ["even"]),
        node("Reshape", ["even", "in_pairs"], ["y"]),
    ],
}
LEAST = {"conv with steps": 4, "frames": 5}
FIXED = (
    "all averaged",
    "greatest of all",
    "mean",
    "mean without axis",
    "sum of exponentials",
    "last ones",
    "the last",
    "bytes added up",
    "scattered",
)


def model(*names):
    """The prelude, and what these cases make of its ``c``."""
    nodes, outputs = prelude(), []
    for number, name in enumerate(names):
        made = {each for one in CASES[name] for each in one.output}
        kind = TensorProto.INT32 if name == "bytes added up" else FLOAT
        outputs += [(f"{each}{number}", kind) for each in ("y", "h", "cell") if each in made]
        for one in CASES[name]:
            inputs, results = (
                [f"{each}{number}" if each in made else each for each in part]
                for part in (one.input, one.output)
            )
            nodes.append(node(one.op_type, inputs, results))
            nodes[-1].attribute.extend(one.attribute)
    read = {each for one in nodes for each in one.input}
    graph = helper.make_graph(
        nodes,
        "speech",
        [
            helper.make_tensor_value_info("x", FLOAT, (1, 8)),
            helper.make_tensor_value_info("v", FLOAT, (1, CHANNELS, ROOM)),
        ],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in CONSTANTS.items() if key in read],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def session(made):
    for each in made.graph.node:
        each.name = ""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def compare(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_length_goes_through(tmp_path, name):
    path = tmp_path / "model.onnx"
    path.write_bytes(model(name).SerializeToString())
    right, found = session(model(name)), session(read_model(path))
    lengths = set()
    for length in [each for each in LENGTHS if each >= LEAST.get(name, 0)]:
        wanted = right.run(None, feed(length))
        compare(found.run(None, feed(length)), wanted)
        lengths.add(tuple(each.shape for each in wanted))
    assert len(lengths) > 1 or name in FIXED


BUILT = (
    *("transposed", "bytes", "average", "written norm", "twice as long", "reflected", "frames", "lstm"),
    *("bytes added up", "scattered", "running from the end"),
)


@pytest.mark.usefixtures("avx2")
def test_a_built_module_gives_what_counts(tmp_path):
    path, made = tmp_path / "model.onnx", model(*BUILT)
    path.write_bytes(made.SerializeToString())
    executable, _ = build_model(path, {}, TARGET)
    main, right = relax.VirtualMachine(executable, tvm.cpu())["main"], session(made)
    for length in [each for each in LENGTHS if each >= max(LEAST.values())]:
        compare(run(main, feed(length)), right.run(None, feed(length)))


WINDOWS = {
    "conv": one("Conv", "w3", pads=[1, 1]),
    "conv of padding": one("Conv", "w3", pads=[2, 1]),
    "transposed": one("ConvTranspose", "t4", pads=[2, 2]),
    "transposed of none": one("ConvTranspose", "t4"),
    "average": one("AveragePool", kernel_shape=[3], pads=[1, 1]),
    "greatest": one("MaxPool", kernel_shape=[4]),
    "all averaged": one("GlobalAveragePool"),
    "greatest of all": one("GlobalMaxPool"),
    "reflected": one("Pad", "pads", mode="reflect"),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_too_few_are_refused_as_onnxruntime_does(tmp_path, monkeypatch, name):
    monkeypatch.setitem(CASES, name, WINDOWS[name])
    made = model(name)
    made.graph.node[4].input[1] = "none"
    made.graph.initializer.append(numpy_helper.from_array(np.float32(0), "none"))
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    right, found = session(made), session(read_model(path))
    for length in range(4):
        inputs = feed(length) if length else {**feed(1), "x": np.full((1, 8), -40, np.float32)}
        try:
            wanted = right.run(None, inputs)
        except Exception:  # onnxruntime's own types
            with pytest.raises(Exception, match="indices element out of data bounds"):
                found.run(None, inputs)
        else:
            compare(found.run(None, inputs), wanted)


def test_a_length_without_a_limit_is_refused_with_the_way_out(tmp_path):
    path, made = tmp_path / "model.onnx", model("conv")
    del made.graph.node[1].input[1:]
    made.graph.node[1].input.append("speed")
    made.graph.input.append(helper.make_tensor_value_info("speed", FLOAT, (1,)))
    path.write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match=r"'places' \(Range\).*on the input 'speed'.*--value speed=NUMBER"):
        read_model(path)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Einsum", {"equation": "abc->acb"}),
        ("Resize", {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ("AveragePool", {"kernel_shape": [3], "ceil_mode": 1}),
        ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ],
)
def test_what_stays_out_is_refused_by_its_name(tmp_path, op, attributes):
    path, made = tmp_path / "model.onnx", model("conv")
    operands = {"Resize": ["c", "", "two_up"], "Conv": ["c", "w3"]}.get(op, ["c"])
    made.graph.initializer.append(numpy_helper.from_array(CONSTANTS["two_up"], "two_up"))
    made.graph.node[-1].CopyFrom(node(op, operands, ["y0"], name="it", **attributes))
    path.write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match=rf"'it' \({op}\) .*behind node 'places' \(Range\); cut the model"):
        read_model(path)
