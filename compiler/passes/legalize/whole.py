"""What a DynamicQuantizeLSTM has besides an LSTM: data that become bytes, and products of those."""

from __future__ import annotations

import json

import numpy as np
from onnx import TensorProto

from compiler.ir.graph import Array
from compiler.ir.own_nodes import UNITS
from compiler.passes.legalize.writer import Writer


class Whole:
    """The bytes of ``data`` (steps, batch, inputs), which are written when this is made."""

    def __init__(self, writer: Writer, data: str, units: str) -> None:
        self._writer = writer
        self._units, self._state_units = (np.array(each, np.float32) for each in json.loads(units))
        self._quanta, self._scale, self._zero = writer.add_all("DynamicQuantizeLinear", [data], 3)

    def product(self, weights: Array, number: int) -> str:
        """The data of all steps times ``weights`` (outputs, inputs) of direction ``number``."""
        write = self._writer
        # Bytes of either sign; where they lie about another number, that is their zero.
        zero = np.clip(0, -128 - weights.min(), 127 - weights.max())
        moved = np.ascontiguousarray((weights.T + zero).astype(np.int8))
        zeros = write.constant(np.asarray(zero, np.int8))
        sums = write.add("MatMulInteger", self._quanta, write.constant(moved), self._zero, zeros)
        scale = write.add("Mul", self._scale, write.constant(self._units[number]))
        return write.add("Mul", write.add("Cast", sums, to=TensorProto.FLOAT), scale)

    def states(self, weights: Array, number: int) -> tuple[Array, Array]:
        """The recurrent ``weights`` of direction ``number`` as narrow as they fit, and what one is worth."""
        fits = weights.min() >= -128 and weights.max() <= 127
        return weights.astype(np.int8 if fits else np.int16), self._state_units[number]


def whole_of(writer: Writer, data: str) -> Whole | None:
    """What the node has besides an LSTM, if anything; ``data`` are those that it sees step by step."""
    found = [entry.value for entry in writer.node.metadata_props if entry.key == UNITS]
    return Whole(writer, data, found[0]) if found else None
