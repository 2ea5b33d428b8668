"""Computed factors of a product's input channels: its weights are multiplied by them, or else its data."""

from __future__ import annotations

from typing import Any

from tvm import relax

from compiler.lower.operators.constants import constant
from compiler.lower.operators.functions import Functions, name_of
from kernels import registry
from kernels.layout import stored_shape
from kernels.operators.scaled_weights import build_scaled_weights, places_of
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d


def times_factors(data: Any, factors: Any, layout: str) -> Any:
    """``data``, stored in ``layout``, times ``factors`` of the shape [1, channels, 1, 1]."""
    shape = tuple(int(extent) for extent in factors.ty.shape.values)
    return relax.op.multiply(data, relax.op.reshape(factors, stored_shape(layout, shape)))


def weights_times_factors(
    builder: Any,
    functions: Functions,
    conv: Conv2d,
    config: Config,
    target: Target,
    threads: int,
    weights: Any,
    factors: Any,
) -> Any:
    """``weights``, as the kernel of ``config`` packs those of ``conv``, times the computed ``factors``."""
    kernel = registry.kernel(config.kernel)
    scaled, places = places_of(
        conv.weight_shape, lambda array: kernel.pack(conv, config, target, array), target.lanes()
    )

    def make(name: str) -> Any:
        return build_scaled_weights(scaled, threads, name)

    function = functions.get(builder, name_of("scaled_weights", (scaled, threads)), make)
    flat = builder.emit(relax.op.reshape(factors, (scaled.channels,)))
    arguments = [weights, constant(places), flat]
    return builder.emit(relax.call_tir(function, arguments, relax.TensorType((scaled.length,), "float32")))
