"""The calls of an open model as one: with few rows TVM's machine takes a tenth of the time for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx

from kernels.loops.open import LENGTH
from kernels.open_size import Size, expression
from tuner.backend.program import Call, Program, Storage
from tuner.backend.sequence import CallSequence, Kind, Shape


class OpenSequence(CallSequence):
    """Makes a function of a ``program``'s calls, whose tensors have the ``sizes``, dtypes as their functions
    say. Temporaries lie where those of the greatest length do, which are the program's."""

    def __init__(self, program: Program, sizes: Mapping[Storage, Shape]) -> None:
        self._sizes, self._length = sizes, tirx.Var(LENGTH, "int64")
        super().__init__(program)

    def _lies(self, storage: Storage, shape: Shape) -> Shape:
        return self._sizes[storage]

    def _extent(self, extent: Size) -> Any:
        found = expression(extent, self._length)
        return tirx.const(found, "int64") if isinstance(found, int) else found

    def _arguments(self, call: Call) -> list[tuple[Storage, Kind]]:
        wanted = self._program.functions[call.function].params
        return [
            (storage, (self._sizes[storage], str(each.dtype)))
            for storage, each in zip((*call.reads, *call.writes), wanted, strict=True)
        ]
