"""Quantized matrix products of as many rows as there are at run time: tiles of rows, each a product of its
own on the same packed weights."""

from __future__ import annotations

from dataclasses import replace

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.open_rows import OpenRows, held, quotient
from kernels.emit.tvm import T
from kernels.emit.types import Expr, Index, PrimFunc
from kernels.int8.kernel import QuantizedKernel, QuantizedPlan
from kernels.int8.tir import QArguments
from kernels.space import Config
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d


def why_not_open(product: QConv2d) -> str | None:
    """Why the rows of a product cannot be open, or None when they can."""
    kernel = (product.kh, product.kw, *product.stride, product.groups)
    matrix = kernel == (1,) * 5 and not any(product.pad) and product.n == product.in_h == 1
    return None if matrix else "a quantized convolution"


def build_open(
    kernel: QuantizedKernel,
    product: QConv2d,
    config: Config,
    target: Target,
    threads: int,
    name: str,
    lie: tuple[tuple[Index, ...], tuple[Index, ...]],
    rows: Expr,
) -> PrimFunc:
    """The function ``name`` of a ``product`` of that many ``rows``; data and result ``lie`` as these shapes.

    It takes what the function of a product with known rows takes: the packed weights are the same. ``kernel``
    is one with a ``tile_rows``.
    """

    def plan_of(count: int) -> QuantizedPlan:
        plan = kernel.plan(replace(product, in_w=count), config, target, 1)
        assert isinstance(plan, QuantizedPlan)
        return plan

    whole = plan_of(product.in_w)
    rows_of_tile = kernel.tile_rows(whole)
    assert rows_of_tile is not None
    shapes, dtypes = whole.arguments_given(*lie)
    function = Function(name, shapes, dtypes)
    with function as buffers:
        given = dict(zip(shapes, buffers, strict=True))
        tiles = OpenRows(held(rows.astype("int32")), min(rows_of_tile, product.in_w))
        count = held(tiles.tiles)
        with tir.loop(threads, threads) as thread:
            first = held(quotient(count * thread, threads))
            with T.serial(first, held(quotient(count * (thread + 1), threads))) as number:

                def tile(height: int, top: Index) -> None:
                    plan = plan_of(height)
                    own = {
                        "data": tir.From(given["data"], top * product.in_c),
                        "out": tir.From(given["out"], top * product.out_c),
                    }
                    plan.body(QArguments(plan.conv, **(given | own)))

                tiles.tile(number, tile)
    return function.result()
