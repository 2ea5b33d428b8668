"""``check`` and ``build``: a log applied to a model on this machine, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernels.numerics import Numerics
from tilefleet.commands.common import Json, show, working
from tilefleet.commands.options import (
    DataOption,
    ModelFile,
    NumericsOption,
    TargetFile,
    TargetName,
    Threads,
    ValueOption,
    named_target,
    read_values,
)
from tilefleet.commands.shape_options import Set, ShapeOption, read_sets
from tilefleet.errors import TilefleetError, named
from tilefleet.places import check_file, check_folder
from tilefleet.render import config, mark, milliseconds, percent, table

if TYPE_CHECKING:
    from kernels.space import Config
    from kernels.target import Target
    from kernels.workload.base import Workload
    from tuner.backend.given import GivenInputs
    from tuner.backend.manifest import Manifest
    from tuner.backend.shares import Part
    from tuner.log.picks import Match
    from tuner.log.record import Record
    from tuner.log.relayouts import Relayouts

LogFile = Annotated[Path, typer.Option("--log", exists=True, dir_okay=False, help="A tuning log.")]


def check(
    model: ModelFile,
    log: LogFile,
    target: TargetName = "host",
    threads: Threads = 1,
    numerics: NumericsOption = Numerics.EXACT_INTEGERS,
    shape: ShapeOption = None,
    value: ValueOption = None,
    data: DataOption = None,
    targets: TargetFile = None,
    as_json: Json = False,
) -> None:
    """List the layers of a model: which config a log has for each, and each one's share of the time.

    A layer is found, missing, or has the analysis's config, where a build expects that to be quicker than
    all of the log. Exit code 1 when one is missing, but not where the log has a first line and no record, as
    that of a job that delivers the untuned model. Shares are predicted where nothing was measured.
    """
    from tuner.log.relayouts import header

    chosen, shapes = resolve_target(target, targets), read_sets(shape)
    with _whole(model, value, data, shapes) as whole:
        matches, parts = _matches(whole, log, chosen, threads, shapes, numerics)
    total_s = sum(part.seconds for part in parts)
    shares = {part.key: part.seconds / total_s for part in parts if part.key and total_s}
    listed = [match.to_json() | {"share": shares.get(match.workload.key)} for match in matches]
    others = [part for part in parts if not part.key]
    listed += [part.to_json(total_s) | {"status": "not tuned"} for part in others]
    show(listed, as_json, _match_table(matches, shares, others, total_s))
    missing = sum(match.record is None for match in matches)
    if log.read_text().strip() == header().strip():
        typer.echo(f"{log} has no record: a build by it is the untuned model", err=True)
    elif missing:
        raise TilefleetError(f"{missing} of {len(matches)} workloads are missing in {log}")


class Form(StrEnum):
    """What a model is built as."""

    MODULE = "module"
    C = "c"
    WHEEL = "wheel"
    ONNXRUNTIME = "onnxruntime"


class WeightsIn(StrEnum):
    """Where the weights of a C library are."""

    EMBED = "embed"
    FILE = "file"


def build(
    model: ModelFile,
    log: LogFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The module; of all other forms a folder."),
    ],
    form: Annotated[
        Form,
        typer.Option(
            "--as",
            help="A module that TVM loads, a C library, a wheel of that, or operators for onnxruntime.",
        ),
    ] = Form.MODULE,
    name: Annotated[
        str | None, typer.Option(help="What the C library is called; default: the model's name.")
    ] = None,
    weights: Annotated[
        WeightsIn, typer.Option(help="Of a C library: in the archive, or in a file that is mapped.")
    ] = WeightsIn.EMBED,
    cpus: Annotated[
        str | None,
        typer.Option(
            help="Of a C library: several x86 targets, best first, of which it chooses when it runs: "
            "x86-avx512,x86-avx2.",
            show_default=False,
        ),
    ] = None,
    target: TargetName = "host",
    threads: Threads = 1,
    numerics: NumericsOption = Numerics.EXACT_INTEGERS,
    shape: ShapeOption = None,
    value: ValueOption = None,
    data: DataOption = None,
    targets: TargetFile = None,
    compare: Annotated[
        bool, typer.Option("--check/--no-check", help="Run it beside the model's own definition.")
    ] = True,
    check_input: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="An .npz file with an array for every input, by name, to run it on too; may be repeated.",
        ),
    ] = None,
    board: Annotated[
        str | None,
        typer.Option(
            help="The board to run it on: a simulated one, or one of the fleet file that --targets names. "
            "Without, this machine, else an idle board of the server, else an emulator of the target.",
            show_default=False,
        ),
    ] = None,
    dump_ir: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="A folder for the model as text after each pass of the compiler."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build a module that stock TVM loads, and beside it OUT.json: what config each layer got.

    A module whose outputs are not what the model defines is not written. With --as c it is a C library
    instead, a folder of header, archive, source and example (docs/c-library.md); with --as wheel, a Python
    package of that; with --as onnxruntime, a model for onnxruntime and a library of operators
    (docs/onnxruntime.md).
    """
    if check_input and not compare:
        raise TilefleetError("--no-check runs it on no inputs: leave it out, or --check-input")
    if form is not Form.MODULE:
        if board is not None and not compare:
            raise TilefleetError("--no-check runs the library nowhere: leave it out, or --board")
        if board is not None and cpus is not None:
            raise TilefleetError("--board runs the library for one target, and --cpus names several")
        if form is not Form.C and weights is WeightsIn.FILE:
            raise TilefleetError(
                f"--as {form}: what is built has the weights in it; leave --weights file out"
            )
        of = [resolve_target(each, targets) for each in (cpus.split(",") if cpus else [target])]
        check_folder(output)
        with _whole(model, value, data, read_sets(shape), dump_ir) as whole:
            _build_c(
                form,
                model,
                whole,
                log,
                output,
                name,
                weights,
                of,
                threads,
                numerics,
                shape,
                compare,
                board,
                targets,
                check_input or [],
                as_json,
            )
        return
    if name is not None or cpus is not None:
        raise TilefleetError(
            "--name and --cpus are of C libraries: add --as c, --as wheel or --as onnxruntime"
        )
    chosen, shapes = resolve_target(target, targets), read_sets(shape)
    if board is not None and not compare:
        raise TilefleetError("--no-check runs the module nowhere: leave it out, or --board")
    # Here, because they bring TVM along, which no other command should wait for.
    from tilefleet.module_check import BuiltModule
    from tuner.backend.apply import export
    from tuner.backend.check import Check, worst
    from tuner.backend.manifest import of_all
    from tuner.backend.shape_sets import build_sets, description_of
    from tuner.log.picks import OtherTargetError

    check_file(output)
    records, relayouts = read_log_file(log)
    # Nobody shall find a module at its place that was not checked yet.
    unchecked = output.with_name(f".{output.name}.unchecked.so")
    with _whole(model, value, data, shapes, dump_ir) as whole:
        try:
            given = _given_inputs(whole, shapes, check_input or [])
            executable, variants = build_sets(whole, chosen, threads, shapes, records, numerics, relayouts)
            export(executable, unchecked)
            built = BuiltModule(unchecked, whole, variants, numerics, records, relayouts, given)
            if not compare:
                skipped = "--no-check was given"
                checks = [Check(each.manifest.tolerance, skipped=skipped) for each in variants]
            else:
                checks = built.check() if board is None else built.check_on(board, targets)
            checked = worst(dict(zip((each.name for each in variants), checks, strict=False)))
            if checked.wrong:
                wrong = f"{checked.wrong} ({checked.where})"
                raise TilefleetError(f"{model}: the built module is wrong and was not written: {wrong}")
            unchecked.replace(output)
        except OtherTargetError as error:
            raise TilefleetError(f"{log}: {error}; choose with --target") from None
        finally:
            unchecked.unlink(missing_ok=True)
    description = Path(f"{output}.json")
    description.write_text(json.dumps(description_of(variants, checks), indent=2) + "\n")
    manifest = of_all([each.manifest for each in variants])
    count = {source: manifest.count(source) for source in ("log", "analysis", "default")}
    text = (
        f"{output}: {count['log']} layers from the log, {count['analysis']} by the analysis, "
        f"{count['default']} by TVM's default lowering; {manifest.numerics} numerics; "
        f"{_conversions(manifest)}; each is listed in {description}, with all other operators: by prediction "
        f"{percent(1 - manifest.tuned_share)} of the time is in what is not tuned\n{checked}"
    )
    shown = {
        "module": str(output),
        "manifest": str(description),
        **checked.to_json(),
        "layers": count,
        "conversions": len(manifest.conversions),
    }
    show(shown, as_json, text)


def _build_c(
    form: Form,
    model: Path,
    whole: Path,
    log: Path,
    output: Path,
    name: str | None,
    weights: WeightsIn,
    targets: list[Target],
    threads: int,
    numerics: Numerics,
    shape: list[str] | None,
    compare: bool,
    board: str | None,
    fleet: Path | None,
    check_input: list[Path],
    as_json: bool,
) -> None:
    if len(targets) > 1 and not all(each.triple.startswith("x86_64") for each in targets):
        raise TilefleetError("--cpus chooses between x86 targets only; build the others each by itself")
    # Here, because they bring TVM along, which no other command should wait for.
    from tilefleet.c_library import Wanted, build_c_library, c_name, lines_of
    from tilefleet.onnxruntime_model import build_onnxruntime_model, told
    from tuner.clibrary.build import Model
    from tuner.log.picks import OtherTargetError

    shapes, embedded = read_sets(shape), weights is WeightsIn.EMBED
    called = c_name(name, model, form is Form.WHEEL)
    records, relayouts = read_log_file(log)
    try:
        build_it = build_onnxruntime_model if form is Form.ONNXRUNTIME else build_c_library
        manifest = build_it(
            Model.of(whole, shapes, records, relayouts, numerics, threads),
            Wanted(
                output,
                called,
                model.name,
                log,
                targets,
                embedded,
                form is Form.WHEEL,
                compare,
                board,
                fleet,
                _given_inputs(whole, shapes, check_input),
            ),
        )
    except OtherTargetError as error:
        raise TilefleetError(f"{log}: {error}; choose with --target") from None
    except ValueError as error:
        raise TilefleetError(f"{model}: {error}") from None
    lines = (told if form is Form.ONNXRUNTIME else lines_of)(manifest, output)
    shown = {"library": str(output), "name": called, **manifest}
    show(shown, as_json, "\n".join(lines))


def _given_inputs(model: Path, shapes: Sequence[Set], files: list[Path]) -> list[GivenInputs]:
    """What the user's own files hold; TilefleetError for what the model does not take."""
    if not files:
        return []
    from compiler.intake.shapes import given_sets
    from tuner.backend.given import WrongInputs, given_inputs

    try:
        return given_inputs(model, given_sets(shapes), files)
    except WrongInputs as error:
        raise TilefleetError(f"--check-input {error}") from None


@contextmanager
def _whole(
    model: Path,
    values: list[str] | None,
    data: list[Path] | None,
    sets: Sequence[Set],
    dump_ir: Path | None = None,
) -> Iterator[Path]:
    """One file of ``model``, its data and the values of its inputs, which can be read within the limits;
    TilefleetError for what is wrong. What each pass makes of it, for the first of ``sets``, goes into the
    folder ``dump_ir``."""
    from compiler.intake.assemble import assembled
    from tilefleet.bounded_read import read_once

    try:
        with (
            assembled(model, read_values(values), data or ()) as whole,
            working(f"{model.name}: being read and built"),
        ):
            read_once(whole, model, sets)
            if dump_ir is not None:
                _dump_ir(whole, sets, dump_ir)
            yield whole
    except ValueError as error:
        raise TilefleetError(named(model, error)) from None


def _dump_ir(model: Path, sets: Sequence[Set], folder: Path) -> None:
    from compiler.dump import IrDump
    from compiler.intake.shapes import given_sets, is_open, sets_of
    from compiler.load import load_partition

    check_folder(folder)
    load_partition(model, sets_of(sets)[0], is_open(given_sets(sets)[0]), IrDump(folder))


def _conversions(manifest: Manifest) -> str:
    """How many layout changes a build has and what they cost."""
    count = len(manifest.conversions)
    if not count:
        return "no layout changes"
    seconds = sum(conversion.seconds for conversion in manifest.conversions)
    measured = all(conversion.measured for conversion in manifest.conversions)
    kind = "measured" if measured else "predicted"
    return f"{count} layout change{'s' if count > 1 else ''} of {milliseconds(seconds)} ms in all ({kind})"


def resolve_target(name: str, file: Path | None = None) -> Target:
    """The target called ``name``, built in or in ``file``; ``host`` is this machine."""
    if name == "host":
        from worker.measure.host import host_target

        return host_target()
    return named_target(name, file)


def _matches(
    model: Path,
    log: Path,
    target: Target,
    threads: int,
    shapes: list[Set],
    numerics: Numerics,
) -> tuple[list[Match], tuple[Part, ...]]:
    """What a build would use of each workload, and what all operators are expected to take."""
    # Here, because they bring TVM along, which no other command should wait for.
    from compiler.intake.shapes import sets_of
    from compiler.load import load_partition
    from tuner.backend.apply import plan_of
    from tuner.backend.shares import parts_of, together
    from tuner.log import picks

    records, relayouts = read_log_file(log)
    try:
        matches = picks.check(model, records, target, shapes, threads, numerics)
        parts: list[tuple[Part, ...]] = []
        chosen: list[tuple[Workload, Record | tuple[Config, float]]] = []
        for each in sets_of(shapes):
            partition = load_partition(model, each)
            plan = plan_of(partition, {}, target, threads, records, numerics, relayouts=relayouts)
            parts.append(parts_of(partition, plan, target, threads))
            for layer, option in zip(partition.products, plan.options, strict=True):
                if option:
                    chosen.append((layer.workload, option.record or (option.config, option.seconds)))
        used = [each for _, each in chosen if not isinstance(each, tuple)]
        return picks.with_chains(picks.as_chosen(matches, chosen), used), together(parts)
    except picks.OtherTargetError as error:
        raise TilefleetError(f"{log}: {error}; choose with --target") from None


def read_log_file(log: Path) -> tuple[list[Record], list[Relayouts]]:
    """A log's records, and what it says of layout changes."""
    from tuner.log.record import read_log
    from tuner.log.relayouts import read_relayouts
    from tuner.log.t4 import as_log

    try:
        with log.open() as lines:
            text = list(as_log(lines))
        relayouts = read_relayouts(text, lambda said: typer.echo(f"{log}: {said}", err=True))
        return list(read_log(text)), list(relayouts)
    except ValueError as error:
        raise TilefleetError(f"{log}: {error}") from None


def _match_table(matches: list[Match], shares: dict[str, float], others: list[Part], total_s: float) -> Any:
    result = table("workload", "config", "status", "times", "ms", "share", left=3)
    for match in matches:
        record = match.record
        chosen = match.reason or "-" if match.config is None else config(match.config.to_json())
        cost = "-" if match.expected_s is None else milliseconds(match.expected_s)
        if match.instead is not None:
            cost += " (predicted)"
        elif record is not None:
            cost += mark(record.clock, record.disturbed)
        share = percent(shares.get(match.workload.key))
        result.add_row(str(match.workload), chosen, match.status, f"{match.count}", cost, share)
    for part in others:
        each_ms = milliseconds(part.seconds / part.count) + " (predicted)"
        share = percent(part.seconds / total_s if total_s else None)
        result.add_row(part.name, "-", "not tuned", f"{part.count}", each_ms, share)
    return result
