"""A model's build, up to LLVM, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from compiler.ir.checks import ModelError, Shapes
from compiler.ir.partition import Partition, Product
from compiler.load import load_partition
from kernels.target import Target
from lab.frozen.texts import digest
from tuner.backend.apply import lower_partition, plan_of
from tuner.backend.manifest import describe


def built(path: Path, shapes: Shapes | None, target: Target, threads: int) -> str:
    """The partition, the manifest, and the module that LLVM would get; or why the model is refused.

    Constants and functions are their digests, ``main`` is whole.
    """
    try:
        partition = load_partition(path, shapes)
        head = [*_partition(partition)]
        plan = plan_of(partition, {}, target, threads)
        head += json.dumps(describe(partition, plan, target, threads).to_json(), indent=1).splitlines()
        return "\n".join([*head, *_module(lower_partition(partition, plan, target, threads))]) + "\n"
    except (ModelError, ValueError) as error:
        return f"{type(error).__name__}: {error}\n"


def _partition(partition: Partition) -> Iterator[str]:
    graph = partition.graph
    yield f"inputs {[(name, info.shape, info.dtype) for name, info in graph.inputs.items()]}"
    yield f"outputs {graph.outputs} as {graph.output_names}; operators {dict(partition.census)}"
    for name, value in sorted(graph.constants.items()):
        yield f"constant {name} {digest(value)}"
    for node in graph.nodes:
        yield f"node {node.op_type} {[*node.input]} -> {[*node.output]} {digest(node.SerializeToString())}"
    yield from (f"product {_product(product)}" for product in partition.products)
    yield from (f"operator {each}" for each in partition.operators)
    yield from (f"not tunable {each}" for each in partition.not_tunable)
    for body in partition.bodies:
        yield from (f"body: {line}" for line in _partition(body))


def _product(product: Product) -> Mapping[str, Any]:
    def short(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return digest(value)
        return tuple(map(short, value)) if isinstance(value, tuple) else value

    return {name: str(short(value)) for name, value in vars(product).items()}


def _module(module: Any) -> Iterator[str]:
    for variable, function in sorted(module.functions_items(), key=lambda item: item[0].name_hint):
        name = variable.name_hint
        if isinstance(function, tvm.tirx.PrimFunc):
            yield f"function {name} {digest(function.script())}"
            continue
        yield f"relax {name}"
        yield from function.script(show_meta=False).splitlines()
        yield from (f"constant of {name}: {digest(value)}" for value in _constants(function))


def _constants(function: Any) -> list[np.ndarray[Any, Any]]:
    found: list[np.ndarray[Any, Any]] = []

    def visit(expression: Any) -> None:
        if isinstance(expression, tvm.ir.GenericConst):
            found.append(expression.value.numpy())

    relax.analysis.post_order_visit(function, visit)
    return found
