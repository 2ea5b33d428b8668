"""A model run whole on a board, with the user's data or random ones: what that takes, and what comes out."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernels.kernel import Array
from tuner.backend.check import Delivery


@dataclass(frozen=True)
class Ran:
    """A model that was built and run on ``board``: what it took, and what it is made of.

    ``outputs`` are tensors as the API has them: ``dtype``, ``shape``, and ``data`` in base64.
    """

    delivery: Delivery
    board: str
    estimate_s: float
    from_records: int
    by_analysis: int
    weights_bytes: int
    workspace_bytes: int
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return vars(self) | {"delivery": self.delivery.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Ran:
        """What ``to_json`` wrote."""
        return cls(**{**value, "delivery": Delivery.from_json(value["delivery"])})


class WrongInputs(ValueError):
    """The user's data are not what the model takes; the message names the input."""


def read_inputs(
    given: Mapping[str, Mapping[str, Any]], inputs: Mapping[str, tuple[tuple[int, ...], str]]
) -> dict[str, Array]:
    """The arrays that ``given`` holds as the API has them, for ``inputs`` (shape and type by name), in their
    order. Raises WrongInputs."""
    unknown = sorted(given.keys() - inputs.keys())
    if unknown:
        raise WrongInputs(f"the model has no input {unknown[0]!r}; it has: {', '.join(inputs)}")
    missing = [name for name in inputs if name not in given]
    if missing:
        raise WrongInputs(f"there are no data for input {missing[0]!r}; every input needs some")
    return {name: _array(name, given[name], shape, dtype) for name, (shape, dtype) in inputs.items()}


def to_tensor(array: Array) -> dict[str, Any]:
    """An array as the API has it."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    data = base64.b64encode(little.tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def _array(name: str, given: Mapping[str, Any], shape: tuple[int, ...], dtype: str) -> Array:
    if given["dtype"] != dtype:
        raise WrongInputs(f"input {name!r} is {given['dtype']} and should be {dtype}")
    if tuple(given["shape"]) != shape:
        raise WrongInputs(f"input {name!r} has the shape {given['shape']} and should have {list(shape)}")
    data, wanted = base64.b64decode(given["data"]), np.dtype(dtype).newbyteorder("<")
    expected = wanted.itemsize * int(np.prod(shape, dtype=np.int64))
    if len(data) != expected:
        raise WrongInputs(f"input {name!r} has {len(data)} bytes and should have {expected}")
    return np.frombuffer(data, wanted).astype(dtype).reshape(shape)
