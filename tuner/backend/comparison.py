"""A built model beside its definition: run once on random inputs, every output compared, and what is wrong.

A build is handed over, and a job ends, with this. It runs in a child, as a wrong module may crash or hang.
"""

from __future__ import annotations

import platform
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from kernels import target as targets
from kernels.space import Config
from kernels.target import Target
from tuner.backend.apply import lower_partition, plan_of
from tuner.backend.chained import chain_as
from tuner.backend.check import Check
from tuner.backend.definition import DEADLINE_S, Array, Definition, Undefined, define, random_feeds
from tuner.backend.executable import compile_module
from tuner.frontend.affine import merge_affine
from tuner.frontend.graph import load_partition
from tuner.frontend.model_file import load_graph, read_as_written
from tuner.frontend.onnx_check import Shapes
from tuner.frontend.onnx_graph import OnnxGraph
from worker.children.nursery import ChildCrashed, ChildError, Nursery
from worker.measure.host import host_target

RUN_S = 120.0
"""How long a built model may take to load and to run once."""
MEMORY_BYTES = 16 << 30
LOCATE_S = 200.0
"""Where a comparison took longer, the first wrong tensor is not looked for: that takes a build more."""
HERE = "this machine"
HALF_EPSILON = 2.0**-10
"""How far numbers that are nearly equal can be apart for having been rounded to float16."""
LEAST_SHARE = 1e-3
"""What differences of shares that are all tiny are relative to: ``definition.SHARES``."""
DRAWS = 2.0
"""How much further than the nudged definition an output may be: both are one draw of what rounding does."""
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

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        configs = [None if config is None else config.to_json() for config in self.configs]
        return vars(self) | {"target": targets.to_json(self.target), "configs": configs}

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Build:
        """The one within what a child was told."""
        return cls.from_json({name: payload[name] for name in cls.__dataclass_fields__})

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
) -> Check:
    """``check``; what is wrong is sent at once, and told again with the first tensor that is.

    ``load_other`` loads what is built to find that, on the same machine. ``feeds`` are the inputs, random
    ones unless given.
    """
    started = time.monotonic()
    found = check(load, build, deadline_s, where, feeds)
    if not found.wrong:
        return found
    send(vars(found))
    if time.monotonic() - started > LOCATE_S:
        return found
    return replace(found, wrong=locate(build, load_other, feeds) or found.wrong)


def check(
    load: Callable[[], Main],
    build: Build,
    deadline_s: float = DEADLINE_S,
    where: str = HERE,
    feeds: Mapping[str, Array] | None = None,
) -> Check:
    """Compare the model that ``load`` gives, which runs on ``where``, with its definition."""
    graph = load_graph(build.model, build.shapes)
    feeds = feeds or feeds_of(graph)
    try:
        defined = define(read_as_written(build.model, build.shapes), feeds, deadline_s=deadline_s)
    except Undefined as reason:
        return Check(build.tolerance, skipped=str(reason))
    results = dict(zip(graph.output_names, run(load(), feeds), strict=True))
    return replace(compared(results, defined, build.tolerance), where=where)


def locate(build: Build, load: Load = load_here, feeds: Mapping[str, Array] | None = None) -> str:
    """Which tensor is the first that is wrong, and how: built once more with all tensors as outputs."""
    model = read_as_written(build.model, build.shapes)
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
    return compared(results, defined, build.tolerance).wrong


def feeds_of(graph: OnnxGraph) -> dict[str, Array]:
    """Random values for the inputs of a model."""
    return random_feeds({name: (info.shape, info.dtype) for name, info in graph.inputs.items()})


def run(main: Main, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs of a built model."""
    result = main(*map(tvm.runtime.tensor, feeds.values()))
    return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]


def compared(found: Mapping[str, Array], defined: Definition, tolerance: float) -> Check:
    """How ``found`` differs from ``defined``: the first that is wrong, or the error of each."""
    errors: dict[str, float] = {}
    allowed: dict[str, float] = {}
    for name, value in found.items():
        right = defined.values[name]
        if value.ndim == right.ndim and defined.nudged[name].shape != right.shape:
            # Data decide how many results there are, and other last bits make it others.
            errors[name] = allowed[name] = 1.0
            continue
        wrong = differs_in_kind(value, right)
        if wrong:
            return Check(tolerance, errors, allowed, defined.by, f"{name} {wrong}")
        least = LEAST_SHARE if name in defined.shares else 0.0
        errors[name] = error_of(value, right, least)
        allowed[name] = max(
            tolerance,
            HALF_EPSILON if right.dtype == np.float16 else 0.0,
            DRAWS * error_of(defined.nudged[name], right, least),
        )
        if not errors[name] <= allowed[name]:
            wrong = f"{name} differs by {errors[name]:.2g} from what {defined.by} computes"
            return Check(tolerance, errors, allowed, defined.by, f"{wrong}, {allowed[name]:.2g} is allowed")
    return Check(tolerance, errors, allowed, defined.by)


def differs_in_kind(value: Array, defined: Array) -> str:
    """How type or shape differ from what they should be; empty when they do not."""
    if value.dtype != defined.dtype:
        return f"is {value.dtype} and should be {defined.dtype}"
    if value.shape != defined.shape:
        return f"has the shape {list(value.shape)} and should have {list(defined.shape)}"
    return ""


def error_of(value: Array, defined: Array, least: float = 0.0) -> float:
    """The largest difference relative to the largest value, or to ``least`` where that is larger; 1 where one
    is a number and the other is none.

    Of integers of 32 bits and more it is the share that differs: an index is right or wrong.
    """
    if value.size == 0:
        return 0.0
    if value.dtype.kind not in "fiu" or (value.dtype.kind in "iu" and value.dtype.itemsize > 2):
        return float(np.mean(value != defined))
    ours, theirs = value.astype(np.float64), defined.astype(np.float64)
    finite = np.isfinite(theirs)
    if (
        not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True)
        or not np.isfinite(ours[finite]).all()
    ):
        return 1.0
    scale = float(np.abs(theirs[finite]).max(initial=least))
    difference = float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0))
    return difference / scale if scale else min(difference, 1.0)
