"""``ci``: performance as a test, on simulated boards, whose times are the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernels.numerics import Numerics
from tilefleet import render
from tilefleet.commands.common import Json, show, working
from tilefleet.commands.local import read_log_file
from tilefleet.commands.options import DataOption, NumericsOption, ValueOption, read_values
from tilefleet.commands.shape_options import ShapeOption, read_sets
from tilefleet.errors import TilefleetError

if TYPE_CHECKING:
    from tilefleet.performance import Report
    from tuner.performance.baseline import Baseline
    from tuner.performance.changes import Change, Changes
    from tuner.performance.timed import Part

SLOWER = 3
"""The exit code that says so."""
QUIET = {"same code": "same code at another place", "same time": "other code in the same time"}
"""Kinds of changes that are told in a line for all."""


def ci(
    models: Annotated[
        list[Path], typer.Argument(exists=True, dir_okay=False, metavar="MODEL..", help="ONNX or TFLite.")
    ],
    baseline: Annotated[
        Path, typer.Option(dir_okay=False, help="The file of what they took; --update writes it.")
    ],
    target: Annotated[str, typer.Option(help="The target; its simulated board is what they run on.")],
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", exists=True, dir_okay=False, help="A tuning log. Repeatable."),
    ] = None,
    allow: Annotated[float, typer.Option(min=0.0, help="By how many per cent they may be slower.")] = 0.5,
    update: Annotated[bool, typer.Option("--update", help="Keep what they take now.")] = False,
    assembly: Annotated[
        Path,
        typer.Option(file_okay=False, help="Where the assembly of what is slower goes, before and after."),
    ] = Path("tilefleet-ci"),
    numerics: NumericsOption = Numerics.EXACT_INTEGERS,
    shape: ShapeOption = None,
    value: ValueOption = None,
    data: DataOption = None,
    as_json: Json = False,
) -> None:
    """Fail where models are slower than a baseline: built and run on a simulated board, without noise.

    Exit code 3 when a model, or a layer that it had before, takes more than --allow per cent longer; the
    layer's configs and assemblies are named. 1 when there is nothing to compare with, or a model is wrong.
    """
    # Here, because they bring TVM along, which no other command should wait for.
    from tilefleet.performance import Wanted, board_of, run, write_assembly

    named = {model.stem: model for model in models}
    if len(named) < len(models):
        raise TilefleetError("two models have one name: their times could not be told apart")
    sets = read_sets(shape)
    if len(sets) > 1:
        raise TilefleetError("ci takes one set of shapes; keep the others in a baseline of their own")
    board = board_of(target)
    known = _known(baseline, update)
    logs = [read_log_file(each) for each in log or ()]
    wanted = Wanted(
        named,
        board,
        [record for records, _ in logs for record in records],
        [each for _, relayouts in logs for each in relayouts],
        numerics,
        sets[0] if sets else None,
        read_values(value),
        data or (),
    )
    with working(f"starting {board}") as say:
        reports, now = run(wanted, known, allow / 100, update, say)
    slower = [each for each in reports if each.changes and each.changes.slower]
    files = {each.name: write_assembly(each, now.assembly, assembly) for each in slower if not update}
    notes = _notes(reports, known, now, baseline, update)
    show(
        {
            "board": board,
            "clock": now.clock,
            "models": [_json(each, files.get(each.name)) for each in reports],
            "notes": notes,
        },
        as_json,
        "\n".join([line for each in reports for line in _lines(each, files.get(each.name))] + notes),
    )
    if update:
        now.write(baseline)
        return
    unknown = [each.name for each in reports if each.changes is None]
    if unknown:
        raise TilefleetError(f"{baseline} does not have {', '.join(unknown)}: add what is new by --update")
    if slower:
        names = ", ".join(each.name for each in slower)
        typer.echo(
            f"tilefleet: {names}: slower by more than {allow:g} %; if that shall be so: --update", err=True
        )
        raise typer.Exit(SLOWER)


def _known(path: Path, update: bool) -> Baseline | None:
    from tuner.performance.baseline import Baseline

    if not path.exists():
        if update:
            return None
        raise TilefleetError(f"there is no {path} yet: make it by --update")
    try:
        return Baseline.read(path)
    except ValueError as error:
        raise TilefleetError(f"{error}; --update writes a new one where there is no file") from None


def _notes(
    reports: Sequence[Report], known: Baseline | None, now: Baseline, path: Path, update: bool
) -> list[str]:
    """What is to be said beside the models."""
    notes = [f"{path}: {len(reports)} of its {len(now.models)} models are new or measured anew"] * update
    if known and known.made_by != now.made_by and not update:
        before, after = (
            ", ".join(f"{name} {each}" for name, each in of.items()) for of in (known.made_by, now.made_by)
        )
        notes.append(f"the baseline was made by {before}; here are {after}")
    return notes


def _json(report: Report, files: list[list[str]] | None) -> dict[str, Any]:
    value = {"name": report.name, "check": vars(report.check), **report.timed.to_json()}
    if report.changes is not None:
        value |= report.changes.to_json()
        for change, written in zip(value["changes"], files or (), strict=False):
            change["assembly"] = written
    return value


def _lines(report: Report, files: list[list[str]] | None) -> list[str]:
    """What is said of a model: a line, and lines for each change."""
    time = f"{render.milliseconds(report.timed.seconds)} ms (simulated)"
    if report.check.skipped:
        time += f", not checked: {report.check.skipped}"
    found = report.changes
    if found is None:
        return [f"{report.name}: {time}, new"]
    if not found.each:
        return [f"{report.name}: {time}, as before"]
    before = render.milliseconds(found.before.seconds)
    lines = [f"{report.name}: {time}, {before} ms before, {_percent(found.growth)}"]
    lines[0] += ": SLOWER" * found.slower
    for number, change in enumerate(found.each):
        if change.kind not in QUIET:
            lines += _change_lines(change, files[number] if files else [])
    return lines + [f"  {line}" for kind, text in QUIET.items() if (line := _together(found, kind, text))]


def _together(found: Changes, kind: str, text: str) -> str:
    """One line for all changes of a kind that takes no more time of its own."""
    growths = [
        change.after.seconds / change.before.seconds - 1
        for change in found.each
        if change.kind == kind and change.before and change.after and change.before.seconds
    ]
    if not growths:
        return ""
    span = "" if kind == "same time" else f", {_percent(min(growths))} to {_percent(max(growths))}"
    return f"{text}: {len(growths)} function{'s' if len(growths) > 1 else ''}{span}"


def _change_lines(change: Change, files: list[str]) -> list[str]:
    before, after = change.before, change.after
    if before is None or after is None:
        part = before or after
        assert part
        lines = [f"  {change.kind}: {_named(part)}, {_times(part)}"]
    elif change.kind == "replaced":
        lines = [
            f"  replaced: {_named(before)}, {_times(before)}",
            f"    by {_named(after)}, {_times(after)}",
        ]
    else:
        growth = _percent(after.seconds / before.seconds - 1) if before.seconds else "from nothing"
        lines = [f"  {change.kind}: {_named(after)}: {_times(before)} before, now {_times(after)}, {growth}"]
    if before and after and before.config != after.config:
        lines += [f"    config before: {_config(before)}", f"    config now:    {_config(after)}"]
    elif after and after.config:
        lines.append(f"    config: {_config(after)}")
    if files:
        lines.append(f"    assembly: {', '.join(files)}")
    return lines


def _named(part: Part) -> str:
    nodes = ", ".join(part.nodes[:4]) + (", ..." if len(part.nodes) > 4 else "")
    return f"{part.name} ({nodes})" if nodes else part.name


def _times(part: Part) -> str:
    calls = f" in {part.calls} calls" if part.calls > 1 else ""
    return f"{render.milliseconds(part.seconds)} ms{calls}"


def _config(part: Part) -> str:
    return render.config(part.config)


def _percent(growth: float) -> str:
    """A difference as per cent, with as many digits as show it."""
    return f"{growth * 100:+.2f} %" if abs(growth) >= 1e-4 else f"{growth * 100:+.2g} %"
