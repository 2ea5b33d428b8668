"""A built model beside its definition: run once on random inputs, every output compared, and what is wrong.

A build is handed over, and a job ends, with this. It runs in a child, as a wrong module may crash or hang.
"""

from __future__ import annotations

import platform
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from compiler.ir.checks import ModelError, Shapes
from compiler.load import load_graph, load_partition
from compiler.passes.epilogues.affine import merge_affine
from kernels import target as targets
from kernels.space import Config
from kernels.target import Target
from tuner.backend.apply import lower_partition, plan_of
from tuner.backend.chained import chain_as
from tuner.backend.check import Check, worst
from tuner.backend.definition import (
    DEADLINE_S,
    Array,
    Definition,
    Source,
    Undefined,
    define,
)
from tuner.backend.difference import LIMIT, compared, is_coarse
from tuner.backend.drawn import defined_draws
from tuner.backend.draws import Draw, draws_of, feeds_of
from tuner.backend.executable import compile_module
from tuner.backend.given import read_draws
from tuner.backend.pieces import cut, cuts_of, exact_inputs
from worker.children.nursery import ChildCrashed, ChildError, Nursery
from worker.measure.host import host_target

RUN_S = 120.0
"""How long a built model may take to load and to run once."""
MEMORY_BYTES = 16 << 30
LOCATE_S = 200.0
"""Where a comparison took longer, the first wrong tensor is not looked for: that takes a build more."""
CONVERSION = "all tensors are as our conversion of the file has them: that is wrong, please report it"
REFERENCE_S = 60.0
"""How long onnx's own evaluator, which is slow, may take to disagree with onnxruntime."""
HERE = "this machine"
Main = Callable[..., Any]
"""The ``main`` of a built model: tensors in, one tensor or several out."""
Load = Callable[[Any, Any], Main]
"""Makes that of the functions as lowered and of the executable that they are compiled to."""
Send = Callable[[Any], None]


class OtherMachine(Exception):
    """This machine does not run the code; the message says which does."""


@dataclass(frozen=True)
class Build:
    """What is built from what: enough to build it once more. ``configs`` are the products', in order."""

    model: str
    shapes: Shapes | None
    target: Target
    threads: int
    configs: Sequence[Config | None]
    tolerance: float
    inputs: Sequence[str] = ()
    """Files with inputs of the user's own (.npz), which it is compared on as well."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        configs = [None if config is None else config.to_json() for config in self.configs]
        return vars(self) | {"target": targets.to_json(self.target), "configs": configs}

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Build:
        """The one within what a child was told."""
        return cls.from_json({name: payload[name] for name in cls.__dataclass_fields__ if name in payload})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Build:
        """What ``to_json`` wrote."""
        configs = [None if config is None else Config.from_json(config) for config in value["configs"]]
        return cls(**{**value, "target": targets.from_json(value["target"]), "configs": configs})


def check_module(
    path: Path,
    build: Build,
    deadline_s: float = DEADLINE_S,
    entry: str = "tuner.backend.comparison:check_in_child",
    more: Mapping[str, Any] | None = None,
) -> Check:
    """Compare the module at ``path`` with its definition, on this machine; raises OtherMachine.

    ``entry`` loads and compares it in a child, and is told ``more``. The module may be for another
    machine of the same architecture, which knows other instructions: what meets one that this machine does
    not know is not wrong.
    """
    if platform.machine() != build.target.triple.partition("-")[0]:
        raise OtherMachine(f"{build.target.name} is another machine than this")
    payload = {**build.to_json(), "module": str(path), "deadline_s": deadline_s, **(more or {})}
    messages: list[Any] = []
    with Nursery(("tuner.backend.comparison",), env={"TVM_NUM_THREADS": str(build.threads)}) as nursery:
        try:
            found = nursery.call(
                entry,
                payload,
                timeout_s=deadline_s + RUN_S,
                memory_bytes=MEMORY_BYTES,
                on_message=messages.append,
            )
        except ChildError as error:
            foreign = build.target.key != host_target().key
            if isinstance(error, ChildCrashed) and error.signal == signal.SIGILL and foreign:
                raise OtherMachine(f"this machine cannot run code for {build.target.name}") from None
            if not messages:
                return Check(build.tolerance, skipped=f"the check failed: {error}")
            if "wrong" not in messages[-1]:
                return Check(build.tolerance, wrong=f"the module does not run: {error}", where=HERE)
            found = messages[-1]  # only where it begins to be wrong was not found
    return Check(**found)


def check_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: the ``Check`` of the file ``module``; sends a message once only the module is left to run."""
    build = Build.of_payload(payload)

    def load() -> Main:
        send({"stage": "defined"})
        main: Main = relax.VirtualMachine(tvm.runtime.load_module(payload["module"]), tvm.cpu())["main"]
        return main

    return vars(check_and_locate(load, build, send, payload["deadline_s"]))


def load_here(_: Any, executable: Any) -> Main:
    """The ``main`` of an executable for this machine."""
    main: Main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    return main


def check_and_locate(
    load: Callable[[], Main],
    build: Build,
    send: Send,
    deadline_s: float = DEADLINE_S,
    where: str = HERE,
    load_other: Load = load_here,
    feeds: Mapping[str, Array] | None = None,
    thorough: bool = True,
) -> Check:
    """``check``; what is wrong is sent at once, and told again with the first tensor that is.

    ``load_other`` loads what is built to find that, on the same machine.
    """
    started = time.monotonic()
    found, wrong = _compared(load, build, deadline_s, where, load_other, feeds, thorough)
    if not found.wrong:
        return found
    send(vars(found))
    if wrong is None or time.monotonic() - started > LOCATE_S:
        return found
    first = locate(build, load_other, wrong)
    if first and found.wrong.startswith("with "):
        first = f"{found.wrong.partition(': ')[0]}: {first}"
    return replace(found, wrong=f"{found.wrong}; {first}" if CONVERSION in first else first or found.wrong)


def check(
    load: Callable[[], Main],
    build: Build,
    deadline_s: float = DEADLINE_S,
    where: str = HERE,
    feeds: Mapping[str, Array] | None = None,
    load_other: Load = load_here,
    thorough: bool = True,
) -> Check:
    """Compare the model that ``load`` gives, which runs on ``where``, with its definition.

    ``feeds`` are the inputs; without, those of the user's files and some that are drawn: of a ``thorough``
    check all draws of ``draws_of``, else the first.
    """
    return _compared(load, build, deadline_s, where, load_other, feeds, thorough)[0]


def _compared(
    load: Callable[[], Main],
    build: Build,
    deadline_s: float,
    where: str,
    load_other: Load,
    feeds: Mapping[str, Array] | None,
    thorough: bool,
) -> tuple[Check, Mapping[str, Array] | None]:
    """The check, and the inputs at which the model is wrong or of which the check was made."""
    started = time.monotonic()
    graph = load_graph(build.model, build.shapes)
    source = Source.of(build.model, build.shapes)
    if feeds is not None:
        defined = defined_draws(source, [], [Draw("", feeds)], None, deadline_s)
    else:
        drawn = [*draws_of(graph)][: None if thorough else 1]
        defined = defined_draws(source, read_draws(build.inputs, graph), drawn, graph, deadline_s)
    main: Main | None = None
    found: dict[str, Check] = {}
    reasons: list[str] = []
    last: Definition | None = None
    for number, (draw, definition) in enumerate(defined):
        if isinstance(definition, Undefined):
            if number < len(build.inputs):
                found[draw.name] = Check(build.tolerance, skipped=str(definition))
            reasons.append(str(definition))
            continue
        if draw.optional and not definition.finite:
            continue
        main = main or load()
        results = dict(zip(graph.output_names, run(main, definition.feeds), strict=True))
        one = compared(results, definition, build.tolerance)
        if one.wrong:
            one = _by_reference(source, results, definition, build.tolerance) or one
        found[draw.name] = replace(one, where=where)
        last = definition
        if one.wrong:
            return worst(found), last.feeds
    if not any(each.errors for each in found.values()):
        return (worst(found) if found else Check(build.tolerance, skipped=reasons[0])), None
    total = worst(found)
    blunt = [
        name for name in total.errors if all(name in each.blunt for each in found.values() if each.errors)
    ]
    total = replace(total, blunt=blunt)
    if total.skipped or last is None or time.monotonic() - started > LOCATE_S:
        return _told_blind(total), None
    names = cuts_of(source.model, graph, bool(blunt), any(map(is_coarse, last.values.values())))
    inside = _in_pieces(source, build, load_other, last.feeds, names)
    if inside is None:
        return _told_blind(total), None
    if inside.wrong:
        return replace(inside, where=where), None
    return replace(total, inside=inside.inside), None


def _in_pieces(
    source: Source, build: Build, load: Load, feeds: Mapping[str, Array], names: Sequence[str]
) -> Check | None:
    """The check of the model cut at the tensors ``names``: each piece gets what the definition has before it.
    None where there is nothing to cut, or no such model can be built."""
    if not names:
        return None
    with tempfile.TemporaryDirectory(prefix="tilefleet-pieces-") as folder:
        path = Path(folder) / "pieces.onnx"
        try:
            values = define(source.model, feeds, names).values
            model, given = cut(source.model, {name: values[name] for name in names})
            path.write_bytes(model.SerializeToString())
            partition = load_partition(path)
        except (ModelError, Undefined, ValueError):
            return None
        fed = {**feeds, **{given[name]: values[name] for name in names}}
        # What is given is exact: what is chosen of it, and rounded, must be the same.
        defined = define(model, fed, fixed=exact_inputs(model, given.values()))
        defined = replace(defined, chosen=frozenset())
        plan = dict(enumerate(build.configs)) if len(build.configs) == len(partition.products) else {}
        chosen = {index: config for index, config in plan.items() if config is not None}
        try:
            planned = plan_of(partition, {}, build.target, build.threads, plan=chosen or None)
            module = lower_partition(partition, planned, build.target, build.threads)
        except ValueError:  # data decide lengths: what is given has others than there is room for
            return None
        main = load(module, compile_module(module, build.target))
        inputs = {name: fed[name] for name in partition.graph.inputs}
        results = dict(zip(partition.graph.output_names, run(main, inputs), strict=True))
    found = compared(results, defined, build.tolerance)
    if found.wrong:
        return replace(found, wrong=f"by the definition's own inputs, {found.wrong}")
    count = sum(name not in found.blunt for name in names)
    return replace(found, inside=count) if count else None


def _told_blind(found: Check) -> Check:
    """``found``, as not checked where no output could have been wrong."""
    if found.skipped or not found.blunt or set(found.errors) - set(found.blunt):
        return found
    name = found.blunt[0]
    why = f"the check could not have failed: {name} may differ by {found.allowed[name]:.1g}"
    if found.allowed[name] <= LIMIT:
        why = (
            f"the check could not have failed: {name} is empty or one and the same value for what was tried; "
            "--check-input FILE.npz tries your own data"
        )
    return replace(found, skipped=why)


def _by_reference(
    source: Source, results: Mapping[str, Array], definition: Definition, tolerance: float
) -> Check | None:
    """The check by onnx's own evaluator, which has the last word on onnxruntime; None unless it is passed."""
    if "onnxruntime" not in definition.by or source.tflite is not None:
        return None
    try:
        other = define(source, definition.feeds, deadline_s=REFERENCE_S, reference=True)
    except Undefined:
        return None
    found = compared(results, other, tolerance)
    if found.wrong:
        return None
    return replace(
        found, by=f"{other.by} (by which onnx defines it; {definition.by} computes something else)"
    )


def locate(build: Build, load: Load = load_here, feeds: Mapping[str, Array] | None = None) -> str:
    """Which tensor is the first that is wrong, and how: built once more with all tensors as outputs."""
    source = Source.of(build.model, build.shapes)
    model = source.model
    defined_names = {name for node in model.graph.node for name in node.output}
    partition = load_partition(build.model, build.shapes)
    graph = partition.graph
    merge_affine(graph)
    plan = {index: config for index, config in enumerate(build.configs) if config is not None}
    chain_as(partition, plan)
    names = [name for node in graph.nodes for name in node.output if name in defined_names]
    graph.outputs = list(dict.fromkeys([*names, *graph.outputs]))
    found = plan_of(partition, {}, build.target, build.threads, plan=plan)
    feeds = feeds or feeds_of(graph)
    module = lower_partition(partition, found, build.target, build.threads)
    main = load(module, compile_module(module, build.target))
    defined = define(model, feeds, names)
    results = dict(zip(graph.output_names, run(main, feeds), strict=True))
    wrong = compared(results, defined, build.tolerance).wrong
    if not wrong and source.tflite is not None:
        return CONVERSION
    return wrong


def run(main: Main, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs of a built model."""
    result = main(*map(tvm.runtime.tensor, feeds.values()))
    return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]
