"""What a TFLite file computes, by LiteRT: in a child, as it may crash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

PLAIN, FAST = "plain", "fast"
"""LiteRT's reference kernels, which define what an operator computes; and those that it runs by default."""


class Refused(Exception):
    """LiteRT is not there or does not take the file; the message says why."""


class LiteRT:
    """A file at ``path`` with inputs of ``shapes``, by the kernels of one ``kind``; raises Refused."""

    def __init__(self, path: Path, shapes: Sequence[tuple[int, ...]], kind: str) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter, OpResolverType
        except ImportError:
            raise Refused("ai-edge-litert is not installed") from None
        resolver = OpResolverType.BUILTIN_REF if kind == PLAIN else OpResolverType.AUTO
        try:
            self._model: Any = Interpreter(str(path), experimental_op_resolver_type=resolver, num_threads=1)
            self._inputs: list[Any] = self._model.get_input_details()
            for detail, shape in zip(self._inputs, shapes, strict=False):
                if tuple(detail["shape"]) != shape:
                    self._model.resize_tensor_input(detail["index"], shape)
            self._model.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            said = str(error).strip().splitlines()[0]
            raise Refused(
                "LiteRT lacks its custom operators" if "custom op" in said else f"LiteRT: {said}"
            ) from None

    @property
    def count(self) -> int:
        """How many inputs it has."""
        return len(self._inputs)

    def run(self, feeds: Sequence[Array], times: int = 1) -> list[Array]:
        """The outputs of the last of so many runs, of which the first begins without any state."""
        self._model.reset_all_variables()
        for _ in range(times):
            for detail, value in zip(self._inputs, feeds, strict=False):
                self._model.set_tensor(detail["index"], value)
            self._model.invoke()
        return [np.array(self._model.get_tensor(each["index"])) for each in self._model.get_output_details()]


def version() -> str:
    """What to call it."""
    import ai_edge_litert

    return f"LiteRT {ai_edge_litert.__version__}"
