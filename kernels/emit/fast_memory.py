"""Fast memory beside the caches that code fills itself: Hexagon's VTCM.

A buffer there has TVM's own storage scope for it. TVM's pass for that scope (``LowerVtcmAlloc``) asks a
device's ``alloc_nd``, which TVM's runtime has for its own Hexagon device and not for ``llvm``'s; and what it
makes TVM 0.27 cannot lower. Without the pass TVM takes such buffers from the workspace, as all others. Here
they become workspaces of another device: an agent with fast memory has them there. TVM's runtime keeps a
device's workspaces apart, in ordinary memory, and a C library has its own, so that code stays right there.
"""

from __future__ import annotations

from kernels.emit.tvm import structural, tirx, tvm
from kernels.emit.types import Expr, Module

SCOPE = "global.vtcm"
_DEVICE = 1
"""``FAST_MEMORY`` of the agent; all else is of device 0."""
_TAKE, _GIVE = "tirx.TVMBackendAllocWorkspace", "tirx.TVMBackendFreeWorkspace"


def lower(module: Module) -> Module:
    """The module with its workspaces in ``SCOPE`` from fast memory; after TVM has made the calls for them."""

    def called(call: Expr) -> Expr:
        name = getattr(call.op, "name", "")
        if name not in (_TAKE, _GIVE):
            return call
        pointer = call.ty if name == _TAKE else call.args[2].ty
        if pointer.storage_scope != SCOPE:
            return call
        kind, _, *rest = call.args
        return tirx.call_intrin(call.ty, call.op, kind, tirx.const(_DEVICE, "int32"), *rest)

    functions = {
        name: function.with_body(structural.structural_map(function.body, ((tvm.ir.Call, called),)))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)
