"""The special values that inputs hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
NAN, INF = float("nan"), float("inf")

SPECIAL: Mapping[str, Callable[[Any], list[float]]] = {
    "nan": lambda limits: [NAN],
    "-nan": lambda limits: [-NAN],
    "inf": lambda limits: [INF],
    "-inf": lambda limits: [-INF],
    "infs": lambda limits: [INF, -INF],
    "nan, inf": lambda limits: [NAN, INF],
    "nan, -inf": lambda limits: [NAN, -INF],
    "zeros": lambda limits: [-0.0, 0.0],
    "subnormal": lambda limits: [limits.smallest_subnormal, -limits.smallest_subnormal],
    "smallest": lambda limits: [limits.tiny, -limits.tiny],
    "largest": lambda limits: [limits.max],
    "-largest": lambda limits: [limits.min],
    "ties": lambda limits: [0.5, 1.5, 2.5, -0.5, -1.5, -2.5],
    "far": lambda limits: [100.0, -100.0, 1000.0, -1000.0],
    "wide": lambda limits: [2.0**31, -(2.0**31), 3e9, 1e10] if limits.bits == 32 else [4e4, -4e4],
}
"""By name: the values put at random places among ordinary numbers; a function of the float type's limits."""
FILLED: Mapping[str, float] = {"all nan": NAN, "all inf": INF, "all -inf": -INF, "all -0": -0.0}
"""By name: the value that fills the whole array."""
NAMES = (*SPECIAL, *FILLED)


def filled(shape: tuple[int, ...], dtype: Any, name: str, rng: np.random.Generator) -> Array:
    """An array with the special values called ``name``, or none for an empty name."""
    if name in FILLED:
        return np.full(shape, FILLED[name], dtype)
    array = rng.normal(size=shape).astype(dtype)
    if name:
        values = np.array([float(each) for each in SPECIAL[name](np.finfo(dtype))]).astype(dtype)
        places = rng.permutation(array.size)[: values.size]
        array.reshape(-1)[places] = values[: places.size]
    return array
