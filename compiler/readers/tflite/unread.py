"""Operators of a TFLite graph that nothing reads, left out before any of them is refused."""

from __future__ import annotations

from dataclasses import replace

from compiler.readers.tflite.file import COMPOSITE, TfliteFile

STATE = ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")
_LEAVING = ("CALL_ONCE", "ASSIGN_VARIABLE", "IF", "WHILE", COMPOSITE)
"""Operators that may leave something behind beside their results: a variable, or a graph that does."""


def read(file: TfliteFile) -> TfliteFile:
    """``file`` with what its outputs and its variables depend on."""
    wanted, kept = set(file.outputs), []
    stateful = any(op.kind in STATE for op in file.operators)
    for op in reversed(file.operators):
        keeps = any(index >= 0 and file.tensors[index].variable for index in op.inputs)
        leaves = op.kind in _LEAVING if stateful else op.kind in _LEAVING[:2]
        if keeps or leaves or wanted.intersection(op.outputs):
            wanted.update(op.inputs)
            kept.append(op)
    return replace(file, operators=tuple(reversed(kept)))
