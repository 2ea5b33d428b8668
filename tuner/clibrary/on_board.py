"""A C library run on a board, by what the board's agent runs modules with: one packed function calls it."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm

from compiler.ir.graph import Array
from tuner.backend.arena import ALIGNMENT
from tuner.backend.comparison import Build, Main, Send, check_and_locate
from tuner.backend.on_board import SESSION_S, Board
from tuner.clibrary import extras
from tuner.clibrary.build import Made, only
from tuner.clibrary.embedded import embedded
from tuner.clibrary.header import ERRORS, header
from tuner.clibrary.library import Library
from tuner.clibrary.loaded import CallError
from tuner.clibrary.source import source
from tuner.clibrary.toolchain import compile_c, link_shared
from worker.measure.session import connect, take
from worker.measure.wire import Wire

ENTRY = "tuner.clibrary.on_board:check_in_child"
_FUNCTION = "run"


def packed_module(made: Made, number: int, folder: Path, output: Path) -> None:
    """Link one variant of what was written to ``folder`` as a module with one function; raises ToolError.

    It takes tensors: the arena, the inputs, the outputs, and one for the extents of all of these; behind them
    the length, where that is open. Its weights are in it, wherever the library's are.
    """
    library = replace(only(made.library, number), embed=True)
    target, name = library.variants[0].target, library.name
    kernels = folder / extras.kernels(made.library, number // made.library.sets)
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as scratch:
        alone = Path(scratch)
        (alone / f"{name}.h").write_text(header(library))
        (alone / f"{name}.c").write_text(source(library))
        (alone / "packed.c").write_text(_packed(library))
        weights = alone / extras.weights(library)
        weights.write_bytes(
            embedded(library.weights.data, f"{name}_weights", ALIGNMENT, kernels.read_bytes())
        )
        for file in (name, "packed"):
            compile_c(alone / f"{file}.c", alone / f"{file}.o", target)
        link_shared([alone / f"{name}.o", alone / "packed.o", kernels, weights], output)


def check_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: the ``Check`` of what ``packed_module`` wrote to ``module``, on the ``board`` at that address.

    ``outputs`` are the room and type of each, ``arena`` its bytes, ``refusals`` the texts of codes behind the
    usual ones, ``id`` the board's name, ``length`` what an open size is, if there is one; ``lock`` is held
    meanwhile.
    """
    build = Build.of_payload(payload)
    path = Path(payload["module"])
    with Path(payload["lock"]).open("w") as lock, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        take(lock, send)
        wire = Wire(lambda: connect(payload["board"], SESSION_S))
        board = Board(wire, Path(folder), (), lambda: send({"stage": "call"}))

        def load() -> Main:
            send({"stage": "defined"})
            wire.session.upload(str(path), target=path.name)
            function = wire.session.load_module(path.name)[_FUNCTION]
            return lambda *inputs: _called(wire, function, payload, [each.numpy() for each in inputs])

        where = f"board {payload['id']}"
        found = check_and_locate(load, build, send, where=where, load_other=board.load, thorough=False)
        return vars(found)


def _called(wire: Wire, function: Any, payload: dict[str, Any], inputs: list[Array]) -> list[Any]:
    arena = tvm.runtime.empty([payload["arena"]], "uint8", wire.device)
    given = [wire.tensor(each) for each in inputs]
    outputs = [tvm.runtime.empty(shape, dtype, wire.device) for shape, dtype in payload["outputs"]]
    axes = sum(len(shape) for shape, _ in payload["outputs"])
    extents = tvm.runtime.empty([max(1, axes)], "int64", wire.device)
    length = [] if payload["length"] is None else [payload["length"]]
    code = int(function(arena, *given, *outputs, extents, *length))
    if code:
        texts = [text.format(name=payload["name"], targets=payload["id"]) for text in ERRORS.values()]
        raise CallError(code, [*texts, *payload["refusals"]][code])
    found, told = [], iter(wire.get(extents))
    for (room, _), output in zip(payload["outputs"], outputs, strict=True):
        shape = [int(next(told)) for _ in room]
        found.append(tvm.runtime.tensor(wire.get(output).reshape(-1)[: math.prod(shape)].reshape(shape)))
    return found


def _packed(library: Library) -> str:
    """C: the function as TVM's convention has it, by the layouts of its ``TVMFFIAny`` and ``DLTensor``."""
    name, inputs, outputs = library.name, len(library.inputs), len(library.outputs)
    extent = (
        f"{name}_result_extent(*args[0].is.tensor, i, axis)"
        if library.counted
        else f"{name}_output_extent({library.handed}i, axis)"
    )
    values = 2 + inputs + outputs
    length = f"  size_t length = (size_t)args[{values}].is.i;\n" if library.open else ""
    return f"""\
#include "{name}.h"

typedef struct {{
  int32_t type;
  uint32_t padding;
  union {{
    int64_t i;
    void *const *tensor; /* begins with where its elements are */
  }} is;
}} Value;

int __tvm_ffi_{_FUNCTION}(void *self, const Value *args, int32_t count, Value *result);
int __tvm_ffi_{_FUNCTION}(void *self, const Value *args, int32_t count, Value *result) {{
  const void *in[{max(1, inputs)}] = {{0}};
  void *out[{max(1, outputs)}] = {{0}};
  int64_t *extents;
{length}  int at = 0;
  (void)self;
  if (count != {values + bool(library.open)}) return -1;
  for (int i = 0; i < {inputs}; i++) in[i] = *args[1 + i].is.tensor;
  for (int i = 0; i < {outputs}; i++) out[i] = *args[{1 + inputs} + i].is.tensor;
  result->type = 1; /* an integer */
  result->is.i = {name}_run({library.handed}*args[0].is.tensor, in, out);
  extents = *args[{1 + inputs + outputs}].is.tensor;
  for (int i = 0; i < {outputs}; i++)
    for (int axis = 0; axis < {name}_output_axes(i); axis++) extents[at++] = (int64_t){extent};
  return 0;
}}
"""
