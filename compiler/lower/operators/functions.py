"""Functions of ours in the Relax module that is being built."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from kernels.emit.compile import KERNEL_ATTRIBUTE
from kernels.space import Config
from kernels.workload.base import Workload

OPAQUE = 8
"""TVM's operator pattern for functions that nothing may be fused into."""


class Functions:
    """PrimFuncs of ours in the module being built, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def get(self, builder: Any, name: str, make: Callable[[str], Any]) -> Any:
        """The function called ``name``, as ``make(name)`` builds it."""
        if name not in self._made:
            function = make(name).with_attr({"op_pattern": OPAQUE, KERNEL_ATTRIBUTE: True})
            self._made[name] = builder.add_func(function, name)
        return self._made[name]


def name_of(word: str, it: object) -> str:
    """A name for the function of ``it``, which is that of nothing else."""
    return f"tilefleet_{word}_{hashlib.sha256(repr(it).encode()).hexdigest()[:12]}"


def function_name(workload: Workload, config: Config) -> str:
    """What the function of a product is called in a built module."""
    return f"tilefleet_{config.kernel}_{workload.key}_{config.key}"
