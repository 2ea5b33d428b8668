import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tiny_models import LIGHT, model, node

from bench.random_weights import randomize
from tuner.runtimes.engines import onnx_session


def weights(made):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}


def test_the_same_seed_gives_the_same_weights_and_another_does_not():
    original = onnx.load(LIGHT / "light_squeezenet.onnx")
    first, again, other = (weights(randomize(original, seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["conv1_w_0"], other["conv1_w_0"])


def test_what_shapes_depend_on_stays():
    constants = {"w": (6, 4), "to": np.array([2, 3]), "limit": np.float32(6)}
    nodes = [
        node("MatMul", ["x", "w"], "p"),
        node("Reshape", ["p", "to"], "r"),
        node("Clip", ["r", "", "limit"], "y"),
    ]
    drawn = weights(randomize(model(nodes, {"x": (1, 6)}, ["y"], constants), 1))
    assert drawn["to"].tolist() == [2, 3]
    assert drawn["limit"] == 6
    assert drawn["w"].shape == (6, 4)


def test_variances_are_positive():
    drawn = weights(randomize(onnx.load(LIGHT / "light_densenet121.onnx"), 1))
    variances = [value for name, value in drawn.items() if name.endswith("_var_0")]
    assert len(variances) == 121
    assert min(value.min() for value in variances) > 0


@pytest.mark.parametrize("name", ["light_resnet50", "light_shufflenet", "light_inception_v2"])
def test_activations_neither_vanish_nor_explode(name):
    made = randomize(onnx.load(LIGHT / f"{name}.onnx"), 5)
    products = [n.output[0] for n in made.graph.node if n.op_type in ("Conv", "Gemm")]
    for product in products:
        made.graph.output.append(onnx.helper.make_tensor_value_info(product, 1, None))
    session = onnx_session(made.SerializeToString(), 2)
    entry = session.get_inputs()[0]
    data = np.random.default_rng(0).standard_normal(entry.shape, dtype=np.float32)
    deviations = [value.std() for value in session.run(products, {entry.name: data})]
    assert min(deviations) > 0.05
    assert max(deviations) < 20
