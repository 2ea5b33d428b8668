"""TVM's modules, each imported when something of it is used first.

So what plans a kernel (its space, cost and packing) runs without TVM beside what emits its code.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Module:
    """Stands for the module ``name`` and imports it at the first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """``attribute`` of the module; AttributeError when it has none."""
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


tvm = _Module("tvm")
ir = _Module("tvm.ir")
relax = _Module("tvm.relax")
te = _Module("tvm.te")
tirx = _Module("tvm.tirx")
T = _Module("tvm.script.ir_builder.tirx")
"""The builder of TIR."""
structural = _Module("tvm_ffi.structural")
"""Walks and rewrites of TVM's trees."""
