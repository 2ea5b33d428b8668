"""bench.conv_rest: which functions of a model are beside its convolutions, and what they take."""

import sys
from pathlib import Path

import pytest
from onnx import ModelProto

from bench import conv_rest, timing
from bench.graph import Graph
from bench.models import MAKERS
from kernels.target import CATALOGUE

POWER10 = CATALOGUE["power10"]


def small(seed: int) -> ModelProto:
    """Two convolutions with ReLU, pooling between them and twice after, and a classifier."""
    graph = Graph(side=24)
    data = graph.node("Relu", [graph.conv("input", 8, 3)])
    data = graph.max_pool(data, 2, 2)
    data = graph.node("Relu", [graph.conv(data, 8, 3)])
    for _ in range(2):
        data = graph.max_pool(data, 3, 1, 1)
    return graph.model(graph.classifier(data), "small", seed)


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAKERS, "small", small)
    monkeypatch.setitem(conv_rest.MODELS, "small", "small")


def test_all_but_the_convolutions_and_what_moves_nothing():
    found = {part.name: part for part in conv_rest.parts("small", POWER10, ["sconv", "sconv_mma"])}
    pools = [part for name, part in found.items() if "max_pool" in name]
    assert sorted(part.count for part in pools) == [1, 2]
    assert not any("conv" in name for name in found)
    for part in pools:
        data, result = (shape for shape, _ in part.tensors)
        assert data[:2] == result[:2] == (1, 8)
        assert (data[2] == result[2]) == (part.count == 2)  # those with stride 1
    (gemm,) = [part for name, part in found.items() if "gemm" in name]
    assert gemm.tensors[-1] == ((1, 1000), "float32")
    assert [array.shape for array in gemm.arrays()] == [shape for shape, _ in gemm.tensors]
    assert not any("reshape" in name or "flatten" in name for name in found)


def test_a_family_that_does_not_compute_them_is_refused():
    with pytest.raises(SystemExit, match=r"none of .* computes"):
        conv_rest.parts("small", POWER10, ["depthwise"])


@pytest.mark.parametrize("target", ["power10-sim", "host"])
def test_a_row_a_model_and_none_twice(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "pin", lambda _: None)
    monkeypatch.setattr(conv_rest, "ROUNDS", 2)
    options = ["--target", target, "--models", "small", "--json", str(tmp_path / "rest.json")]
    monkeypatch.setattr(sys, "argv", ["conv_rest", *options])
    conv_rest.main()
    assert capsys.readouterr().out.startswith("small ")
    conv_rest.main()
    assert capsys.readouterr().out == ""


def test_unknown_models_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["conv_rest", "--target", "host", "--models", "alexnet"])
    with pytest.raises(SystemExit):
        conv_rest.main()
    assert "--models: there is no alexnet; there are googlenet, " in capsys.readouterr().err
