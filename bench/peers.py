"""The libraries we are measured against, each as a callable over the same data."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.workload.base import Conv2d
from tuner.runtimes.engines import onnx_session

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Peer:
    """``run`` computes once into memory of its own; ``result`` gives what it computed, NCHW."""

    run: Callable[[], object]
    result: Callable[[], Array]


MakePeer = Callable[[Conv2d, Array, Array, int], Peer]


def onnx_peer(model: bytes, threads: int, data: npt.NDArray[Any], out: npt.NDArray[Any]) -> Peer:
    """A model whose input ``x`` and output ``y``, like ``out``, are bound once."""
    import onnxruntime

    session = onnx_session(model, threads)
    output = onnxruntime.OrtValue.ortvalue_from_numpy(out)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(data))
    binding.bind_ortvalue_output("y", output)
    return Peer(lambda: session.run_with_iobinding(binding), output.numpy)


def onnxruntime_conv(layer: Conv2d, data: Array, weights: Array, threads: int) -> Peer:
    """onnxruntime on a graph of one Conv node, inputs and outputs bound once."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        kernel_shape=[layer.kh, layer.kw],
        strides=list(layer.stride),
        pads=list(layer.pad),
        dilations=list(layer.dilation),
        group=layer.groups,
    )
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, layer.data_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, layer.out_shape)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx_peer(model.SerializeToString(), threads, data, np.empty(layer.out_shape, np.float32))


def im2col_openblas(layer: Conv2d, data: Array, weights: Array, threads: int) -> Peer:
    """im2col in C, then numpy's OpenBLAS; a pointwise convolution needs no im2col and gets none.

    OpenBLAS takes its thread count from the environment (``bench.timing.pin``), hence ``threads`` is unused.
    """
    rows = layer.in_c // layer.groups * layer.kh * layer.kw
    pixels = layer.out_h * layer.out_w
    matrix = np.ascontiguousarray(weights.reshape(layer.groups, layer.out_c // layer.groups, rows))
    out = np.empty((layer.n, layer.groups, layer.out_c // layer.groups, pixels), np.float32)
    shape = (layer.n, layer.groups, rows, pixels)
    in_place = (layer.kh, layer.kw, *layer.stride, *layer.pad) == (1, 1, 1, 1, 0, 0, 0, 0)
    columns = data.reshape(shape) if in_place else np.empty(shape, np.float32)
    expand = _im2col_library().im2col
    image_sizes = (layer.in_c, layer.in_h, layer.in_w, layer.kh, layer.kw)
    sizes = (*image_sizes, *layer.stride, *layer.pad[:2], *layer.dilation, layer.out_h, layer.out_w)

    def run() -> None:
        for image in range(layer.n):
            if not in_place:
                source, target = data[image].ctypes.data, columns[image].ctypes.data
                expand(ctypes.c_void_p(source), ctypes.c_void_p(target), *sizes)
            for group in range(layer.groups):
                np.matmul(matrix[group], columns[image, group], out=out[image, group])

    return Peer(run, lambda: out.reshape(layer.out_shape))


def torch_conv(layer: Conv2d, data: Array, weights: Array, threads: int) -> Peer:
    """torch (oneDNN) on NCHW tensors."""
    return _torch(layer, data, weights, threads, channels_last=False)


def torch_channels_last(layer: Conv2d, data: Array, weights: Array, threads: int) -> Peer:
    """torch on tensors that lie as NHWC already, and whose result does, too."""
    return _torch(layer, data, weights, threads, channels_last=True)


def _torch(layer: Conv2d, data: Array, weights: Array, threads: int, channels_last: bool) -> Peer:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    top, left, bottom, right = layer.pad
    memory = torch.channels_last if channels_last else torch.contiguous_format
    tensor, filters = (torch.from_numpy(array).to(memory_format=memory) for array in (data, weights))
    symmetric = (top, left) == (bottom, right)
    out: list[object] = [None]

    def run() -> None:
        padded = tensor if symmetric else torch.nn.functional.pad(tensor, (left, right, top, bottom))
        padding = (top, left) if symmetric else (0, 0)
        out[0] = torch.conv2d(padded, filters, None, layer.stride, padding, layer.dilation, layer.groups)

    return Peer(run, lambda: np.ascontiguousarray(out[0].numpy()))  # type: ignore[attr-defined]


def conv_peers() -> dict[str, MakePeer]:
    """The peers that are installed here, by name: torch is optional."""
    peers: dict[str, MakePeer] = {"onnxruntime": onnxruntime_conv, "im2col_openblas": im2col_openblas}
    if importlib.util.find_spec("torch"):
        peers |= {"torch": torch_conv, "torch_channels_last": torch_channels_last}
    return peers


@cache
def _im2col_library() -> ctypes.CDLL:
    source = Path(__file__).with_name("im2col.c")
    library = Path(mkdtemp(prefix="tilefleet-bench-")) / "im2col.so"
    command = [sys.executable, "-m", "ziglang", "cc", "-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True, timeout=300)
    return ctypes.CDLL(str(library))
