"""Functions of products whose rows are left open: one for all lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tvm import tirx

from compiler.ir.checks import ModelError
from kernels import registry
from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.open_rows import held
from kernels.float.attention.open import Lies, emit_open, why_not_open
from kernels.float.attention.plan import Plan as AttentionPlan
from kernels.float.gemm.kernel import PackedGemm
from kernels.float.plan import FloatPlan
from kernels.int8.kernel import QuantizedKernel, QuantizedPlan
from kernels.int8.open_rows import build_open
from kernels.int8.open_rows import why_not_open as why_not_open_rows
from kernels.loops.open import LENGTH, shapes_of
from kernels.open_size import Open, Size, elements, expression, size_through
from kernels.operators.int8.dynamic import OpenElements, build_dynamic_quantize
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Attention, Gemm, View, Workload
from kernels.workload.qconv2d import QConv2d

Shape = tuple[Size, ...]
OWN_LENGTH = "tilefleet.own_length"
"""Attribute of a function whose length is the number of elements of what it reads first."""


def why_not(workloads: Sequence[Workload]) -> str | None:
    """Why a product with these workloads at several lengths has no such function, or None when it has one."""
    last = workloads[-1]
    if all(each == last for each in workloads):
        return None
    if {type(each) for each in workloads} not in ({Gemm}, {Attention}, {QConv2d}):
        return f"a {last.kind} of another size at every length; products of rows and attentions can be"
    return why_not_open_rows(last) if isinstance(last, QConv2d) else None


def open_dynamic_quantize(
    lie: Sequence[Shape], lengths: Sequence[int], target: Target, threads: int, name: str
) -> Any:
    """The function that quantizes floats as they come, of which ``lie`` are the shapes of what it takes and
    makes at any of the ``lengths``, the least and the greatest among them. Raises ModelError where their
    number does not grow with the length."""
    counts = [elements(lie[0], each) for each in lengths]
    count, variable = _grown(counts, lengths), tirx.Var(LENGTH, "int64")
    # Flat arrays may have any length: it is theirs, not that of the model.
    flat = len(lie[0]) == len(lie[1]) == 1
    if flat:
        lie, count = [(Open(1),), (Open(1),)], Open(1)
    shapes_of(lie, variable)
    data, out = (tuple(expression(size, variable) for size in shape) for shape in lie[:2])
    lies = OpenElements(tir.index(expression(count, variable)), max(counts), data, out)
    function = build_dynamic_quantize(min(counts), target, threads, name, lies)
    return function.with_attr(OWN_LENGTH, True) if flat else function


def config_of(workload: Workload, config: Config, target: Target, threads: int) -> Config:
    """``config``, or where it cannot be open the one that the analysis would pick of those that can.

    Raises ModelError where none can.
    """
    if isinstance(workload, QConv2d):
        return _of_rows(workload, config, target, threads)
    if isinstance(workload, Gemm) and config.kernel != PackedGemm.name:
        return registry.kernel(PackedGemm.name).recommend(workload, target, threads=threads)
    if not isinstance(workload, Attention):
        return config
    kernel = registry.kernel(config.kernel)

    def can_be(each: Config) -> bool:
        plan = kernel.plan(workload, each, target, threads)
        assert isinstance(plan, AttentionPlan)
        return why_not_open(plan) is None

    if can_be(config):
        return config
    packed = filter(can_be, kernel.space(workload, target, threads=threads))
    return min(packed, key=lambda each: kernel.predict(workload, each, target, threads))


def _of_rows(product: QConv2d, config: Config, target: Target, threads: int) -> Config:
    """A config of a family whose rows can be open."""
    for each in (config, *registry.recommendations(product, target, threads=threads)):
        kernel = registry.kernel(each.kernel)
        plan = kernel.plan(product, each, target, threads)
        assert isinstance(kernel, QuantizedKernel)
        assert isinstance(plan, QuantizedPlan)
        if kernel.tile_rows(plan) is not None:
            return each
    raise ModelError(f"there are no kernels for rows of bytes on {target.name}")


def open_product(
    workloads: Sequence[Workload],
    lengths: Sequence[int],
    config: Config,
    lie: Sequence[Shape],
    target: Target,
    threads: int,
    name: str,
) -> Any:
    """The function of a product that has these ``workloads`` at these ``lengths``, the greatest last.

    ``lie`` are the shapes of the activations that it takes, and of its result. Raises ModelError where its
    sizes do not grow with the length.
    """
    last, length = workloads[-1], tirx.Var(LENGTH, "int64")
    shapes = [tuple(expression(size, length) for size in shape) for shape in lie]
    if any(isinstance(size, Open) for shape in lie for size in shape):
        shapes_of(lie, length)
    if isinstance(last, Gemm) and config.kernel == PackedGemm.name:
        plan = registry.kernel(config.kernel).plan(last, config, target, threads)
        assert isinstance(plan, FloatPlan)
        rows = _grown([each.m for each in workloads if isinstance(each, Gemm)], lengths)
        given = plan.shapes_given(shapes[0], shapes[1], shapes[-1])
        return plan.emit_given(name, given, None if isinstance(rows, int) else expression(rows, length))
    if isinstance(last, QConv2d) and len(set(workloads)) > 1:
        kernel = registry.kernel(config.kernel)
        assert isinstance(kernel, QuantizedKernel)
        rows = _grown([each.in_w for each in workloads if isinstance(each, QConv2d)], lengths)
        ends = (shapes[0], shapes[-1])
        count = tir.index(expression(rows, length))
        return build_open(kernel, last, config, target, threads, name, ends, count)
    if isinstance(last, Attention):
        return _attention(workloads, lengths, config, shapes, length, target, threads, name)
    return registry.kernel(config.kernel).build(last, config, target, threads, name)


def _attention(
    workloads: Sequence[Any],
    lengths: Sequence[int],
    config: Config,
    shapes: Sequence[tuple[Any, ...]],
    length: Any,
    target: Target,
    threads: int,
    name: str,
) -> Any:
    last = workloads[-1]
    changing = {"rows", "count", "queries", "keys", "values", "out", "mask"}
    for field in fields(Attention):
        if field.name not in changing and len({getattr(each, field.name) for each in workloads}) > 1:
            raise ModelError(f"its {field.name} change with the open size")
    names = [f"input{at}" for at in range(len(shapes) - 1)]
    function = Function(name, {**dict(zip(names, shapes, strict=False)), "out": shapes[-1]})
    with function as (*inputs, out):
        count = held(length.astype("int32"))

        def size(values: Sequence[int]) -> Any:
            return expression(_grown(values, lengths), count)

        def view(values: Sequence[View | None]) -> Any:
            known = [each for each in values if each is not None]
            if not known:
                return None
            batch = tuple(size(steps) for steps in zip(*(each.batch for each in known), strict=True))
            return View(batch, size([each.row for each in known]), size([each.column for each in known]))

        views = [view([getattr(each, which) for each in workloads]) for which in VIEWS]
        lies = Lies(size([each.rows for each in workloads]), size([each.count for each in workloads]), *views)
        plan = registry.kernel(config.kernel).plan(last, config, target, threads)
        assert isinstance(plan, AttentionPlan)
        emit_open(plan, inputs, out, lies)
    return function.result()


VIEWS = ("queries", "keys", "values", "out", "mask")


def _grown(values: Sequence[int], lengths: Sequence[int]) -> Size:
    size = size_through(values, lengths)
    if size is None:
        raise ModelError(f"sizes {list(values)} at {list(lengths)} do not grow with the open one")
    return size
