"""A C library compared with its model's definition, in a child."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compiler.ir.graph import Array
from tuner.backend.comparison import Build, Main, Send, check_and_locate
from tuner.clibrary.loaded import Loaded


def check_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: the ``Check`` of the shared library ``module``, which is called ``name``."""

    def load() -> Main:
        send({"stage": "defined"})
        weights = Path(payload["weights"]).read_bytes() if payload["weights"] else None
        loaded = Loaded(Path(payload["module"]), payload["name"], weights, payload["threads"])
        return lambda *tensors: [_Result(each) for each in loaded.run([t.numpy() for t in tensors])]

    return vars(check_and_locate(load, Build.of_payload(payload), send, payload["deadline_s"]))


class _Result:
    """An array where a tensor of TVM's is wanted."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def numpy(self) -> Array:
        return self._array
