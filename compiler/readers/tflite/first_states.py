"""What the states of a TFLite file are before its first run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.readers.tflite.file import Array, TfliteFile, read_file
from compiler.readers.tflite.subgraphs import flat


def first_states(data: bytes) -> dict[int, Array]:
    """By the number of each input of the ONNX model that is a state of the file: what the file begins with.

    That is zeros (the zero point, where it is quantized), unless CALL_ONCE says otherwise.
    """
    graphs = read_file(data)
    file, count = flat(graphs), len(graphs[0].inputs)
    given, states = _assigned(graphs[1:]), {}
    for number, index in enumerate(file.inputs[count:], count):
        tensor = file.tensors[index]
        zero = tensor.scale_and_zero()[1] if tensor.scales.size else 0
        value = given.get(tensor.name)
        if value is None or value.size != tensor.size:
            value = np.full(tensor.shape, zero, tensor.dtype)
        states[number] = value.reshape(tensor.shape).astype(tensor.dtype)
    return states


def _assigned(graphs: Sequence[TfliteFile]) -> Mapping[str, Array]:
    """The constants that graphs beside the first leave in variables: only CALL_ONCE may do so."""
    found = {}
    for graph in graphs:
        handles = {
            op.outputs[0]: (op.options.SharedName() or b"").decode(errors="replace")
            for op in graph.operators
            if op.kind == "VAR_HANDLE"
        }
        for op in graph.operators:
            if op.kind == "ASSIGN_VARIABLE" and op.inputs[0] in handles:
                value = graph.tensors[op.inputs[1]].values()
                if value is not None:
                    found[handles[op.inputs[0]]] = value
    return found
