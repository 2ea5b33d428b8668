"""Many branches in one model: built once, run with every special value, and compared."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import onnx
import tvm
from onnx.reference import ReferenceEvaluator
from tvm import relax

from bench.special_values.branch import Branch
from bench.special_values.judge import WINOGRAD, difference, far_from
from bench.special_values.kinds import DEFAULT, Kind, model_of, models_of
from bench.special_values.values import Array, filled
from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from kernels import registry
from kernels.layout import NCHW, Layouts
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.runtimes.engines import onnx_session


@dataclass(frozen=True)
class Outcome:
    """The verdict on one kind with one value: ``right``, ``refused`` or ``wrong``, and why."""

    kind: Kind
    value: str
    verdict: str
    reason: str = ""


def tried(
    kinds: Sequence[Kind], values: Sequence[Sequence[str]], seed: int, target: Target
) -> Iterator[Outcome]:
    """Each kind with each of its values. Kinds of one layout and one numerics are built together."""
    model, definition, branches, results = models_of(kinds)
    try:
        main, order = _built(model, kinds[0], target)
    except Exception as error:  # whatever a build runs into: which kind it is, smaller models tell
        if len(kinds) > 1:
            half = len(kinds) // 2
            for part in (slice(half), slice(half, None)):
                yield from tried(kinds[part], values[part], seed, target)
            return
        verdict = "refused" if isinstance(error, ModelError) else "wrong"
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        yield from (Outcome(kinds[0], value, verdict, reason) for value in values[0])
        return
    session = onnx_session(definition.SerializeToString(), 1, optimised=False)
    for value in sorted({value for some in values for value in some}):
        feeds = {}
        for kind, branch in branches.items():
            rng = np.random.default_rng(crc32(f"{kind} {value} {seed}".encode()))
            for name, shape in branch.inputs.items():
                feeds[name] = filled(shape, branch.dtype, "" if name in branch.plain else value, rng)
        ours = run(main, {name: feeds[name] for name in order})
        theirs = session.run(None, feeds)
        for kind, some, result, one, other in zip(kinds, values, results, ours, theirs, strict=True):
            if value in some:
                reason = _wrong(kind, branches[kind], result, feeds, one, other)
                yield Outcome(kind, value, "wrong" if reason else "right", reason)


def _built(model: onnx.ModelProto, kind: Kind, target: Target) -> tuple[Any, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        found = extract(path)
        plan: dict[int, Config] = {}
        if kind.layout:
            ends = (Layouts(NCHW, kind.layout), Layouts(kind.layout, NCHW))
            fconv = registry.kernel("fconv")
            for place, each in enumerate(found.operators):
                plan[place] = fconv.recommend(each.workload, target, ends[place % 2], 1)
        built, _ = build_model(path, {}, target, numerics=Numerics(kind.numerics), plan=plan)
    return relax.VirtualMachine(built, tvm.cpu())["main"], [each.name for each in found.inputs]


def _wrong(
    kind: Kind, branch: Branch, result: str, feeds: dict[str, Array], ours: Array, theirs: Array
) -> str:
    """How a result differs from what onnxruntime and onnx's reference say; empty where it is as one says."""
    asked, times = np.ones(ours.shape, bool), 1
    if kind.numerics == DEFAULT:
        (data,) = (feeds[name] for name in branch.inputs)
        asked, times = far_from(data, ours.shape), WINOGRAD
    reason = difference(ours, theirs, asked, times)
    if not reason:
        return ""
    alone = model_of(branch.nodes, [branch], [result])
    try:
        with np.errstate(all="ignore"):
            (defined,) = ReferenceEvaluator(alone).run(None, {name: feeds[name] for name in branch.inputs})
    except Exception:  # it cannot compute everything
        return reason
    return reason if difference(ours, np.asarray(defined), asked, times) else ""
