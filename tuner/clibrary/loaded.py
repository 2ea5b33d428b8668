"""A C library called from Python. It needs NumPy and nothing else of this project."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
_PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class CallError(RuntimeError):
    """The library returned ``code``; the message is its text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Loaded:
    """The shared library at ``path``; ``weights`` is the content of its file of weights, if it has one.

    One for several ``threads`` has its loops run by a pool of so many: by its own in C, if it has one, where
    it is timed.
    """

    def __init__(self, path: Path, name: str, weights: bytes | None = None, threads: int = 1) -> None:
        self._library, self._name = ctypes.CDLL(str(path)), name
        self._weights = None if weights is None else _aligned(len(weights))
        if self._weights is not None and weights is not None:
            self._weights[:] = np.frombuffer(weights, np.uint8)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._arena = _aligned(self._ask("arena_bytes", ctypes.c_size_t))
        if self._weights is not None:
            self._called("use_weights", self._arena.ctypes, self._weights.ctypes, self._weights.size)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for ``inputs``; raises CallError, ValueError for shapes that are in no set."""
        which, outputs = self._buffers(inputs)
        given = [np.ascontiguousarray(each) for each in inputs]
        into = _pointers(given), _sizes(given), _pointers(outputs), _sizes(outputs)
        self._called("run_checked", *which, self._arena.ctypes, ctypes.c_size_t(self._arena.size), *into)
        if self._pool is not None:
            for output in outputs:
                output.fill(0)
            run = _PARALLEL_FOR(self._parallel_for)
            self._called("run_parallel", *which, self._arena.ctypes, into[0], into[2], run, None)
        return [self._counted(index, output) for index, output in enumerate(outputs)]

    def caller(self, inputs: Sequence[Array]) -> Callable[[], None]:
        """A function that runs the model once, into buffers of its own; raises as ``run`` does."""
        which, outputs = self._buffers(inputs)
        given = [np.ascontiguousarray(each) for each in inputs]
        on = self._ask("processor")
        arguments = [on, *which, self._arena.ctypes, _pointers(given), _pointers(outputs)]
        function = "run_on"
        if self._pool is None:
            pass
        elif self._has("run_in_pool"):
            function, pool = "run_in_pool", _aligned(self._ask("pool_bytes", ctypes.c_size_t))
            self._ask("pool_begin", None, ctypes.c_void_p(pool.ctypes.data))
            arguments.append(pool.ctypes)
        else:
            arguments += [_PARALLEL_FOR(self._parallel_for), None]

        # All of it ready, as what Python does beside the library is timed with it.
        plain, called = _plain(arguments), self._function(function, ctypes.c_int)

        def call(_kept: Any = (given, outputs, arguments)) -> None:
            if code := called(*plain):
                self._refused(code)

        return call

    def _buffers(self, inputs: Sequence[Array]) -> tuple[list[Any], list[Array]]:
        """The number of the inputs' set of shapes, where there are several, or their length, where it is
        open; and room for outputs."""
        extents = [extent for each in inputs for extent in each.shape]
        given = (ctypes.c_size_t * len(extents))(*extents)
        which: list[Any] = []
        known = True
        if self._has("sets"):
            which = [self._ask("set_of", ctypes.c_int, given)]
            known = which[0] >= 0
        elif self._has("length_of"):
            length = self._ask("length_of", ctypes.c_size_t, given)
            which, known = [ctypes.c_size_t(length)], length > 0
        if not known:
            raise ValueError(f"the library takes no inputs of the shapes {[each.shape for each in inputs]}")
        return which, [self._output(which, index) for index in range(self._ask("outputs"))]

    def _counted(self, index: int, output: Array) -> Array:
        """What the last run filled of an output."""
        if not self._has("result_extent"):
            return output
        shape = [
            self._ask("result_extent", ctypes.c_size_t, ctypes.c_void_p(self._arena.ctypes.data), index, axis)
            for axis in range(output.ndim)
        ]
        return output.reshape(-1)[: math.prod(shape)].reshape(shape)

    def _parallel_for(self, _: int, task: int, data: int, count: int) -> None:
        assert self._pool is not None
        list(self._pool.map(partial(_TASK(task), data), range(count)))

    def _called(self, function: str, *arguments: Any) -> None:
        if code := self._ask(function, ctypes.c_int, *_plain(arguments)):
            self._refused(code)

    def _refused(self, code: int) -> NoReturn:
        text = self._ask("error", ctypes.c_char_p, code).decode()
        number = self._ask("refused", ctypes.POINTER(ctypes.c_int64), *_plain([self._arena.ctypes]), code)
        raise CallError(code, f"{text}, and is given {number[0]}" if number else text)

    def _output(self, which: Sequence[Any], index: int) -> Array:
        axes = self._ask("output_axes", ctypes.c_int, index)
        shape = [self._ask("output_extent", ctypes.c_size_t, *which, index, axis) for axis in range(axes)]
        return np.empty(shape, np.dtype(self._ask("output_type", ctypes.c_char_p, index).decode()))

    def _has(self, function: str) -> bool:
        return hasattr(self._library, f"{self._name}_{function}")

    def _ask(self, function: str, kind: Any = ctypes.c_int, *arguments: Any) -> Any:
        return self._function(function, kind)(*arguments)

    def _function(self, name: str, kind: Any) -> Any:
        called = getattr(self._library, f"{self._name}_{name}")
        called.restype = kind
        return called


def _plain(arguments: Sequence[Any]) -> list[Any]:
    return [ctypes.c_void_p(each.data) if hasattr(each, "data_as") else each for each in arguments]


def _aligned(size: int) -> Array:
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))


def _sizes(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_size_t * len(arrays))(*(each.nbytes for each in arrays))
