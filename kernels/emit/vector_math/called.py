"""Functions in LLVM's language beside the code that calls them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from kernels.emit.tvm import tirx, tvm
from kernels.emit.types import PrimFunc
from kernels.emit.vector_math.code import Code, Value
from kernels.isa.registry import isa_of

_INTRINSIC = re.compile(r"call (?:nsz )?(\w+|<[\w ]+>) @(llvm\.[\w.]+)\(([^)]*)\)")
_OPERAND = re.compile(r"(\w+|<[\w ]+>) [^,]+")


class Has(NamedTuple):
    """What a target has of what ``Code`` may use."""

    complete: bool
    scales: bool
    chooses: bool

    @classmethod
    def of(cls, target: Any) -> Has:
        """That of TVM's ``target``."""
        triple = str(target.attrs["mtriple"])
        wanted = ["avx512f", "avx512vl", "avx512dq"]
        scales = triple.startswith("x86_64") and tvm.target.codegen.target_has_features(wanted, target)
        isa = isa_of(triple)
        return cls(isa.rounds_floats, bool(scales), isa.chooses_bounds)


def define(
    name: str, write: Callable[..., Value], code: Code, arity: int, texts: dict[str, str], element: str = ""
) -> None:
    """Add the function that ``write`` writes in ``code`` to ``texts``, and what it calls.

    Its arguments are of the code's own format, or of ``element``.
    """
    arguments = [Value(code, element or code.format.name, f"%x{index}") for index in range(arity)]
    result = write(*arguments)
    parameters = ", ".join(f"{each.type} {each.name}" for each in arguments)
    body = "\n".join(code.lines)
    for kind, intrinsic, operands in _INTRINSIC.findall(body):
        texts[intrinsic] = f"declare {kind} @{intrinsic}({', '.join(_OPERAND.findall(operands))})"
    head = f"define linkonce_odr {result.type} @{name}({parameters}) alwaysinline"
    texts[name] = f"{head} {{\n{body}\n  ret {result.type} {result.name}\n}}"


def linked(function: PrimFunc, texts: dict[str, str]) -> PrimFunc:
    """``function``, whose code may call what ``texts`` define."""
    if not texts:
        return function
    text = tvm.ir.StringImm("\n".join(texts.values()))
    zero = tirx.const(0, "int32")
    return function.with_body(tirx.AttrStmt(zero, "pragma_import_llvm", text, function.body))
