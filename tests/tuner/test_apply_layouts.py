import functools
import itertools
import random

import numpy as np
import pytest
import tvm
from test_apply import assert_same, expected, random_inputs
from tiny_models import model, node, save
from tvm import relax

from compiler.load import load_partition
from kernels import registry
from kernels.layout import Layouts
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model, plan_of
from tuner.backend.comparison import run
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts

TARGET = CATALOGUE["x86-avx2"]
LAYOUTS = ("nchw", "nhwc", "nchw8c")
pytestmark = pytest.mark.usefixtures("avx2")


@functools.cache
def configs(workload, threads=1):
    """The analysis's config in each pair of layouts."""
    found = {}
    for config in registry.recommendations(workload, TARGET, threads=threads, any_layout=True):
        found.setdefault(config.layouts, config)
    return found


def conversions_take(seconds, threads=1):
    """Times of layout changes that are the same for all tensors."""
    points = [(100, seconds), (1_000_000, seconds)]
    pairs = {f"{source}>{to}": points for source, to in itertools.permutations(LAYOUTS, 2)}
    return [Relayouts(TARGET, threads, "wall", pairs)]


def build_and_compare(path, plan, threads=1, relayouts=()):
    """The manifest of the build, whose result is onnxruntime's and whose layout changes are the plan's."""
    inputs = random_inputs(path)
    executable, manifest = build_model(path, {}, TARGET, threads, plan=plan, relayouts=relayouts, apart=True)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    copies = []

    def count(_function, name, before, _result, *_):
        if before and name.startswith("tilefleet_") and "_to_" in name:
            copies.append(name)
        return 0

    machine.set_instrument(count)
    assert_same(run(machine["main"], inputs), expected(path, inputs), tolerance=1e-5)
    named = [f"_{c.source}_to_{c.to}_" for c in manifest.conversions]
    assert len(copies) == len(named)
    assert all(any(name in copy for copy in copies) for name in named)
    return manifest


def forced(path, pairs, threads=1):
    """A plan that gives each product the layouts of ``pairs``."""
    products = load_partition(path).products
    return {
        index: configs(product.workload, threads)[pair]
        for index, (product, pair) in enumerate(zip(products, pairs, strict=True))
    }


@pytest.mark.parametrize(("written", "read"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_between_two_convolutions_lies_one_conversion_or_none(tmp_path, written, read):
    nodes = [node("Conv", ["x", "w"], "a"), node("Conv", ["a", "v"], "y")]
    made = model(nodes, {"x": (2, 4, 9, 7)}, ["y"], {"w": (16, 4, 3, 3), "v": (8, 16, 1, 1)})
    path = save(tmp_path, made)
    pairs = [Layouts("nchw", written), Layouts(read, "nchw")]
    manifest = build_and_compare(path, forced(path, pairs))
    found = [(c.tensor, c.source, c.to, c.measured) for c in manifest.conversions]
    assert found == ([] if written == read else [("a", written, read, False)])
    assert [layer["layouts"] for layer in manifest.to_json()["layers"]] == [str(pair) for pair in pairs]


def pool(op, **attributes):
    return [node(op, ["a"], f"{op} {attributes}", **attributes)]


# Each reads ``a``; the last node's result goes on to a convolution.
OPERATORS = [
    pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    pool("MaxPool", kernel_shape=[3, 2], pads=[0, 1, 2, 0]),
    pool("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    pool("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
    pool("AveragePool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    pool("GlobalAveragePool"),
    pool("GlobalMaxPool"),
    [node("MaxPool", ["a"], "c1", kernel_shape=[1, 1]), node("Concat", ["a", "c1", "a"], "c2", axis=1)],
    [node("Sigmoid", ["a"], "u1"), node("LeakyRelu", ["u1"], "u2"), node("Clip", ["u2", "low"], "u3")],
    [
        node("MaxPool", ["a"], "n1", kernel_shape=[1, 1]),
        node("BatchNormalization", ["n1", "c", "c", "c", "c"], "n2"),
        node("Relu", ["n2"], "n3"),
    ],
    [
        node("GlobalAveragePool", ["a"], "g1"),
        node("HardSigmoid", ["g1"], "g2"),
        node("Mul", ["a", "g2"], "g3"),
    ],
    [
        node("MaxPool", ["a"], "k1", kernel_shape=[1, 1]),
        node("Mul", ["per_channel", "k1"], "k2"),
        node("Sub", ["k2", "per_pixel"], "k3"),
        node("Div", ["k3", "two"], "k4"),
        node("Add", ["k4", "all"], "k5"),
    ],
]
CONSTANTS = {
    "low": np.float32(0.3),
    "c": np.linspace(0.5, 1.5, 16, dtype=np.float32),
    "two": np.full(1, 2, np.float32),
    "per_channel": (16, 1, 1),
    "per_pixel": (9, 7),
    "all": (1, 16, 9, 7),
    "w": (16, 4, 3, 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators_work_in_the_layout_around_them(tmp_path, layout):
    nodes, constants = [node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1])], dict(CONSTANTS)
    outputs = []
    for at, operator in enumerate(OPERATORS):
        constants[f"v{at}"] = (8, 48 if operator[-1].op_type == "Concat" else 16, 1, 1)
        outputs.append(f"y{at}")
        nodes += [*operator, node("Conv", [operator[-1].output[0], f"v{at}"], outputs[-1])]
    path = save(tmp_path, model(nodes, {"x": (2, 4, 9, 7)}, outputs, constants))
    pairs = [Layouts("nchw", layout)] + [Layouts(layout, "nchw")] * len(OPERATORS)
    manifest = build_and_compare(path, forced(path, pairs, 2), 2, conversions_take(1.0, 2))
    assert manifest.conversions == ()


def random_graph(rng):
    """Convolutions, grouped ones too, with residuals, concats and pools between."""
    nodes, constants, tensors = [], {}, [("x", 8, 12)]

    def add(op, inputs, channels, side, **attributes):
        name = f"t{len(nodes)}"
        nodes.append(node(op, inputs, name, **attributes))
        tensors.append((name, channels, side))
        return name

    def conv(data, filters):
        name, channels, side = data
        groups = channels if filters == channels and rng.random() < 0.4 else 1
        constants[f"w{len(nodes)}"] = (filters, channels // groups, 3, 3)
        return add("Conv", [name, f"w{len(nodes)}"], filters, side, pads=[1, 1, 1, 1], group=groups)

    conv(tensors[0], 16)
    for _ in range(8):
        data = rng.choice(tensors[-3:])
        name, channels, side = data
        alike = [other for other, *size in tensors if size == [channels, side]]
        kind = rng.choice(["conv", "conv", "residual", "concat", "pool", "relu"])
        if kind == "conv":
            conv(data, rng.choice([channels, 16, 19, 24]))
        elif kind == "residual":
            add("Add", [conv(data, channels), rng.choice(alike)], channels, side)
        elif kind == "concat":
            others = [each for each in tensors if each[2] == side][:3]
            add("Concat", [each[0] for each in others], sum(each[1] for each in others), side, axis=1)
        elif kind == "pool":
            op = rng.choice(["MaxPool", "AveragePool"])
            add(op, [name], channels, (side + 1) // 2, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        else:
            add("Relu", [name], channels, side)
    read = {name for each in nodes for name in each.input}
    outputs = [each.output[0] for each in nodes if each.output[0] not in read]
    return model(nodes, {"x": (1, 8, 12, 12)}, outputs, constants)


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_in_random_layouts(tmp_path, seed):
    rng = random.Random(seed)
    path = save(tmp_path, random_graph(rng))
    products = load_partition(path).products
    plan = {at: rng.choice(list(configs(each.workload).values())) for at, each in enumerate(products)}
    build_and_compare(path, plan)


def test_measured_times_decide(tmp_path):
    nodes = [node("Conv", ["x", "w"], "a"), node("Conv", ["a", "v"], "y")]
    made = model(nodes, {"x": (1, 16, 30, 30)}, ["y"], {"w": (16, 16, 3, 3), "v": (16, 16, 1, 1)})
    path = save(tmp_path, made)
    first, second = (product.workload for product in load_partition(path).products)

    def record(workload, pair, seconds):
        config = configs(workload)[pair]
        version = registry.kernel(config.kernel).version
        return Record(workload, TARGET, config, version, cost_s=seconds)

    plain, blocked = Layouts(), Layouts("nchw8c", "nchw8c")
    fast = {(first, plain): 10e-6, (second, plain): 10e-6, (second, blocked): 5e-6}
    records = [
        record(each, pair, fast.get((each, pair), 1e-3)) for each in (first, second) for pair in configs(each)
    ]

    def plan(conversion_s):
        relayouts = conversions_take(conversion_s)
        return plan_of(load_partition(path), {}, TARGET, records=records, relayouts=relayouts)

    dear, cheap = plan(4e-6), plan(2e-6)
    assert (dear.conversions, dear.seconds) == ((), pytest.approx(20e-6))
    assert [(c.source, c.to, c.measured) for c in cheap.conversions] == [
        ("nchw", "nchw8c", True),
        ("nchw8c", "nchw", True),
    ]
    assert cheap.seconds == pytest.approx(19e-6)
    assert [option.config.layouts for option in cheap.options] == [plain, blocked]
