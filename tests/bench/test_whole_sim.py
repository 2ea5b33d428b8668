"""The networks of bench.whole_sim, and what it refuses."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from bench import tflite_networks, whole_sim
from compiler.readers.tflite.file import read_file


@pytest.mark.parametrize(
    ("network", "convolutions", "depthwise"), [("mobilenet_v1", 14, 13), ("mobilenet_v2", 35, 17)]
)
def test_networks_have_their_layers(network: str, convolutions: int, depthwise: int) -> None:
    (graph,) = read_file(tflite_networks.NETWORKS[network](0))
    found = Counter(operator.kind for operator in graph.operators)
    assert (found["CONV_2D"], found["DEPTHWISE_CONV_2D"], found["FULLY_CONNECTED"]) == (
        convolutions,
        depthwise,
        1,
    )


def test_an_unknown_network_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["--target", "rpi4-sim", "--litert", str(tmp_path), "--models", "lanenet"]
    monkeypatch.setattr(sys, "argv", ["whole_sim", *options])
    with pytest.raises(SystemExit, match="2"):
        whole_sim.main()
    assert "there is no lanenet; there are mobilenet_v1" in capsys.readouterr().err
