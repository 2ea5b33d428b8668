"""Building a whole model: every product by its configured kernel, the rest by TVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from onnx import NodeProto
from tvm import relax

from compiler.ir.checks import ModelError, Shapes, first_line, node_name
from compiler.ir.graph import Array, OnnxGraph, attributes_of
from compiler.ir.own_nodes import LOOP, OPERATOR, PRODUCT
from compiler.ir.partition import Partition, Product
from compiler.load import load_partition, read_model
from compiler.lower.operators.constants import constant
from compiler.lower.operators.functions import Functions, function_name
from compiler.lower.operators.left_to_tvm import import_whole
from compiler.passes.epilogues.affine import merge_affine
from kernels import registry
from kernels.layout import NCHW, stored_shape
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import AnyChain, Conv2d, NarrowGemm, OfActivations
from kernels.workload.qconv2d import QConv2d
from tuner.backend.chained import chain_as, chain_measured
from tuner.backend.evidence import Evidence
from tuner.backend.executable import compile_module, link
from tuner.backend.factors import times_factors, weights_times_factors
from tuner.backend.fusion import optimise
from tuner.backend.importer import import_partition
from tuner.backend.looping import Looping, looping
from tuner.backend.lowered import lowered_product
from tuner.backend.manifest import Manifest, describe
from tuner.backend.sequence import sequenced
from tuner.layouts.options import Options, forced
from tuner.layouts.plan import Plan
from tuner.layouts.plan import plan as choose
from tuner.layouts.prices import Prices
from tuner.log.picks import clock_of, found_for
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts, fitting


def build_model(
    path: str | Path,
    picks: Mapping[str, Config],
    target: Target,
    threads: int = 1,
    shapes: Shapes | None = None,
    records: Iterable[Record] = (),
    numerics: Numerics = Numerics.EXACT_INTEGERS,
    plan: Mapping[int, Config] | None = None,
    relayouts: Iterable[Relayouts] = (),
    apart: bool = False,
) -> tuple[Any, Manifest]:
    """Build the ONNX model at ``path`` for ``target`` with the configs and layouts that are cheapest for it.

    A product gets the config that ``plan`` has for its index, else the one that ``picks`` has for its
    workload's key; where neither says, ``records`` are what there is to choose from, the best usable one of
    each workload and pair of layouts, and the analysis's configs for a workload without any. What no kernel
    computes is left to TVM. ``relayouts`` are measured times of layout changes; where none fit the target,
    the threads and the records' clock they are predicted. ``apart`` leaves each function a call of TVM's
    machine, to be timed; else those of a small model are one (``tuner/backend/sequence.py``).

    Returns a Relax executable whose ``main`` takes the model's inputs, and the manifest. Raises ModelError
    for a model that cannot be used, OtherTargetError for records of other targets alone, ValueError for a
    config that is no point of the workload's space, or that ``numerics`` excludes.
    """
    partition = load_partition(path, shapes)
    found = plan_of(partition, picks, target, threads, records, numerics, plan, relayouts)
    executable = build_partition(partition, found, target, threads, apart)
    return executable, describe(partition, found, target, threads)


def build_partition(
    partition: Partition, plan: Plan, target: Target, threads: int, apart: bool = False
) -> Any:
    """The Relax executable of a partition by its plan, with or without its functions ``apart``.

    Raises ModelError that names what TVM cannot build.
    """
    with blaming_node(partition, target, threads):
        module = lower_partition(partition, plan, target, threads)
        return compile_module(module if apart else sequenced(module), target)


@contextmanager
def blaming_node(partition: Partition, target: Target, threads: int) -> Iterator[None]:
    """What fails within is a ModelError that names the first node that TVM cannot compile, if any."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # TVM's passes raise whatever they happen to run into
        node = _culprit(partition.graph, target, threads)
        if node is None:
            raise
        name, reason = node_name(node), first_line(error)
        raise ModelError(f"TVM cannot compile node {name!r} ({node.op_type}): {reason}") from error


def _culprit(graph: OnnxGraph, target: Target, threads: int) -> NodeProto | None:
    """The first node that cannot be built even alone."""
    for node in graph.nodes:
        if node.op_type in (PRODUCT, OPERATOR, LOOP):
            continue
        names = [name for name in node.input if name]
        alone = Partition(
            replace(
                graph,
                nodes=[node],
                inputs={name: graph.tensors[name] for name in names if name not in graph.constants},
                constants={name: graph.constants[name] for name in names if name in graph.constants},
                outputs=[name for name in node.output if name],
            )
        )
        try:
            module = lower_partition(alone, plan_of(alone, {}, target, threads), target, threads)
            compile_module(module, target)
        except Exception:  # the same as in the whole model
            return node
    return None


def lower_partition(partition: Partition, plan: Plan, target: Target, threads: int) -> Any:
    """The functions that a partition needs by its plan, and ``main``, which calls them in order."""
    emitter = _Emitter(partition, plan, target, threads)
    loops = _loops(partition, target, threads)
    module = optimise(import_partition(partition, plan, target, threads, emitter, loops), target, threads)
    for loop in loops:
        for name, part in loop.parts.items():
            module[name] = part
    return module


def _loops(partition: Partition, target: Target, threads: int) -> list[Looping]:
    """The functions of the loops that data end; what their bodies multiply has the analysis's configs."""
    nodes = [node for node in partition.graph.nodes if node.op_type == LOOP]
    found = []
    for node in nodes:
        body = partition.bodies[int(attributes_of(node)["index"])]
        plan = plan_of(body, {}, target, threads)
        with blaming_node(body, target, threads):
            found.append(looping(node, lower_partition(body, plan, target, threads)))
    return found


def plan_of(
    partition: Partition,
    picks: Mapping[str, Config],
    target: Target,
    threads: int = 1,
    records: Iterable[Record] = (),
    numerics: Numerics = Numerics.EXACT_INTEGERS,
    plan: Mapping[int, Config] | None = None,
    relayouts: Iterable[Relayouts] = (),
) -> Plan:
    """The plan by which ``build_model`` builds.

    Batch norms of the partition are merged in place, and pairs of convolutions that are faster as chains.
    """
    merge_affine(partition.graph)
    records = list(records)
    evidence = Evidence.of(records, target, threads, numerics)
    if plan is None:
        chain_measured(partition, evidence)
    else:
        chain_as(partition, plan)
    measured = {(r.workload.key, r.config): r for r in records if r.ranking_s is not None}
    options: list[Options | None] = []
    for index, product in enumerate(partition.products):
        workload = product.workload
        config = (plan or {}).get(index) or found_for(picks, workload)
        if config is None:
            found = evidence.options(workload)
            options.append(found and _suited(product, found, target, threads))
        else:
            record = measured.get((workload.key, config))
            options.append(forced(workload, config, target, threads, numerics, record))
    times = fitting(relayouts, target, threads, clock_of(records, target))
    prices = Prices(target, threads, times, evidence.ratios.overall)
    return choose(partition, options, target, threads, prices)


def _suited(product: Product, options: Options, target: Target, threads: int) -> Options:
    """``options``, what the analysis picked as it suits the weights."""
    workload = product.workload
    if not isinstance(workload, QConv2d):
        return options
    found = {}
    for layouts, option in options.items():
        if option.source == "analysis":
            kernel = registry.kernel(option.config.kernel)
            config = kernel.suited(workload, option.config, target, threads, product.constants[0])
            option = replace(option, config=config)
        found[layouts] = option
    return found


def build_default(path: str | Path, target: Target, shapes: Shapes | None = None) -> Any:
    """The model as stock TVM builds it, for comparison: imported, default pipeline, no tuning.

    Raises ModelError as ``build_model`` does.
    """
    return relax.build(import_whole(read_model(path, shapes)), target=tvm.target.Target(target.tvm))


def export(executable: Any, path: str | Path) -> None:
    """Write ``executable`` as a shared library that ``tvm.runtime.load_module`` of stock TVM loads."""
    executable.export_library(str(path), fcompile=link)


def constants_of(product: Product, config: Config, target: Target) -> list[Array]:
    """What the function of a product takes between its data and a residual: packed weights, bias, scales."""
    kernel = registry.kernel(config.kernel)
    if isinstance(product.workload, OfActivations):
        return []
    if isinstance(product.workload, QConv2d | AnyChain):
        # The place of the data, which no constant depends on.
        inputs = [np.empty(0), *product.constants]
        arrays = kernel.constants(product.workload, config, target, inputs)
    elif isinstance(product.workload, NarrowGemm):
        inputs = [np.empty(0), *product.constants]
        arrays = kernel.constants(product.workload, config, target, inputs)
    else:
        arrays = [kernel.pack(product.workload, config, target, product.weights()).astype(np.float32)]
    return arrays + [each for each in (product.bias, product.slope) if each is not None]


class _Emitter:
    """Emits each product as a call of its kernel."""

    def __init__(self, partition: Partition, plan: Plan, target: Target, threads: int) -> None:
        self._products, self._plan = partition.products, plan
        self._target, self._threads = target, threads
        self._functions = Functions()

    def __call__(self, builder: Any, index: int, data: Any, others: Sequence[Any]) -> Any:
        product, option = self._products[index], self._plan.options[index]
        factors = None
        if product.factors is not None:
            *others, factors = others
        if option is None:
            data = data if factors is None else builder.emit(times_factors(data, factors, NCHW))
            return lowered_product(builder, product, data, *others)
        workload, config = product.workload, option.config
        kernel = registry.kernel(config.kernel)
        constants = [*map(constant, constants_of(product, config, self._target))]
        if factors is not None:
            assert isinstance(workload, Conv2d)
            constants[0] = weights_times_factors(
                builder, self._functions, workload, config, self._target, self._threads, constants[0], factors
            )
        arguments = [data, *constants, *others]

        def make(name: str) -> Any:
            return kernel.build(workload, config, self._target, self._threads, name)

        # One function for all products that share workload and config.
        function = self._functions.get(builder, function_name(workload, config), make)
        shape, layout = workload.out_shape, config.layouts.out
        stored = shape if layout == NCHW else stored_shape(layout, shape)
        last = workload.second if isinstance(workload, AnyChain) else workload
        dtype = last.out_dtype if isinstance(last, QConv2d) else "float32"
        return relax.call_tir(function, arguments, relax.TensorType(stored, dtype))
