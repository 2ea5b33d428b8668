"""The assembly of a function of a built model, to be read and to be compared."""

from __future__ import annotations

import re
from typing import Any

import tvm

from kernels.emit.compile import MODEL_PIPELINE
from kernels.target import Target

_NOISE = re.compile(r"^(\.Ltmp\d+:|\s*\.(loc|cfi_\w+|file)\b)")
"""What only debuggers read."""
_DEBUG = "\t.section\t.debug"
_SECTION = re.compile(r"^\s*(?:\.section\s+)?(\.text|\.data|\.rodata)\b(\S*)")
_FUNCTION = re.compile(r"^\s*\.type\s+(\S+?),\s*[@%]function")


def assembly_of(name: str, function: Any, target: Target) -> str:
    """LLVM's text of a PrimFunc as models are compiled, as far as people read it."""
    module = tvm.IRModule({name: function})
    built = tvm.tirx.build(module, target=tvm.target.Target(target.tvm), pipeline=MODEL_PIPELINE)
    return readable(built.inspect_source("asm"), f"{name}_compute_")


def readable(text: str, name: str) -> str:
    """Assembly without debug information, and of the function ``name`` and its constants alone.

    What TVM puts around it looks at the arguments. Where no function is called that, all of them stay.
    """
    lines = [line for line in text.partition(_DEBUG)[0].splitlines() if not _NOISE.match(line)]
    whole = "".join(f"{line}\n" for line in lines)
    function, constants, kept = "", False, []
    for line in lines:
        if section := _SECTION.match(line):
            constants = section[1] == ".rodata" and section[2].startswith(".cst")
        if found := _FUNCTION.match(line):
            function, constants = found[1], False
        if constants or function == name:
            kept.append(f"{line}\n")
    return (
        "".join(kept) if any(line == f"{name}:\n" or line.startswith(f"{name}:") for line in kept) else whole
    )
