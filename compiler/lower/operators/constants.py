"""Constants of a Relax module."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.ir.graph import Array
from kernels.emit.tvm import relax


def constant(value: Array) -> Any:
    """``value`` as a constant of its own type: without one TVM makes 32 bits of 64."""
    return relax.const(np.ascontiguousarray(value).reshape(value.shape), str(value.dtype))
