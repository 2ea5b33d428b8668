"""A model as a C library: planned and compiled for each processor, written as files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compiler.intake.shapes import FixedShapes, Shapes, is_open, sets_of
from compiler.ir.checks import ModelError
from compiler.ir.graph import OnnxGraph
from compiler.load import load_partition
from kernels.emit.compile import MODEL_PIPELINE
from kernels.loops.open import LENGTH
from kernels.numerics import Numerics
from kernels.open_size import Size
from kernels.target import Target
from tuner.backend.apply import blaming_node, lower_partition, plan_of
from tuner.backend.arena import ALIGNMENT, arena_of
from tuner.backend.manifest import Manifest, describe
from tuner.backend.program import NotStraight, Port, Program, program_of
from tuner.backend.shape_sets import lower_sets, plan_open
from tuner.backend.turns import told_turns
from tuner.clibrary import extras
from tuner.clibrary.cpu import needs_of
from tuner.clibrary.elf import facts_of
from tuner.clibrary.embedded import embedded
from tuner.clibrary.header import C_TYPES, header
from tuner.clibrary.library import Library, OpenLength, Variant
from tuner.clibrary.plain import NotPlain, calls_tvm, compile_plain
from tuner.clibrary.source import source
from tuner.clibrary.toolchain import archive, compile_c, stripped
from tuner.clibrary.turning import parts_of, planned_loops, turns_of, with_parts
from tuner.clibrary.weights import weights_of
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts

C_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
IMPORTS = frozenset({"memcpy", "memmove", "memset"})
"""What a library may want of others."""
_COMPILERS_OWN = re.compile(r"__aeabi_\w+|__hexagon_\w+|__u?(div|mod)[sd]i3|\.TOC\.")
"""Arithmetic that a processor lacks, and marks of its ABI: whichever compiler links brings them."""


@dataclass(frozen=True)
class Model:
    """What is built: a file, the shapes of its dynamic inputs, a log of it, and for how many threads.

    Instead of ``shapes`` the library may be to take several ``sets`` of them, or some of which a size is
    ``open``.
    """

    path: Path
    shapes: FixedShapes | None
    records: Sequence[Record]
    relayouts: Sequence[Relayouts]
    numerics: Numerics
    threads: int = 1
    sets: tuple[FixedShapes, ...] = ()
    open: Shapes | None = None

    @classmethod
    def of(
        cls,
        path: Path,
        given: Sequence[Shapes],
        records: Sequence[Record],
        relayouts: Sequence[Relayouts],
        numerics: Numerics,
        threads: int,
    ) -> Model:
        """That of the sets of shapes that a user has ``given``, if any; raises ModelError."""
        sets = sets_of(given)
        opened = given[0] if given and is_open(given[0]) else None
        several = sets if len(sets) > 1 else ()
        return cls(path, sets[0] if given else None, records, relayouts, numerics, threads, several, opened)

    @property
    def given(self) -> tuple[Shapes, ...]:
        """What ``of`` takes."""
        if self.open is not None:
            return (self.open,)
        return self.sets or (() if self.shapes is None else (self.shapes,))


@dataclass(frozen=True)
class Made:
    """A library as planned, the code for each processor, and what each variant's layers got."""

    library: Library
    codes: tuple[Any, ...]
    manifests: tuple[Manifest, ...]


def make(model: Model, targets: Iterable[Target], name: str, title: str, log: str, embed: bool) -> Made:
    """Plan and compile ``model`` for each of ``targets``, best first, as a library called ``name``.

    Nothing is compiled before all of it is known to be writable as C. Raises ModelError for what is not,
    OtherTargetError for records of other targets alone.
    """
    planned = [(target, planned_sets(model, target)) for target in targets]
    opened = planned[0][1][0].open
    variants: list[Variant] = []
    codes = []
    for number, (target, sets) in enumerate(planned):
        before = f"{name}_{number}" if len(planned) > 1 else name
        programs = [each.program for each in sets]
        length = LENGTH if opened else None
        level, code = compiled(programs, target, model.threads, before, name, length=length)
        variants += [replace(one, lengths=each.lengths) for one, each in zip(level, sets, strict=True)]
        codes.append(code)
    weights = weights_of([variant.program for variant in variants])
    made = Library(
        name,
        title,
        version("tilefleet"),
        log,
        tuple(variants),
        weights,
        embed,
        model.threads,
        max(1, len(model.sets)),
        opened,
    )
    return Made(made, tuple(codes), tuple(each.manifest for _, sets in planned for each in sets))


def compiled(
    programs: Sequence[Program],
    target: Target,
    threads: int,
    before: str,
    name: str,
    pipeline: str = MODEL_PIPELINE,
    length: str | None = None,
) -> tuple[list[Variant], Any]:
    """The functions of ``programs`` as code, under names that begin with ``before``, and how each is called.

    Those of one name are the same. ``name`` is the library's, ``pipeline`` what TVM calls the passes,
    ``length`` what a size that is open is called in the functions. Raises ModelError.
    """
    functions = {function: body for each in programs for function, body in each.functions.items()}
    symbols = {function: f"{before}_{function}" for function in functions}
    turns = turns_of(functions)
    functions = {each: body for each, body in functions.items() if each not in turns}
    outside = {
        call.function
        for program in programs
        for call in program.calls
        for storage in (*call.reads, *call.writes)
        if storage.kind in ("input", "output")
    }
    handed = parts_of(outside, turns)
    try:
        unit = compile_plain(functions, target, threads, symbols, handed, f"{name}_apart", pipeline, length)
    except NotPlain as reason:
        raise ModelError(f"cannot be written as C: it has {reason}") from None
    needs = needs_of(target)
    loops = planned_loops(turns, unit.workspace)
    workspace = {**unit.workspace, **{each: loop.bytes for each, loop in loops.items()}}
    variants = [
        Variant(target, each, arena_of(each, workspace), symbols, needs, unit.forks, loops)
        for each in programs
    ]
    return variants, unit.code


@dataclass(frozen=True)
class Planned:
    """What C is to call, what each layer gets, and which sizes are ``open``."""

    program: Program
    manifest: Manifest
    open: OpenLength | None = None
    lengths: tuple[Size, ...] = ()


def planned_sets(model: Model, target: Target) -> list[Planned]:
    """A plan for each set of shapes; nothing is compiled.

    Raises as ``make`` does.
    """
    if model.open is not None:
        return [_planned_open(model, model.open, target)]
    if not model.sets:
        return [Planned(*planned_as_c(model, target))]
    graph = load_partition(model.path, model.sets[0]).graph
    _check_types(graph)
    lowered = lower_sets(
        model.path, target, model.threads, list(model.sets), model.records, model.numerics, model.relayouts
    )
    names = list(graph.inputs), graph.output_names
    programs = [_program(lowered.module, *names, each.entry) for each in lowered.variants]
    if len({tuple(len(port.shape) for port in each.outputs) for each in programs}) > 1:
        raise ModelError("cannot be written as C: an output has another number of axes for other shapes")
    return [Planned(each, variant.manifest) for each, variant in zip(programs, lowered.variants, strict=True)]


def _planned_open(model: Model, shapes: Shapes, target: Target) -> Planned:
    planned = plan_open(
        model.path, target, model.threads, shapes, model.records, model.numerics, model.relayouts
    )
    _check_types(planned.usual.partition.graph)
    read, calls = planned.model, planned.calls
    for storage, at in calls.program.copies:
        if calls.sizes[storage] != read.outputs[at]:
            raise ModelError("cannot be written as C: an output is a part of a constant")
    if turns_of(calls.program.functions):
        raise ModelError("cannot be written as C: a loop that data end, beside a size that is open")
    _check_functions(calls.program)
    opened = OpenLength(read.range, read.inputs, read.outputs)
    lengths = tuple(calls.length_of(call) for call in calls.program.calls)
    return Planned(calls.program, planned.manifest, opened, lengths)


def planned_as_c(model: Model, target: Target) -> tuple[Program, Manifest]:
    """The program and the manifest for ``model.shapes``, which are known."""
    partition = load_partition(model.path, model.shapes)
    graph = partition.graph
    _check_types(graph)
    threads = model.threads
    plan = plan_of(
        partition,
        {},
        target,
        threads,
        records=model.records,
        numerics=model.numerics,
        relayouts=model.relayouts,
    )
    with blaming_node(partition, target, threads):
        module = lower_partition(partition, plan, target, threads)
    program = _program(module, list(graph.inputs), graph.output_names, "main")
    return program, describe(partition, plan, target, threads)


def _check_types(graph: OnnxGraph) -> None:
    for tensor in (*graph.inputs, *graph.outputs):
        if graph.tensors[tensor].dtype not in C_TYPES:
            raise ModelError(f"{tensor!r} is of {graph.tensors[tensor].dtype}, which C has no type for")


def _program(module: Any, inputs: list[str], outputs: list[str], entry: str) -> Program:
    """What the function ``entry`` calls; raises ModelError for what C cannot."""
    try:
        program = program_of(module, inputs, outputs, entry, cuts=True)
    except NotStraight as reason:
        raise ModelError(f"cannot be written as C: {reason}") from None
    program = with_parts(program, module)
    _check_functions(program)
    return program


def _check_functions(program: Program) -> None:
    for name, function in program.functions.items():
        if told_turns(function):
            continue
        if needs := calls_tvm(function):
            raise ModelError(f"cannot be written as C: {name} calls {needs} of TVM's runtime")


def write(made: Made, folder: Path, alone: bool = True) -> None:
    """Write all files of the library but its manifest into ``folder``. Raises ToolError.

    ModelError for one that is to be ``alone`` and needs more than C gives.
    """
    library = made.library
    name, target = library.name, library.variants[0].target
    for number, code in enumerate(made.codes):
        path = folder / extras.kernels(library, number)
        code.write_to_file(str(path), "o")
        stripped(path)
    texts = {f"{name}.h": header(library), f"{name}.c": source(library)}
    sources = [f"{name}.c"]
    if not library.embed:
        texts[f"{name}_map.c"] = extras.mapping(library)
        sources.append(f"{name}_map.c")
    texts |= {
        "example.c": extras.example(library),
        "Makefile": extras.makefile(library),
        "CMakeLists.txt": extras.cmake(library),
        f"{name}.pc": extras.pkg_config(library),
    }
    for file, text in texts.items():
        (folder / file).write_text(text)
    for file in sources:
        compile_c(folder / file, (folder / file).with_suffix(".o"), target)
    if library.embed:
        like = (folder / extras.kernels(library, 0)).read_bytes()
        weights = embedded(library.weights.data, f"{name}_weights", ALIGNMENT, like)
        (folder / extras.weights(library)).write_bytes(weights)
    else:
        (folder / f"{name}.weights").write_bytes(library.weights.file)
    plain = [f"{name}.o", *extras.objects(library)]
    for file in plain if alone else ():
        _check_object(folder / file, library)
    own = [] if library.embed else [f"{name}_map.o"]
    archive([folder / file for file in (*plain, *own)], folder / f"lib{name}.a")


def _check_object(path: Path, library: Library) -> None:
    """Refuse an object that wants more than C gives, or that has data to write."""
    facts = facts_of(path.read_bytes())
    wanted = [
        each
        for each in facts.imports
        if each not in IMPORTS and not each.startswith(library.name) and not _COMPILERS_OWN.fullmatch(each)
    ]
    if wanted:
        raise ModelError(f"cannot be written as C: its code calls {', '.join(wanted)}")
    if facts.writable:
        raise ModelError(f"cannot be written as C: its code writes to {', '.join(facts.writable)}")


def only(library: Library, number: int) -> Library:
    """The library of variant ``number`` alone."""
    weights = replace(library.weights, offsets=(library.weights.offsets[number],))
    return replace(library, variants=(library.variants[number],), weights=weights, sets=1)


def ports_at(library: Library, length: int | None) -> tuple[Port, ...]:
    """The outputs of its first set of shapes, or at a length where that is open."""
    if library.open is None or length is None:
        return library.outputs
    return tuple(
        replace(port, shape=tuple(size if isinstance(size, int) else size.of(length) for size in shape))
        for port, shape in zip(library.outputs, library.open.outputs, strict=True)
    )


def _open_to_json(opened: OpenLength | None) -> dict[str, Any] | None:
    """A range, and of each axis of inputs and outputs what it is times the length, and what more."""
    if opened is None:
        return None
    return {
        "first": opened.span.first,
        "last": opened.span.last,
        "inputs": [[_grown(size) for size in shape] for shape in opened.inputs],
        "outputs": [[_grown(size) for size in shape] for shape in opened.outputs],
    }


def _grown(size: Size) -> list[int]:
    return [0, size] if isinstance(size, int) else [size.factor, size.more]


def facts(library: Library) -> Mapping[str, Any]:
    """What the manifest tells of the library as plain JSON values."""
    return {
        "name": library.name,
        "version": library.version,
        "log_sha256": library.log,
        "inputs": [vars(port) for port in library.inputs],
        "outputs": [vars(port) for port in library.outputs],
        "threads": library.threads,
        "sets": [
            {"inputs": [vars(port) for port in inputs], "outputs": [vars(port) for port in outputs]}
            for inputs, outputs in library.ports
        ],
        "counted": library.counted,
        "open": _open_to_json(library.open),
        "arena_bytes": library.arena_bytes,
        "weights": {
            "bytes": len(library.weights.data),
            "sha256": library.weights.sha256.hex(),
            "file": None if library.embed else f"{library.name}.weights",
        },
        "variants": [
            {
                "target": variant.target.name,
                "calls": len(variant.program.calls),
                "functions": len(variant.program.functions),
                "arena": {
                    "bytes": variant.arena.bytes,
                    "lower_bound": variant.arena.bound,
                    "unshared": variant.arena.unshared,
                },
            }
            for variant in library.variants
        ],
    }
