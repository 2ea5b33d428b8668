"""A model whose open size is any of a range, as one program.

It is lowered at several lengths, fused but without loops, and read off as one: the same calls of functions
whose extents, strides and numbers grow with the length (``kernels/loops/open.py``), or of products whose
workloads do (``open_products.py``). Whatever is not the same, or does not grow so, is refused by its name;
nothing is padded, so results are those of a module for just that length. Constants that grow, such as
positions, are those of the greatest length, of which shorter ones are the beginning.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T
from tvm_ffi import structural_equal

from compiler.intake.shapes import OpenRange, Shapes, at_length
from compiler.ir.checks import ModelError
from compiler.ir.partition import Partition
from compiler.load import load_partition
from compiler.lower.operators.bounds import BOUNDS, open_bounds
from compiler.lower.operators.constants import constant
from compiler.lower.operators.functions import function_name
from kernels.emit.compile import KERNEL_ATTRIBUTE
from kernels.emit.function import Function
from kernels.layout import NCHW
from kernels.loops.open import opened, schedule_open
from kernels.loops.program import NoLoops
from kernels.loops.schedule import LOOPS_ATTRIBUTE
from kernels.open_size import Open, Size, elements, expression, size_through
from kernels.target import Target
from tuner.backend.apply import blaming_node, constants_of, plan_of
from tuner.backend.factors import times_factors
from tuner.backend.fusion import fused
from tuner.backend.importer import import_partition
from tuner.backend.joined import EqualFunctions
from tuner.backend.open_products import (
    OWN_LENGTH,
    Shape,
    config_of,
    open_dynamic_quantize,
    open_product,
    why_not,
)
from tuner.backend.open_sequence import OpenSequence
from tuner.backend.program import Call, NotStraight, Program, Storage, program_of
from tuner.backend.sequence import SEQUENCE, has_bfloat16
from tuner.layouts.plan import Plan

PRODUCT = "tilefleet_product_"
"""What stands for a product until its function is made; its number follows."""
DYNAMIC = "tilefleet_dynamic_quantize_"
"""What quantizes floats as they come; their number follows."""
OPAQUE = 8
"""TVM's operator pattern of what is fused with nothing."""
WAY_OUT = "give --shape lengths of its own, or a range in steps, such as 8..512:8"


@dataclass(frozen=True)
class Sample:
    """A model at one ``length``, straight and without loops."""

    length: int
    partition: Partition
    plan: Plan
    program: Program


@dataclass(frozen=True)
class OpenModel:
    """A model at several lengths, the greatest last, whose calls are the same."""

    samples: tuple[Sample, ...]
    range: OpenRange
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    sizes: dict[Storage, Shape]
    """The shape in which each tensor is made."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Those of the samples."""
        return tuple(sample.length for sample in self.samples)


def sample_of(path: str | Path, shapes: Shapes, length: int, target: Target, threads: int) -> Sample:
    """The model with its open sizes at ``length``."""
    # Products of few rows would be others than those of many.
    partition = load_partition(path, at_length(shapes, length), wide=True)
    plan = plan_of(partition, {}, target, threads)

    def stand_in(builder: Any, index: int, data: Any, others: Sequence[Any]) -> Any:
        product, option = partition.products[index], plan.options[index]
        if product.factors is not None:
            *others, factors = others
            layout = option.config.layouts.data if option else NCHW
            data = builder.emit(times_factors(data, factors, layout))
        arguments = [builder.normalize(each) for each in (data, *others)]
        taken = [(tuple(map(int, each.ty.shape)), str(each.ty.dtype.dtype)) for each in arguments]
        info = partition.graph.tensors[product.output]
        out = (info.shape, info.dtype)
        if not product.others and product.workload.kind == "gemm":
            out = (product.workload.out_shape, info.dtype)
        kinds = {f"p{at}": kind for at, kind in enumerate([*taken, out])}
        name = f"{PRODUCT}{index}"
        function = Function(
            name,
            {each: shape for each, (shape, _) in kinds.items()},
            {each: dtype for each, (_, dtype) in kinds.items()},
        )
        with function:
            T.evaluate(0)
        variable = builder.add_func(function.result().with_attr("op_pattern", OPAQUE), name)
        return relax.call_tir(variable, arguments, relax.TensorType(*out))

    with blaming_node(partition, target, threads):
        module = import_partition(partition, plan, target, threads, stand_in, flat=False)
        module = fused(module, target)
        try:
            program = program_of(module, list(partition.graph.inputs), partition.graph.output_names)
        except NotStraight as error:
            raise ModelError(f"sizes cannot be left open: {error}; {WAY_OUT}") from None
    return Sample(length, partition, plan, program)


def read_open(path: str | Path, shapes: Shapes, target: Target, threads: int) -> OpenModel:
    """The model read off at several lengths of the range in ``shapes``; ModelError that names what is not
    the same at all of them."""
    span = OpenRange.of(shapes)
    samples = tuple(sample_of(path, shapes, length, target, threads) for length in span.samples)
    lengths = span.samples
    programs = [sample.program for sample in samples]
    if len({tuple((call.reads, call.writes) for call in each.calls) for each in programs}) > 1:
        raise ModelError(f"the model is computed by other steps at other sizes; {WAY_OUT}")
    if len({each.copies for each in programs}) > 1:
        raise ModelError(f"the model's outputs are others at other sizes; {WAY_OUT}")

    def sizes(name: str, shapes: Sequence[tuple[int, ...]]) -> Shape:
        if len({len(shape) for shape in shapes}) == 1:
            found = [size_through(extents, lengths) for extents in zip(*shapes, strict=True)]
            if all(size is not None for size in found):
                return tuple(size for size in found if size is not None)
        raise ModelError(f"{name} has shapes that do not grow with the open size; {WAY_OUT}")

    inputs, outputs = (
        tuple(
            sizes(ports[-1].name, [port.shape for port in ports])
            for ports in zip(*(getattr(each, which) for each in programs), strict=True)
        )
        for which in ("inputs", "outputs")
    )
    made: dict[Storage, Shape] = {Storage("input", at): shape for at, shape in enumerate(inputs)}
    made |= {Storage("output", at): shape for at, shape in enumerate(outputs)}
    made |= {Storage("constant", at): array.shape for at, array in enumerate(programs[-1].constants)}
    for calls in zip(*(each.calls for each in programs), strict=True):
        taken = [each.functions[call.function].params for each, call in zip(programs, calls, strict=True)]
        first = len(calls[-1].reads)
        for at, storage in enumerate(calls[-1].writes, start=first):
            if storage.kind == "temporary":
                alike = [tuple(map(int, params[at].shape)) for params in taken]
                made[storage] = sizes(f"what {calls[-1].function} computes", alike)
    model = OpenModel(samples, span, inputs, outputs, made)
    _check_constants(model)
    for at, product in enumerate(samples[-1].partition.products):
        reason = why_not([sample.partition.products[at].workload for sample in samples])
        if reason is not None:
            raise ModelError(f"node {product.nodes[0]!r} cannot be left open: {reason}; {WAY_OUT}")
    return model


def _check_constants(model: OpenModel) -> None:
    """Those of shorter lengths are the beginnings of the last one's."""
    last = model.samples[-1].program
    for sample in model.samples[:-1]:
        if len(sample.program.constants) != len(last.constants):
            raise ModelError(f"the model has other constants at other sizes; {WAY_OUT}")
        for one, other in zip(sample.program.constants, last.constants, strict=True):
            start = other[tuple(slice(extent) for extent in one.shape)] if one.ndim == other.ndim else other
            if one.dtype != other.dtype or not np.array_equal(one, start, equal_nan=one.dtype.kind == "f"):
                raise ModelError(
                    f"a constant of shape {list(other.shape)} is another at other sizes, not its beginning; "
                    f"{WAY_OUT}"
                )


def _taken(storage: Storage, made: Shape, taken: Shape) -> Shape:
    """The shape as which a function takes what was made as another: constants that grow are there at the
    greatest length."""
    if storage.kind != "constant" or all(isinstance(size, int) for size in taken):
        return taken
    if len(made) != len(taken):
        raise NoLoops("it takes a constant that grows in another shape")
    return made


class _Maker:
    """Makes the functions of an open model's calls."""

    def __init__(self, model: OpenModel, plan: Plan, target: Target, threads: int) -> None:
        self._model, self._plan, self._target, self._threads = model, plan, target, threads
        self._made: dict[Any, Any] = {}

    def made(self, calls: Sequence[Call]) -> tuple[Any, list[Any], str]:
        """The function of a call at all lengths, the constants that it takes behind its activations, and
        its name."""
        sizes = [self._model.sizes[storage] for storage in (*calls[-1].reads, *calls[-1].writes)]
        name = calls[-1].function
        if name.startswith(PRODUCT):
            return self._product(int(name.removeprefix(PRODUCT)), sizes)
        key = (*(call.function for call in calls), tuple(sizes))
        if key not in self._made:
            functions = [
                sample.program.functions[call.function]
                for sample, call in zip(self._model.samples, calls, strict=True)
            ]
            try:
                if name.startswith(DYNAMIC):
                    lengths = (self._model.range.first, *self._model.lengths)
                    target = self._target
                    function = open_dynamic_quantize(sizes, lengths, target, self._threads, f"{name}_open")
                    self._made[key] = function.with_attr(KERNEL_ATTRIBUTE, True)
                    return self._made[key], [], f"{name}_open"
                if name.startswith(BOUNDS):
                    function = open_bounds(functions, self._model.lengths, sizes, name)
                    self._made[key] = function.with_attr(KERNEL_ATTRIBUTE, True)
                    return self._made[key], [], name
                read = opened(functions, self._model.lengths)
                stored = (*calls[-1].reads, *calls[-1].writes)
                shapes = tuple(map(_taken, stored, sizes, read.shapes))
                function = schedule_open(
                    replace(read, shapes=shapes), sizes, self._target, self._threads, name
                )
            except NoLoops as error:
                raise ModelError(f"{name} cannot be left open: {error}; {WAY_OUT}") from None
            self._made[key] = function.with_attr({KERNEL_ATTRIBUTE: True, LOOPS_ATTRIBUTE: True})
        return self._made[key], [], name

    def _product(self, index: int, sizes: list[Shape]) -> tuple[Any, list[Any], str]:
        products = [sample.partition.products[index] for sample in self._model.samples]
        product, option = products[-1], self._plan.options[index]
        if option is None:
            raise ModelError(f"node {product.nodes[0]!r} has no kernel; {WAY_OUT}")
        config = option.config
        if len({each.workload for each in products}) > 1:
            try:
                config = config_of(product.workload, config, self._target, self._threads)
            except ModelError as error:
                raise ModelError(
                    f"node {product.nodes[0]!r} cannot be left open: {error}; {WAY_OUT}"
                ) from None
        name = f"{function_name(product.workload, config)}_open"
        key = (tuple(each.workload for each in products), config, tuple(sizes))
        if key not in self._made:
            try:
                function = open_product(
                    [each.workload for each in products],
                    self._model.lengths,
                    config,
                    sizes,
                    self._target,
                    self._threads,
                    name,
                )
            except (ModelError, NoLoops) as error:
                raise ModelError(
                    f"node {product.nodes[0]!r} cannot be left open: {error}; {WAY_OUT}"
                ) from None
            self._made[key] = function.with_attr(KERNEL_ATTRIBUTE, True)
        return self._made[key], constants_of(product, config, self._target), name


@dataclass(frozen=True)
class OpenCalls:
    """An open model as a ``program`` at its greatest length, but whose functions, in ``module``, take any,
    and the ``sizes`` of its tensors."""

    module: Any
    program: Program
    sizes: dict[Storage, Shape]

    def length_of(self, call: Call) -> Size:
        """What the function of a call takes for the length, by that of the model."""
        if OWN_LENGTH not in (self.program.functions[call.function].attrs or {}):
            return Open(1)
        lengths = (1, 2, 3)
        size = size_through([elements(self.sizes[call.reads[0]], each) for each in lengths], lengths)
        assert size is not None
        return size


def open_calls(model: OpenModel, plan: Plan, target: Target, threads: int) -> OpenCalls:
    """The calls of an open model with its products by a ``plan``; ModelError names what cannot be open."""
    builder = relax.BlockBuilder()
    functions, maker = EqualFunctions(builder), _Maker(model, plan, target, threads)
    program, sizes = model.samples[-1].program, dict(model.sizes)
    constants, calls = list(program.constants), []
    for alike in zip(*(sample.program.calls for sample in model.samples), strict=True):
        function, more, name = maker.made(alike)
        variable, reads = functions.get(name, function), alike[-1].reads
        kept = [Storage("constant", len(constants) + at) for at in range(len(more))]
        sizes |= {storage: array.shape for storage, array in zip(kept, more, strict=True)}
        constants += more
        calls.append(Call(variable.name_hint, (*reads[:1], *kept, *reads[1:]), alike[-1].writes))
    module = builder.get()
    made = {each.name_hint: function for each, function in module.functions_items()}
    whole = replace(program, constants=tuple(constants), calls=tuple(calls), functions=made)
    return OpenCalls(module, whole, sizes)


def lower_open(model: OpenModel, calls: OpenCalls, apart: bool) -> Any:
    """The Relax module with the function ``main_0`` of an open model. Each function is a call of TVM's
    machine where they stay ``apart``, else all are one wherever that can be."""
    builder, length, program = relax.BlockBuilder(calls.module), tirx.Var("n", "int64"), calls.program
    inputs = [
        relax.Var(port.name, typed(shape, port.dtype, length))
        for port, shape in zip(program.inputs, model.inputs, strict=True)
    ]
    one = not apart and all(_handed_on(model, *copy) for copy in program.copies) and not has_bfloat16(program)
    # Relax counts calls by name alone as impure.
    attributes = {"relax.force_pure": True} if one else {}
    with builder.function("main_0", inputs, attrs=attributes):
        emit = _one_call if one else _each_call
        results = emit(builder, model, calls, inputs, length)
        builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    module = builder.finalize()
    bound = {"tir_var_upper_bound": {"n": model.range.last}, "num_input": len(inputs)}
    module["main_0"] = module["main_0"].with_attrs(bound)
    return module


def _handed_on(model: OpenModel, source: Storage, at: int) -> bool:
    """Whether an output is just another one, or an input."""
    made = {"output": model.outputs, "input": model.inputs}.get(source.kind, ())
    return source.index < len(made) and made[source.index] == model.outputs[at]


def _one_call(builder: Any, model: OpenModel, calls: OpenCalls, inputs: list[Any], length: Any) -> list[Any]:
    program = calls.program
    builder.add_func(OpenSequence(program, calls.sizes).function(), SEQUENCE)
    copied = {at: source for source, at in program.copies}
    outputs: dict[int, Any] = {}
    for at, (port, shape) in enumerate(zip(program.outputs, model.outputs, strict=True)):
        if at in copied:
            continue
        extents = [extent_of(size, length) for size in shape]
        size = reduce(operator.mul, extents, tirx.IntImm("int64", max(1, port.element_bytes)))
        storage = relax.op.memory.alloc_storage(relax.ShapeExpr([size]), 0, "global", "uint8")
        made = relax.op.memory.alloc_tensor(storage, 0, relax.ShapeExpr(extents), port.dtype)
        outputs[at] = builder.emit(made)
    arguments = [*inputs, *map(constant, program.constants), *outputs.values()]
    builder.emit(relax.Call(relax.ExternFunc(SEQUENCE), arguments, ty_args=[relax.AnyType()]))
    for at, source in copied.items():
        outputs[at] = outputs[source.index] if source.kind == "output" else inputs[source.index]
    return [outputs[at] for at in range(len(program.outputs))]


def _each_call(builder: Any, model: OpenModel, calls: OpenCalls, inputs: list[Any], length: Any) -> list[Any]:
    program, values = calls.program, {Storage("input", at): each for at, each in enumerate(inputs)}
    for at, array in enumerate(program.constants):
        values[Storage("constant", at)] = constant(array)
    for call in program.calls:
        wanted = program.functions[call.function].params[len(call.reads) :]
        types = [
            typed(calls.sizes[storage], str(each.dtype), length)
            for storage, each in zip(call.writes, wanted, strict=True)
        ]
        variable = calls.module.get_global_var(call.function)
        reads = [values[storage] for storage in call.reads]
        result = builder.emit(relax.call_tir(variable, reads, types if len(types) > 1 else types[0]))
        for at, storage in enumerate(call.writes):
            values[storage] = builder.emit(relax.TupleGetItem(result, at)) if len(types) > 1 else result
    values |= {Storage("output", at): values[storage] for storage, at in program.copies}
    results = []
    for at, shape in enumerate(model.outputs):
        value = builder.normalize(values[Storage("output", at)])
        wanted_shape = relax.ShapeExpr([extent_of(size, length) for size in shape])
        if not structural_equal(value.ty.shape, wanted_shape):
            value = builder.emit(relax.op.reshape(value, wanted_shape))
        results.append(value)
    return results


def typed(shape: Shape, dtype: str, length: Any) -> Any:
    """The type of a tensor of open sizes."""
    return relax.TensorType([extent_of(size, length) for size in shape], dtype)


def extent_of(size: Size, length: Any) -> Any:
    """A size as Relax has it."""
    return tirx.IntImm("int64", size) if isinstance(size, int) else expression(size, length)
