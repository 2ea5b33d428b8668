"""The rows of the other tables with an axis of no extent."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from one_operator import Case, Constant, reference
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_shapes


def variants(row: Case) -> Iterator[Case]:
    """The same operator where one axis of an input has no extent: in it alone, in all inputs that have as
    many elements along it, and in all axes of as many elements."""
    values = [each.value if isinstance(each, Constant) else each for each in row.inputs]
    seen = set()
    for place, value in enumerate(values):
        if not isinstance(row.inputs[place], np.ndarray):
            continue
        for axis, extent in enumerate(value.shape):
            if not extent:
                continue
            for how in range(3):
                made = tuple(
                    _emptied(row, values, at, (place, axis, extent), how) for at in range(len(values))
                )
                found = replace(row, inputs=made, judge=None)
                if str(found) not in seen:
                    seen.add(str(found))
                    yield found


def _emptied(row: Case, values: list[Any], at: int, where: tuple[int, int, int], how: int) -> Any:
    """Input ``at`` of a variant."""
    given, value = row.inputs[at], values[at]
    place, axis, extent = where
    if value is None or not value.ndim:
        return given
    axes = []
    if at == place or (how == 1 and value.dtype == values[place].dtype):
        axes = [axis] if axis < value.ndim and value.shape[axis] == extent else []
    if how == 2 and (at == place or value.dtype.kind == "f"):
        axes = [each for each in range(value.ndim) if value.shape[each] == extent]
    for each in axes:
        value = value.take(range(0), each)
    return Constant(value) if isinstance(given, Constant) else value


DEADLINE_S = 30.0
"""What a row may take; some libraries never end on what has no elements."""


def defined(rows: list[Case], each_s: float = DEADLINE_S) -> dict[str, list[list[Any]]]:
    """What onnxruntime makes of rows, and what onnx's reference does, by their names; in processes that a
    division by nothing may end, or ``each_s`` for one row."""
    found: dict[str, list[list[Any]]] = {}
    for define in (reference, _by_onnx):
        at = 0
        while at < len(rows):
            said, child = _started(rows[at:], define)
            with said, suppress(EOFError):
                while at < len(rows) and said.poll(each_s):
                    result = said.recv()
                    if result is not None:
                        found.setdefault(str(rows[at]), []).append(result)
                    at += 1
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            at += 1  # the row that ended it, if any is left
    return found


def _started(rows: list[Case], define: Callable[[Case], list[Any]]) -> tuple[Connection, int]:
    """What a process says of each row in turn, and its number."""
    here, there = Pipe(duplex=False)
    child = os.fork()
    if not child:
        here.close()
        _tell(rows, define, there)
    there.close()
    return here, child


def _by_onnx(row: Case) -> list[Any]:
    return list(ReferenceEvaluator(row.model()).run(None, row.arrays))


def _tell(rows: list[Case], define: Callable[[Case], list[Any]], there: Connection) -> None:
    """In a process of its own: send what each row is. Its end by a fault is a result like another."""
    faulthandler.disable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for row in rows:
        result = None
        with suppress(Exception):  # they raise whatever they like where this is no input
            infer_shapes(row.model(), strict_mode=True, data_prop=True)
            result = define(row)
        there.send(result)
    os._exit(0)
