"""A C library called from Python. It needs NumPy and nothing else of this project."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

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
        """The outputs for ``inputs``; raises CallError."""
        outputs = [self._output(index) for index in range(self._ask("outputs"))]
        given = [np.ascontiguousarray(each) for each in inputs]
        into = _pointers(given), _sizes(given), _pointers(outputs), _sizes(outputs)
        self._called("run_checked", self._arena.ctypes, ctypes.c_size_t(self._arena.size), *into)
        if self._pool is not None:
            for output in outputs:
                output.fill(0)
            run = _PARALLEL_FOR(self._parallel_for)
            self._called("run_parallel", self._arena.ctypes, into[0], into[2], run, None)
        return outputs

    def caller(self, inputs: Sequence[Array]) -> Callable[[], None]:
        """A function that runs the model once, into buffers of its own; raises CallError."""
        outputs = [self._output(index) for index in range(self._ask("outputs"))]
        given = [np.ascontiguousarray(each) for each in inputs]
        arguments = [self._arena.ctypes, _pointers(given), _pointers(outputs)]
        if self._pool is None:
            function = "run"
        elif hasattr(self._library, f"{self._name}_run_in_pool"):
            function, pool = "run_in_pool", _aligned(self._ask("pool_bytes", ctypes.c_size_t))
            self._ask("pool_begin", None, ctypes.c_void_p(pool.ctypes.data))
            arguments.append(pool.ctypes)
        else:
            function = "run_parallel"
            arguments += [_PARALLEL_FOR(self._parallel_for), None]

        def call(_kept: Any = (given, outputs, arguments)) -> None:
            self._called(function, *arguments)

        return call

    def _parallel_for(self, _: int, task: int, data: int, count: int) -> None:
        assert self._pool is not None
        list(self._pool.map(partial(_TASK(task), data), range(count)))

    def _called(self, function: str, *arguments: Any) -> None:
        plain = [ctypes.c_void_p(a.data) if hasattr(a, "data_as") else a for a in arguments]
        code = self._ask(function, ctypes.c_int, *plain)
        if code:
            raise CallError(code, self._ask("error", ctypes.c_char_p, code).decode())

    def _output(self, index: int) -> Array:
        axes = self._ask("output_axes", ctypes.c_int, index)
        shape = [self._ask("output_extent", ctypes.c_size_t, index, axis) for axis in range(axes)]
        return np.empty(shape, np.dtype(self._ask("output_type", ctypes.c_char_p, index).decode()))

    def _ask(self, function: str, kind: Any = ctypes.c_int, *arguments: Any) -> Any:
        called = getattr(self._library, f"{self._name}_{function}")
        called.restype = kind
        return called(*arguments)


def _aligned(size: int) -> Array:
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))


def _sizes(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_size_t * len(arrays))(*(each.nbytes for each in arrays))
