"""A model that was built by Tilefleet, as a library of machine code: ``run(x)`` computes it.

``INPUTS`` and ``OUTPUTS`` say what it takes and returns, ``SETS`` both for each set of shapes that it takes.
Where a size is left open, these are of the greatest of ``LENGTHS``. It needs NumPy alone.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_FOLDER = Path(__file__).resolve().parent
_ABOUT: dict[str, Any] = json.loads((_FOLDER / "library.json").read_text(encoding="utf-8"))
_NAME: str = _ABOUT["name"]
_ALIGNMENT = 64


class Port(NamedTuple):
    """An input or an output of the model."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class LibraryError(RuntimeError):
    """The library cannot compute the model here, for example because the processor is too old."""


def _ports(listed: list[dict[str, Any]]) -> tuple[Port, ...]:
    return tuple(Port(each["name"], tuple(each["shape"]), each["dtype"]) for each in listed)


SETS = tuple((_ports(each["inputs"]), _ports(each["outputs"])) for each in _ABOUT["sets"])
INPUTS, OUTPUTS = SETS[0]
_BY_SHAPE = {tuple(port.shape for port in inputs): at for at, (inputs, _) in enumerate(SETS)}
_OPEN: dict[str, Any] | None = _ABOUT["open"]
LENGTHS = range(_OPEN["first"], _OPEN["last"] + 1) if _OPEN else None
_SET = (ctypes.c_size_t,) if _OPEN else (ctypes.c_int,) if len(SETS) > 1 else ()
THREADS: int = _ABOUT["threads"]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    found = getattr(_LIBRARY, f"{_NAME}_{name}")
    found.restype, found.argtypes = result, arguments
    return found


_LIBRARY = ctypes.CDLL(str(_FOLDER / f"lib{_NAME}.so"))
_POINTERS = ctypes.POINTER(ctypes.c_void_p)
_PROCESSOR: int = _function("processor", ctypes.c_int)()  # each answer takes longer than a small model
_RUN = (ctypes.c_int, ctypes.c_int, *_SET, ctypes.c_void_p, _POINTERS, _POINTERS)
_run = _function("run_on", *_RUN) if THREADS == 1 else _function("run_in_pool", *_RUN, ctypes.c_void_p)
_error = _function("error", ctypes.c_char_p, ctypes.c_int)
_refused = _function("refused", ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_int)
if _OPEN:
    _length_of = _function("length_of", ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t))
_extent = None
if _ABOUT["counted"]:
    _extent = _function("result_extent", ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)


class _Pool:
    """The threads of this process, which one run at a time has."""

    def __init__(self) -> None:
        self._memory = _aligned(_function("pool_bytes", ctypes.c_size_t)())
        self._lock = threading.Lock()
        self._begun = False

    def run(self, *given: Any) -> int:
        """As the library's own; on the caller's thread alone while others have the pool."""
        if not self._lock.acquire(blocking=False):
            return int(_run(*given, None))
        try:
            if not self._begun:
                _function("pool_begin", None, ctypes.c_void_p)(self._memory.ctypes.data)
                self._begun = True
            return int(_run(*given, self._memory.ctypes.data))
        finally:
            self._lock.release()


def _aligned(size: int) -> Any:
    whole = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % _ALIGNMENT
    return whole[start : start + size]


class _Here(threading.local):
    """The memory that a thread computes in."""

    def __init__(self) -> None:
        self.arena = _aligned(_ABOUT["arena_bytes"])


def _new_pool() -> None:
    global _pool
    _pool = _Pool() if THREADS > 1 else None


_here = _Here()
_pool: _Pool | None
_new_pool()
if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads.
    os.register_at_fork(after_in_child=_new_pool)


def run(*inputs: Any, **named: Any) -> Any:
    """The output for ``inputs``, given in the model's order or by name; a tuple where there are several.

    Inputs are arrays of exactly the model's types, and of one set of its shapes. Any number of threads may
    call it at once; Python's lock is free meanwhile. Raises TypeError, ValueError,
    IndexError where a node is given an index that is not there, or LibraryError.
    """
    values = [np.asarray(value) for value in _in_order(inputs, named)]
    number, expected, returned = _which(values)
    given = [_checked(port, value) for port, value in zip(expected, values, strict=True)]
    outputs = [np.empty(port.shape, port.dtype) for port in returned]
    compute = _run if _pool is None else _pool.run
    arena = _here.arena.ctypes.data
    code = compute(_PROCESSOR, *([number] if _SET else []), arena, _pointers(given), _pointers(outputs))
    if code:
        if number := _refused(arena, code):
            raise IndexError(f"{_error(code).decode()}, and is given {number[0]}")
        raise LibraryError(_error(code).decode())
    if _extent is not None:
        for index, output in enumerate(outputs):
            shape = [_extent(arena, index, axis) for axis in range(output.ndim)]
            outputs[index] = output.reshape(-1)[: math.prod(shape)].reshape(shape)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _which(values: list[Any]) -> tuple[int, tuple[Port, ...], tuple[Port, ...]]:
    """What C is to be told of the shapes of inputs, a set's number or a length, and the ports of it."""
    if _OPEN is None or LENGTHS is None:
        number = _BY_SHAPE.get(tuple(value.shape for value in values), 0)
        return number, *SETS[number]
    extents = [extent for value in values for extent in value.shape]
    same = all(value.ndim == len(port.shape) for port, value in zip(INPUTS, values, strict=True))
    length = _length_of((ctypes.c_size_t * len(extents))(*extents)) if same else 0
    if not length:
        wanted = ", ".join(
            f"{port.name!r} {_grown(of)}" for port, of in zip(INPUTS, _OPEN["inputs"], strict=True)
        )
        raise ValueError(
            f"inputs have the shapes {[value.shape for value in values]}, and the model takes {wanted} "
            f"with a length of {LENGTHS[0]} to {LENGTHS[-1]}"
        )
    ports = [
        tuple(
            port._replace(shape=tuple(factor * length + more for factor, more in sizes))
            for port, sizes in zip(greatest, _OPEN[which], strict=True)
        )
        for which, greatest in (("inputs", INPUTS), ("outputs", OUTPUTS))
    ]
    return length, ports[0], ports[1]


def _grown(sizes: list[list[int]]) -> str:
    """Sizes by the length, for people."""
    texts = []
    for factor, more in sizes:
        product = "length" if factor == 1 else f"{factor} * length"
        texts.append(f"{product}{more:+}" if factor and more else product if factor else str(more))
    return f"({', '.join(texts)})"


def _in_order(inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    names = [port.name for port in INPUTS]
    listed = ", ".join(map(repr, names)) or "none"
    if len(inputs) > len(names):
        raise TypeError(f"{len(inputs)} inputs were given, and the model has {len(names)}: {listed}")
    values = dict(zip(names, inputs, strict=False))
    for name, value in named.items():
        if name not in names:
            raise TypeError(f"the model has no input {name!r}, only {listed}")
        if name in values:
            raise TypeError(f"input {name!r} was given twice")
        values[name] = value
    missing = [name for name in names if name not in values]
    if missing:
        raise TypeError(f"no value for input {', '.join(map(repr, missing))}; the model has {listed}")
    return [values[name] for name in names]


def _checked(port: Port, array: Any) -> Any:
    if array.shape != port.shape:
        others = f", and {len(SETS) - 1} other sets of shapes" if _SET else ""
        raise ValueError(
            f"input {port.name!r} has shape {array.shape}, and the model takes {port.shape}{others}"
        )
    if array.dtype != np.dtype(port.dtype):
        raise TypeError(
            f"input {port.name!r} is {array.dtype}, and the model takes {port.dtype}: "
            f"use .astype({port.dtype!r}) if that is meant"
        )
    return np.require(array, requirements=["C", "A"])


def _pointers(arrays: list[Any]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
