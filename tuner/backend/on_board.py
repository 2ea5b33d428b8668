"""A built model on a board without TVM: its functions are called one by one over RPC, in order."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from tuner.backend.apply import export
from tuner.backend.program import SIZES
from worker.measure.session import stats_reader
from worker.measure.wire import Wire

SESSION_S = 3600.0
"""How long a session with a board may last."""


class NotPossible(Exception):
    """The model has a step that is no call of a function; the message names it."""


class Board:
    """Built models on a board, in one session. See BoardModel for ``layers`` and ``progress``."""

    def __init__(
        self, wire: Wire, folder: Path, layers: Collection[str], progress: Callable[[], None]
    ) -> None:
        self._wire, self._folder, self._layers, self._progress = wire, folder, layers, progress
        self._count = 0

    def load(self, module: Any, executable: Any) -> BoardModel:
        """Send what ``module`` was compiled to; its file stays in ``folder``."""
        path = self._folder / f"model-{self._count}.so"
        self._count += 1
        export(executable, path)
        return BoardModel(self._wire, module, path, executable.compiled, self._layers, self._progress)


class BoardModel:
    """A built model. ``seconds`` is what each call took when it ran last, by function.

    ``module`` is what was compiled, ``path`` the file that it was compiled to, and ``functions`` those in
    it: where the calls of a small model are one, those that give a tensor another shape are left out, as
    they move nothing. The functions in ``layers`` get their weights cold, as their candidates did.
    """

    def __init__(
        self,
        wire: Wire,
        module: Any,
        path: Path,
        functions: Collection[str],
        layers: Collection[str],
        progress: Callable[[], None],
    ) -> None:
        self._wire, self._module, self._layers, self._progress = wire, module, layers, progress
        self._there = functions
        self._main, self.path = module["main"], path
        wire.session.upload(str(path), target=path.name)
        self._functions = wire.session.load_module(path.name)
        self._constants: dict[Any, Any] = {}
        stats = stats_reader(wire.session)
        self.simulated = bool(stats and stats()["simulated"])
        self._cold = "tilefleet.cold_weights" if stats else "cache_flush_cpu_non_first_arg"
        self.seconds: list[tuple[str, float]] = []

    def at(self, entry: str) -> BoardModel:
        """The same with ``entry`` for its ``main``: the function for one of several sets of shapes."""
        other = copy.copy(self)
        other._main, other.seconds = self._module[entry], []
        return other

    def itself(self) -> BoardModel:
        """It, for who loads models when they are needed."""
        return self

    def __call__(self, *inputs: Any) -> list[Any]:
        """The outputs for these tensors."""
        self.seconds = []
        tensors = [self._wire.tensor(each.numpy()) for each in inputs]
        values: dict[Any, Any] = dict(zip(self._main.params, tensors, strict=True))
        body = self._main.body
        for block in body.blocks:
            for binding in block.bindings:
                values[binding.var] = self._value(binding.value, values)
                if isinstance(binding, relax.MatchCast) and isinstance(binding.ty, relax.ShapeType):
                    # How many results there are, as data have it.
                    values |= zip(binding.ty.values, values[binding.var], strict=True)
        result = self._value(body.body, values)
        outputs = result if isinstance(result, list) else [result]
        return [tvm.runtime.tensor(self._wire.get(each)) for each in outputs]

    def _value(self, expression: Any, values: dict[Any, Any]) -> Any:
        if isinstance(expression, relax.Var):
            return values[expression]
        if isinstance(expression, tvm.ir.GenericConst):
            if expression not in self._constants:
                self._constants[expression] = self._wire.tensor(expression.value.numpy())
            return self._constants[expression]
        if isinstance(expression, relax.Tuple):
            return [self._value(field, values) for field in expression.fields]
        if isinstance(expression, relax.TupleGetItem):
            return self._value(expression.tuple_value, values)[expression.index]
        if isinstance(expression, relax.Call) and getattr(expression.op, "name", "") == "relax.call_tir":
            return self._call(expression, values)
        if _reads_sizes(expression):
            return [int(size) for size in self._wire.get(self._value(expression.args[1], values))]
        raise NotPossible(f"a board cannot compute {expression}"[:200])

    def _call(self, call: Any, values: dict[Any, Any]) -> Any:
        function, operands = call.args
        inputs = self._value(operands, values)
        kinds = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
        outputs = [
            tvm.runtime.empty(
                [int(values.get(extent, extent)) for extent in kind.shape], str(kind.dtype), self._wire.device
            )
            for kind in kinds
        ]
        name = function.name_hint
        if name not in self._there and relax.analysis.has_reshape_pattern(self._module[function]):
            shaped = self._wire.get(inputs[0]).reshape(tuple(map(int, outputs[0].shape)))
            return self._wire.tensor(shaped)
        cold = self._cold if name in self._layers else ""
        timer = self._functions.time_evaluator(name, self._wire.device, number=1, repeat=1, f_preproc=cold)
        self.seconds.append((name, float(timer(*inputs, *outputs).mean)))
        self._progress()
        return outputs if isinstance(call.ty, relax.TupleType) else outputs[0]


def _reads_sizes(expression: Any) -> bool:
    """Whether it makes sizes of a tensor: how many results there are."""
    if (
        not isinstance(expression, relax.Call)
        or getattr(expression.op, "name", "") != "relax.call_pure_packed"
    ):
        return False
    return getattr(expression.args[0], "global_symbol", "") == SIZES
