"""One module for several sets of input shapes: planned and lowered for each, joined, compiled once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.intake.shapes import (
    FixedShapes,
    GivenShapes,
    OpenRange,
    Shapes,
    at_length,
    given_sets,
    is_open,
    sets_of,
    text_of,
)
from compiler.ir.checks import ModelError
from compiler.load import load_partition
from kernels import target as targets
from kernels.numerics import Numerics
from kernels.target import Target
from kernels.workload.base import AnyChain
from tuner.backend.apply import blaming_node, build_model, lower_partition, plan_of
from tuner.backend.check import Check, worst
from tuner.backend.executable import compile_module
from tuner.backend.joined import each_sequenced, joined
from tuner.backend.manifest import Manifest, describe, of_all
from tuner.backend.open_main import open_module
from tuner.backend.open_sizes import OpenCalls, OpenModel, Sample, open_calls, read_open
from tuner.backend.sequence import sequenced
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts

MAIN = "main"


@dataclass(frozen=True)
class Variant:
    """What a module has for one set of ``shapes``: the function called ``entry``, and what it is made of.

    ``inputs`` are shape and type of each.
    """

    shapes: Shapes
    entry: str
    manifest: Manifest
    inputs: Mapping[str, tuple[tuple[int, ...], str]]

    @property
    def name(self) -> str:
        """What people call it: its shapes, or nothing where there are no others."""
        return "" if self.entry == MAIN else text_of(self.manifest.inputs)

    @property
    def checked_shapes(self) -> tuple[FixedShapes, ...]:
        """The sets of shapes with which it is compared with the model's definition."""
        if not is_open(self.shapes):
            return sets_of(self.shapes)
        return tuple(at_length(self.shapes, length) for length in OpenRange.of(self.shapes).checked)


@dataclass(frozen=True)
class Lowered:
    """A model for all sets of shapes: the Relax module, whose ``main`` takes any of them.

    ``whole`` is that of a range with its calls as one.
    """

    module: Any
    variants: tuple[Variant, ...]
    whole: Any = None

    def delivered(self) -> Any:
        """What a built module is compiled from: the calls of a small model, and those of a range, are one, as
        TVM's machine takes longer for them."""
        count = len(self.variants)
        if self.whole is not None:
            return self.whole
        return sequenced(self.module) if count == 1 else each_sequenced(self.module, count)


def build_sets(
    path: str | Path,
    target: Target,
    threads: int = 1,
    shapes: GivenShapes = None,
    records: Iterable[Record] = (),
    numerics: Numerics = Numerics.EXACT_INTEGERS,
    relayouts: Iterable[Relayouts] = (),
) -> tuple[Any, tuple[Variant, ...]]:
    """The model at ``path`` as ``tuner.backend.apply.build_model`` builds it, for one set of shapes or
    several.

    Returns the Relax executable and what it has for each set. Raises what ``build_model`` raises, and
    ModelError where the sets cannot be in one module.
    """
    records, relayouts = list(records), list(relayouts)
    lowered = lower_sets(path, target, threads, shapes, records, numerics, relayouts)
    try:
        return compile_module(lowered.delivered(), target), lowered.variants
    except Exception:
        for each in sets_of(shapes):  # alone, to learn which node it is
            build_model(path, {}, target, threads, each, records, numerics, relayouts=relayouts)
        raise


def lower_sets(
    path: str | Path,
    target: Target,
    threads: int,
    shapes: GivenShapes,
    records: Sequence[Record],
    numerics: Numerics,
    relayouts: Sequence[Relayouts],
) -> Lowered:
    """The model before it is compiled; raises what ``build_sets`` raises."""
    given, sets = given_sets(shapes), sets_of(shapes)
    variants: list[Variant] = []
    if is_open(given[0]):
        return _lower_open(path, target, threads, given[0], records, numerics, relayouts)

    def modules() -> Iterator[tuple[Any, FixedShapes]]:
        for at, each in enumerate(sets):
            partition = load_partition(path, each)
            plan = plan_of(partition, {}, target, threads, records, numerics, relayouts=relayouts)
            with blaming_node(partition, target, threads):
                module = lower_partition(partition, plan, target, threads)
            manifest = describe(partition, plan, target, threads)
            entry = MAIN if len(sets) == 1 else f"{MAIN}_{at}"
            inputs = {name: (info.shape, info.dtype) for name, info in partition.graph.inputs.items()}
            variants.append(Variant(each, entry, manifest, inputs))
            _check_axes(variants[0], variants[-1])
            yield module, manifest.inputs

    module = next(modules())[0] if len(sets) == 1 else joined(modules())
    return Lowered(module, tuple(variants))


def _lower_open(
    path: str | Path,
    target: Target,
    threads: int,
    shapes: Shapes,
    records: Sequence[Record],
    numerics: Numerics,
    relayouts: Sequence[Relayouts],
) -> Lowered:
    planned = plan_open(path, target, threads, shapes, records, numerics, relayouts)
    partition = planned.usual.partition
    with blaming_node(partition, target, threads):
        module, whole = (open_module(planned.model, shapes, planned.calls, apart) for apart in (True, False))
    inputs = {name: (info.shape, info.dtype) for name, info in partition.graph.inputs.items()}
    return Lowered(module, (Variant(shapes, MAIN, planned.manifest, inputs),), whole)


@dataclass(frozen=True)
class PlannedOpen:
    """A model whose sizes are open, and its ``calls`` for all of them, of which what is chosen is best for
    the ``usual`` one."""

    model: OpenModel
    usual: Sample
    calls: OpenCalls
    manifest: Manifest


def plan_open(
    path: str | Path,
    target: Target,
    threads: int,
    shapes: Shapes,
    records: Sequence[Record],
    numerics: Numerics,
    relayouts: Sequence[Relayouts],
) -> PlannedOpen:
    """The model for all lengths of the range in ``shapes``; raises what ``build_sets`` raises."""
    model = read_open(path, shapes, target, threads)
    usual = next(sample for sample in model.samples if sample.length == model.range.usual)
    # The partitions of all samples are one and the same but for sizes, so no pair of one becomes a chain.
    records = [record for record in records if not isinstance(record.workload, AnyChain)]
    plan = plan_of(usual.partition, {}, target, threads, records, numerics, relayouts=relayouts)
    with blaming_node(usual.partition, target, threads):
        calls = open_calls(model, plan, target, threads)
    return PlannedOpen(model, usual, calls, describe(usual.partition, plan, target, threads))


def description_of(variants: Sequence[Variant], checks: Sequence[Check]) -> dict[str, Any]:
    """The manifest of a module as plain JSON values; of several sets of shapes, what each has is in
    ``shapes``. There is a check for each."""
    each = [
        variant.manifest.to_json() | _open_to_json(variant) | check.to_json()
        for variant, check in zip(variants, checks, strict=True)
    ]
    if len(each) == 1:
        return each[0]
    whole = of_all([variant.manifest for variant in variants])
    said = worst({variant.name: check for variant, check in zip(variants, checks, strict=True)})
    return {
        "target": targets.to_json(whole.target),
        "threads": whole.threads,
        "numerics": whole.numerics.value,
        "tolerance": whole.tolerance,
        **said.to_json(),
        "shapes": each,
    }


def _open_to_json(variant: Variant) -> dict[str, Any]:
    """What the manifest says otherwise where a size is open: inputs as they were given, and the ``length``
    that its layers and estimates are of."""
    if not is_open(variant.shapes):
        return {}
    inputs = {name: list(shape) for name, shape in variant.manifest.inputs.items()}
    given = {name: list(shape) for name, shape in variant.shapes.items()}
    return {"inputs": inputs | given, "length": OpenRange.of(variant.shapes).usual}


def _check_axes(one: Variant, other: Variant) -> None:
    for name, shape in one.manifest.inputs.items():
        if len(other.manifest.inputs[name]) != len(shape):
            raise ModelError(
                f"one module takes an input with one number of axes, but there are {text_of(one.shapes)} and "
                f"{text_of(other.shapes)}: build a module for each"
            )
