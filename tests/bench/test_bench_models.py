import onnx
import pytest

from bench.models import MAKERS
from compiler.intake.extract import extract

# Convolutions and matrix products, and billions of multiply-adds, as the papers give them.
EXPECTED = {
    "resnet18": (20, 1, 1.8),
    "resnet50": (53, 1, 4.1),
    "mobilenet_v1": (27, 1, 0.57),
    "mobilenet_v2": (52, 1, 0.3),
    "inception_v3": (94, 1, 5.71),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_networks_are_the_published_ones(tmp_path, name):
    made = MAKERS[name](0)
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, tmp_path / "model.onnx")
    found = extract(tmp_path / "model.onnx")
    kinds = {
        kind: sum(o.count for o in found.operators if o.workload.kind == kind) for kind in ("conv2d", "gemm")
    }
    convolutions, products, giga = EXPECTED[name]
    assert kinds == {"conv2d": convolutions, "gemm": products}
    assert found.flops / 2e9 == pytest.approx(giga, abs=0.06)
    assert found.not_tunable == ()


def test_there_is_a_maker_for_every_name_that_benches_take():
    assert {"resnet18", "resnet152", "vgg16"} <= set(MAKERS)


def test_graphs_without_weights_get_random_ones():
    one, other = MAKERS["squeezenet"](0), MAKERS["squeezenet"](1)
    assert one != other
