"""The loop nest of Winograd along lines: blocks of tiles through transform, matrix products, transform."""

from __future__ import annotations

from kernels.emit import code_shape, tir
from kernels.emit.shares import turns
from kernels.float.plan import Arguments
from kernels.float.winograd.plan import TILES
from kernels.float.winograd.product import Products
from kernels.float.winograd_lines.input import InputTransform
from kernels.float.winograd_lines.output import OutputTransform
from kernels.float.winograd_lines.place import Place
from kernels.float.winograd_lines.plan import Plan


def emit(plan: Plan, args: Arguments) -> None:
    """All blocks. Threads share the blocks, or else the vectors and the points of each."""
    outer, inner = (plan.threads, 1) if plan.knobs.split == TILES else (1, plan.threads)
    with code_shape.linked(), tir.loop(outer, outer) as thread:
        transformed = tir.scratch(plan.points * plan.in_pitch)
        products = tir.scratch(plan.points * plan.out_pitch)
        with turns(plan.blocks, thread, outer) as block:
            place = Place.of(plan, block)
            InputTransform(plan, args, transformed, inner).run(place)
            Products(plan, args, transformed, products, inner).run()
            OutputTransform(plan, args, products, inner).run(place)
