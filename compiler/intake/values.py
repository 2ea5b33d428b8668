"""Inputs that a user fixes to a value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from compiler.intake.shapes import Values
from compiler.ir.checks import ModelError


def give_values(model: ModelProto, values: Values) -> None:
    """Make constants of the inputs that ``values`` names; raises ModelError for values that do not fit."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in constants}
    for name, numbers in values.items():
        if name not in inputs:
            raise ModelError(f"there is no input {name!r} to give a value; the inputs are {sorted(inputs)}")
        array = _array(inputs[name], numbers)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
        model.graph.input.remove(inputs[name])
    # Before version 4 whatever has a value had to be an input as well.
    model.ir_version = max(model.ir_version, 4)


def _array(value: ValueInfoProto, numbers: Sequence[float]) -> np.ndarray:
    kind = value.type.tensor_type
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    except KeyError:
        raise ModelError(
            f"input {value.name!r} is no tensor of numbers: it cannot be given a value"
        ) from None
    exact = np.array(numbers, object)
    with np.errstate(all="ignore"):
        try:
            array = exact.astype(dtype)
        except (OverflowError, TypeError, ValueError):
            raise ModelError(f"input {value.name!r} is {dtype}, which {list(numbers)} is not") from None
    if dtype.kind in "iub" and any(one != given for one, given in zip(array.tolist(), numbers, strict=True)):
        raise ModelError(f"input {value.name!r} is {dtype}, which {list(numbers)} is not")
    extents = [dim.dim_value if dim.dim_value > 0 else -1 for dim in kind.shape.dim]
    text = "[" + ", ".join(str(dim.dim_value or dim.dim_param or "?") for dim in kind.shape.dim) + "]"
    if not kind.HasField("shape"):
        return array if len(numbers) > 1 else array.reshape(())
    try:
        return array.reshape(extents)
    except ValueError:
        raise ModelError(
            f"input {value.name!r} has the shape {text}, to which {len(numbers)} values do not go"
        ) from None
