"""Shapes for dynamic inputs, and values that make sense for an input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from onnx import TensorProto

from bench.corpus.entries import Entry, Input
from compiler.readers.model_file import TFLITE
from compiler.readers.tflite.file import read_file
from compiler.readers.tflite.subgraphs import flat
from compiler.readers.tflite.writer import ACTIVATIONS, PLAIN
from tuner.backend.definition import Array
from tuner.backend.draws import random_feeds

IMAGE, TOKENS, SAMPLES, STEPS = 224, 128, 16000, 32
"""Pixels of a side, tokens of a text, samples of sound, steps of anything else."""


def shapes_of(path: Path, entry: Entry) -> dict[str, list[int]]:
    """Shapes for the inputs whose file leaves extents open: the entry's, else by ``guessed``.

    Two extents of one name are equal. Of what is no model there are none.
    """
    data = path.read_bytes()
    if data[4:8] == TFLITE:
        return _open_shapes(data, entry)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return {}
    constants = {tensor.name for tensor in model.graph.initializer}
    shapes: dict[str, list[int]] = {}
    named: dict[str, int] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dims = [d.dim_value if d.dim_value > 0 else d.dim_param for d in tensor.shape.dim]
        if value.name in constants or all(isinstance(d, int) for d in dims):
            continue
        given = entry.inputs.get(value.name, Input()).shape
        shape = list(given) if given else guessed(dims, tensor.elem_type)
        for position, dim in enumerate(dims):
            if not given and isinstance(dim, str) and dim not in ("", "?"):
                shape[position] = named.setdefault(dim, shape[position])
        shapes[value.name] = shape
    return shapes


def _open_shapes(data: bytes, entry: Entry) -> dict[str, list[int]]:
    """The same of a TFLite file, of which an open batch stays one."""
    try:
        file = read_file(data)[0]
    except Exception:  # a damaged file, which the import names
        return {}
    shapes = {}
    for tensor in (file.tensors[index] for index in file.inputs):
        dims = ["?" if axis in tensor.open else extent for axis, extent in enumerate(tensor.shape)]
        given = entry.inputs.get(tensor.name, Input()).shape
        if tensor.open and tensor.dtype in (*PLAIN, *ACTIVATIONS):
            elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
            shapes[tensor.name] = list(given) if given else guessed(dims, elem_type)
    return shapes


def guessed(dims: list[int | str], elem_type: int) -> list[int]:
    """A shape for ``dims``, of which text is open: a batch of one; images, tokens or sound behind it."""
    rank = len(dims)
    floats = elem_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
    if rank == 4:
        channels_last = dims[3] in (1, 3)
        usual = [1, IMAGE, IMAGE, 3] if channels_last else [1, 3, IMAGE, IMAGE]
    elif rank == 2 and floats:
        usual = [1, SAMPLES]
    else:
        usual = [1] + [STEPS if floats else TOKENS] * (rank - 1)
    result = []
    for position, dim in enumerate(dims):
        batch = isinstance(dim, str) and "batch" in dim.lower()
        result.append(dim if isinstance(dim, int) else 1 if batch else usual[position])
    return result


def first_states(path: Path, model: onnx.ModelProto) -> dict[str, Array]:
    """What the states of a TFLite model, which ``model`` has as inputs, begin with: zeros."""
    data = path.read_bytes()
    if data[4:8] != TFLITE:
        return {}
    graphs = read_file(data)
    file, count = flat(graphs), len(graphs[0].inputs)
    states: dict[str, Array] = {}
    for value, index in zip(model.graph.input[count:], file.inputs[count:], strict=True):
        tensor = file.tensors[index]
        zero = tensor.scale_and_zero()[1] if tensor.scales.size else 0
        states[value.name] = np.full(tensor.shape, zero, tensor.dtype)
    return states


def inputs_of(model: onnx.ModelProto) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of every input of a model whose shapes are fixed."""
    constants = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        if value.name not in constants:
            dtype = str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
            found[value.name] = (tuple(dim.dim_value for dim in kind.shape.dim), dtype)
    return found


def feeds_for(inputs: Mapping[str, tuple[tuple[int, ...], str]], entry: Entry, seed: int) -> dict[str, Array]:
    """Values for inputs of these shapes and types, as the entry wants them, else random."""
    feeds = random_feeds(inputs, seed)
    rng = np.random.default_rng(seed)
    for name, about in entry.inputs.items():
        if name not in feeds:
            continue
        value = feeds[name]
        always = about.value if about.constant is None else about.constant
        if always is not None:
            feeds[name] = np.full(value.shape, always, value.dtype)
        elif about.between is not None:
            low, high = about.between
            integers = value.dtype.kind in "iu"
            drawn = (
                rng.integers(int(low), int(high), value.shape)
                if integers
                else rng.uniform(low, high, value.shape)
            )
            feeds[name] = drawn.astype(value.dtype)
    return feeds
