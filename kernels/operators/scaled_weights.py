"""Packed weights times one factor an input channel, computed anew in each run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.emit import tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.tvm import T
from kernels.emit.types import PrimFunc

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ScaledWeights:
    """``length`` packed weights, of which each ``run`` in a row are of one of ``channels`` input channels."""

    length: int
    channels: int
    run: int


def places_of(
    shape: tuple[int, ...], pack: Callable[[Array], Array], lanes: int
) -> tuple[ScaledWeights, Array]:
    """What scales weights of ``shape`` (OIHW) that ``pack`` packs; and the channel of each run (int32).

    ``pack`` may only move weights and put zeros between them: it is asked by the channels' numbers where they
    go. Runs are of ``lanes`` elements, or of fewer where those are of several channels.
    """
    numbers = np.arange(1, shape[1] + 1, dtype=np.float32)[:, np.newaxis, np.newaxis]
    found = pack(np.ascontiguousarray(np.broadcast_to(numbers, shape))).reshape(-1).astype(np.int32) - 1
    # Zeros are padding, which any factor leaves as it is: that of the channel before them, too.
    places = found[np.maximum.accumulate(np.where(found < 0, 0, np.arange(found.size)))]
    (changes,) = np.nonzero(np.diff(places))
    together = gcd(found.size, *(int(change) + 1 for change in changes))
    run = max(width for width in range(1, lanes + 1) if together % width == 0)
    return ScaledWeights(found.size, shape[1], run), np.maximum(places[::run], 0)


def build_scaled_weights(each: ScaledWeights, threads: int, name: str) -> PrimFunc:
    """The PrimFunc ``name``: weights, the channel of each run (int32), factors of the channels, result."""
    runs, threads = each.length // each.run, threads_for(each.length, threads)
    shapes = {"weights": (each.length,), "places": (runs,), "factors": (each.channels,)}
    function = Function(name, {**shapes, "out": (each.length,)}, {"places": "int32"})
    with function as (weights, places, factors, out), tir.loop(runs, threads) as number:
        at = tir.vector(T.Bind(number * each.run), each.run)
        factor = T.Bind(factors[places[number]])
        tir.store(out, weights[at] * tir.splat(factor, each.run), at)
    return function.result()
