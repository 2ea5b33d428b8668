"""Activations that products take in: every way to write them, what is none, and logs from before."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
import tvm
from test_apply import build_and_compare
from tiny_models import model, node, save
from tvm import relax

from compiler.ir.partition import Product
from compiler.load import load_partition
from kernels import registry
from kernels.reference import max_error, reference
from kernels.target import CATALOGUE
from kernels.workload.activation import PARAMETERS, Kind
from kernels.workload.base import RELU, Activation, Conv2d, Epilogue, Gemm
from tuner.backend.lowered import lowered_product
from tuner.log.picks import found_for

GELU, TANH_GELU = Activation("gelu"), Activation("tanh_gelu")
SIXTH = float(np.float32(1 / 6))
HARD_SWISH, HARD_SIGMOID = Activation("hard_swish", SIXTH, 0.5), Activation("hard_sigmoid", SIXTH, 0.5)
SILU = Activation("silu", 1.0)
CONSTANTS = {
    "w": (4, 4, 3, 3),
    "slope": (4, 1, 1),
    "root": np.float32(2**0.5),
    "inverse": np.float32(0.5**0.5),
    "one": np.float32(1),
    "half": np.full((1, 1, 1), 0.5, np.float32),
    "zero": np.float32(0),
    "two": np.float32(2),
    "three": np.float32(3),
    "six": np.float32(6),
    "cube": np.float32(0.044715),
    "factor": np.float32((2 / np.pi) ** 0.5),
    "tenth": np.float32(0.1),
    "tiny": np.float32(1e-5),
    "quick": np.float32(1.702),
}
WAYS = {
    "silu": ([("Sigmoid", "p", "a"), ("Mul", "a p", "y")], Epilogue(activation=SILU)),
    "quick gelu": (
        [("Mul", "p quick", "a"), ("Sigmoid", "a", "b"), ("Mul", "p b", "y")],
        Epilogue(activation=Activation("silu", float(np.float32(1.702)))),
    ),
    "silu by exp": (
        [("Neg", "p", "a"), ("Exp", "a", "b"), ("Add", "b one", "c"), ("Div", "p c", "y")],
        Epilogue(activation=SILU),
    ),
    "hard swish": ([("HardSwish", "p", "y")], Epilogue(activation=HARD_SWISH)),
    "hard swish by clip": (
        [("Add", "p three", "a"), ("Clip", "a zero six", "b"), ("Mul", "p b", "c"), ("Div", "c six", "y")],
        Epilogue(activation=HARD_SWISH),
    ),
    "hard swish by sigmoid": (
        [("HardSigmoid", "p", "a", {"alpha": 1 / 6}), ("Mul", "a p", "y")],
        Epilogue(activation=HARD_SWISH),
    ),
    "hard sigmoid by clip": (
        [("Add", "p three", "a"), ("Clip", "a zero six", "b"), ("Div", "b six", "y")],
        Epilogue(activation=HARD_SIGMOID),
    ),
    "hard sigmoid": (
        [("HardSigmoid", "p", "y")],
        Epilogue(activation=Activation("hard_sigmoid", float(np.float32(0.2)), 0.5)),
    ),
    "sigmoid": ([("Sigmoid", "p", "y")], Epilogue(activation=Activation("sigmoid"))),
    "tanh": ([("Tanh", "p", "y")], Epilogue(activation=Activation("tanh"))),
    "gelu": (
        [
            *(("Div", "p root", "a"), ("Erf", "a", "b"), ("Add", "b one", "c")),
            *(("Mul", "p c", "d"), ("Mul", "d half", "y")),
        ],
        Epilogue(activation=GELU),
    ),
    "gelu in another order": (
        [
            *(("Mul", "p half", "h"), ("Mul", "p inverse", "a"), ("Erf", "a", "b")),
            *(("Add", "one b", "c"), ("Mul", "c h", "y")),
        ],
        Epilogue(activation=GELU),
    ),
    "gelu by tanh": (
        [
            *(("Pow", "p three", "a"), ("Mul", "a cube", "b"), ("Add", "p b", "c"), ("Mul", "c factor", "d")),
            *(("Tanh", "d", "e"), ("Add", "e one", "f"), ("Mul", "p half", "g"), ("Mul", "g f", "y")),
        ],
        Epilogue(activation=TANH_GELU),
    ),
    "mish": (
        [("Softplus", "p", "a"), ("Tanh", "a", "b"), ("Mul", "p b", "y")],
        Epilogue(activation=Activation("mish")),
    ),
    "softplus": ([("Softplus", "p", "y")], Epilogue(activation=Activation("softplus"))),
    "elu": ([("Elu", "p", "y", {"alpha": 0.5})], Epilogue(activation=Activation("elu", 0.5))),
    "leaky relu": (
        [("LeakyRelu", "p", "y", {"alpha": 0.25})],
        Epilogue(activation=Activation("leaky_relu", 0.25)),
    ),
    "leaky relu by max": (
        [("Mul", "p tenth", "a"), ("Max", "a p", "y")],
        Epilogue(activation=Activation("leaky_relu", float(np.float32(0.1)))),
    ),
    "prelu": ([("PRelu", "p slope", "y")], Epilogue(activation=Activation("prelu"))),
    "before a residual and a relu": (
        [("Sigmoid", "p", "a"), ("Mul", "a p", "b"), ("Add", "x b", "c"), ("Relu", "c", "y")],
        Epilogue(residual=True, clamp=RELU, activation=SILU, late=True),
    ),
    "behind a residual": (
        [("Add", "x p", "a"), ("HardSwish", "a", "y")],
        Epilogue(residual=True, activation=HARD_SWISH),
    ),
    # What is none, or not of the product alone:
    "relu": ([("Relu", "p", "y")], Epilogue(clamp=RELU)),
    "one that another node reads within": (
        [("Sigmoid", "p", "a"), ("Mul", "a p", "b"), ("Add", "a b", "y")],
        Epilogue(),
    ),
    "nearly a relu": (
        [("Add", "p tiny", "a"), ("Relu", "a", "b"), ("Mul", "b p", "y")],
        Epilogue(),
    ),
    "another's gate": ([("Sigmoid", "x", "a"), ("Mul", "a p", "y")], Epilogue()),
    "a scale behind it": (
        [("Sigmoid", "p", "a"), ("Mul", "a two", "y")],
        Epilogue(activation=Activation("sigmoid")),
    ),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """One model with a convolution for each of ``WAYS``."""
    nodes, inside = [], {"p", "y", *"abcdefgh"}
    for number, (ways, _) in enumerate(WAYS.values()):
        nodes.append(node("Conv", ["x", "w"], f"p{number}", pads=[1, 1, 1, 1]))
        for op, inputs, output, *more in ways:
            names = [f"{name}{number}" if name in inside else name for name in inputs.split()]
            nodes.append(node(op, names, f"{output}{number}", **(more[0] if more else {})))
    outputs = [f"y{number}" for number in range(len(WAYS))]
    made = model(nodes, {"x": (1, 4, 7, 9)}, outputs, CONSTANTS, opset=14)
    return save(tmp_path_factory.mktemp("activations"), made)


def test_every_way_to_write_one_is_found(path):
    found = {product.nodes[0]: product.workload.epilogue for product in load_partition(path).products}
    for number, (name, (_, expected)) in enumerate(WAYS.items()):
        assert found[f"p{number}"] == expected, name


def test_a_build_computes_what_the_nodes_do(path):
    manifest = build_and_compare(path)
    assert len(manifest.layers) == len(WAYS)


def test_logs_from_before_products_took_them_in_are_still_used(path):
    old = Conv2d(1, 4, 7, 9, 4, 3, 3, pad=(1, 1, 1, 1), epilogue=Epilogue(bias=True))
    config = registry.recommendations(old, CATALOGUE["x86-avx2"])[0]
    activated = Epilogue(bias=True, residual=True, clamp=RELU, activation=SILU, late=True)
    new = dataclasses.replace(old, epilogue=activated)
    assert found_for({old.key: config}, new) == config
    assert found_for({old.key: config, new.key: "newer"}, new) == "newer"
    assert found_for({old.key: config}, dataclasses.replace(new, kh=1)) is None
    assert registry.space_of(new, config, CATALOGUE["x86-avx2"], 1).why_not(config) is None


def test_products_without_a_kernel_have_the_same_activations():
    """All of them in one module, in Relax's operators."""
    rng, builder = np.random.default_rng(), relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((3, 5), "float32"))
    residual = relax.Var("residual", relax.TensorType((3, 7), "float32"))
    x, rest = (rng.standard_normal(shape, dtype=np.float32) * 3 for shape in ((3, 5), (3, 7)))
    weights, slope = rng.standard_normal((5, 7), dtype=np.float32), rng.random(7, dtype=np.float32)
    results, references = [], []
    with builder.function("main", [data, residual]):
        with builder.dataflow():
            for kind in get_args(Kind):
                activation = Activation(kind, *(0.3 for _ in PARAMETERS.get(kind, ())))
                epilogue = Epilogue(residual=True, activation=activation, late=kind != "silu")
                gemm = Gemm(3, 7, 5, epilogue=epilogue)
                made = Product(gemm, (), "data", "residual", "y", weights, None, None, slope=slope)
                results.append(builder.emit_output(lowered_product(builder, made, data, residual)))
                slopes = [slope] if epilogue.slope else []
                references.append(reference(gemm, [x, weights, *slopes, rest]))
        builder.emit_func_output(results)
    machine = relax.VirtualMachine(relax.build(builder.get(), "llvm"), tvm.cpu())
    computed = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(rest))
    for kind, value, expected in zip(get_args(Kind), computed, references, strict=True):
        assert max_error(value.numpy(), expected) < 1e-5, kind
