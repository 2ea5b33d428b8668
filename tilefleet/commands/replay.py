"""``replay``: strategies on recorded measurements."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from tilefleet.commands.common import Json, show, working
from tilefleet.commands.local import read_log_file
from tilefleet.errors import TilefleetError
from tilefleet.render import milliseconds, percent, table

if TYPE_CHECKING:
    from tuner.search.replay import Recorded

_MARKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def replay(
    space: Annotated[
        list[Path],
        typer.Argument(
            metavar="SPACE...",
            exists=True,
            dir_okay=False,
            help="Tuning logs with all records, or T4, of other tools' kernels too.",
        ),
    ],
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="A strategy's name, FILE.py:Class or module:Class; may be given again."),
    ] = None,
    workload: Annotated[str | None, typer.Option(help="Only this workload, by its key.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each run at most.")] = 100,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each strategy, by different seeds.")] = 5,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the best after each trial of each run there.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the curves of all strategies there, as SVG.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run strategies over recorded trials instead of boards: the best found against the number of trials.

    A cell is the speed of the best config found until then over that of the best recorded one, as the
    median over the seeds. The score is the field's: 0 is uniform random search, 1 has the best at once; it
    is that of the trials asked for, or of the space's budget where that is less.
    """
    sys.path.insert(0, "")  # a module beside the log, as python itself would find it
    spaces = [found for path in space for found in _spaces(path, workload)]
    if not spaces:
        files = ", ".join(map(str, space))
        raise TilefleetError(f"{files} has no record" + (f" of workload {workload}" if workload else ""))
    names = list(dict.fromkeys(strategy or ["random", "model"]))
    rows: list[dict[str, Any]] = []
    curves: list[list[list[float]]] = []
    with working(f"replaying {len(names)} strategies on {len(spaces)} spaces"):
        for found in spaces:
            for name in names:
                runs = _runs(found.recorded, name, trials, seeds)
                rows.append(found.about | _row(found.recorded, name, runs, trials))
                curves.append(runs)
    if csv is not None:
        _write(csv, _csv(rows, curves))
    if plot is not None:
        from tilefleet.commands.replay_plot import plot as drawn

        _write(plot, drawn(_panels(rows, curves)))
    show(rows, as_json, Group(_table(rows, trials), _answer(rows, len(spaces), seeds)))


@dataclass(frozen=True)
class _Named:
    """A recorded space and what is told of it."""

    recorded: Recorded
    about: dict[str, Any]


def _spaces(path: Path, workload: str | None) -> Iterator[_Named]:
    """The spaces of a file; raises TilefleetError where it has none that can be searched."""
    from tuner.log.foreign_t4 import is_foreign, read_foreign
    from tuner.log.t4 import parsed
    from tuner.search.replay import foreign_space, recorded, spaces_of

    about: dict[str, Any]
    try:
        value = parsed(path.read_text())
        if is_foreign(value):
            kernel = path.name.split(".")[0]
            about = {"workload": kernel, **dict.fromkeys(("workload_key", "target", "clock", "threads"))}
            yield _Named(foreign_space(read_foreign(value, kernel)), about)
            return
        for group in spaces_of(
            read_log_file(path)[0], lambda record: workload in (None, record.workload.key)
        ):
            first = group[0]
            about = {
                "workload": str(first.workload),
                "workload_key": first.workload.key,
                "target": first.target.name,
                "clock": first.clock,
                "threads": first.threads,
            }
            yield _Named(recorded(group), about)
    except ValueError as error:
        raise TilefleetError(f"{path}: {error}") from None


def _runs(found: Recorded, strategy: str, trials: int, seeds: int) -> list[list[float]]:
    """The best seconds after each trial, a list a seed."""
    from tuner.search.replay import best_by_trial

    try:
        return [best_by_trial(found, strategy, trials, seed) for seed in range(seeds)]
    except ValueError as error:
        raise TilefleetError(str(error)) from None


def _row(found: Recorded, strategy: str, runs: Sequence[Sequence[float]], trials: int) -> dict[str, Any]:
    from tuner.search.score import scored

    return {
        "recorded": len(found.costs),
        "points": found.points,
        "counted": found.counted,
        "old": found.old,
        "best_s": found.best_s,
        "strategy": strategy,
        "score": scored(found.costs.values(), runs, trials).score,
        "share_of_best": {
            str(mark): statistics.median(found.best_s / run[min(mark, len(run)) - 1] for run in runs)
            for mark in _MARKS
            if mark <= max(map(len, runs))
        },
        "trials_to_best": _trials_to(found.best_s, runs),
    }


def _csv(rows: Sequence[dict[str, Any]], curves: Sequence[Sequence[Sequence[float]]]) -> str:
    """A line for each trial of each run, under a heading."""
    from csv import writer
    from io import StringIO

    from tuner.log.rows import csv_cell

    text = StringIO()
    lines = writer(text, lineterminator="\n")
    lines.writerow(["space", "target", "strategy", "seed", "trial", "best_s"])
    for row, runs in zip(rows, curves, strict=True):
        named = [row["workload"], row["target"], row["strategy"]]
        for seed, run in enumerate(runs):
            lines.writerows(map(csv_cell, [*named, seed, n, best]) for n, best in enumerate(run, 1))
    return text.getvalue()


def _panels(rows: Sequence[dict[str, Any]], curves: Sequence[Any]) -> dict[str, Any]:
    """What ``replay_plot.plot`` wants: two spaces of one name get numbers."""
    panels: dict[str, Any] = {}
    for row, runs in zip(rows, curves, strict=True):
        name, number = _where(row), 1
        while row["strategy"] in panels.get(name, (0, {}))[1]:
            number += 1
            name = f"{_where(row)}, {number}"
        panels.setdefault(name, (row["best_s"], {}))[1][row["strategy"]] = runs
    return panels


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, newline="")
    except OSError as error:
        raise TilefleetError(f"{path} cannot be written: {error.strerror}") from None


def _where(row: dict[str, Any]) -> str:
    return f"{row['workload']} ({row['target']})" if row["target"] else str(row["workload"])


def _answer(rows: Sequence[dict[str, Any]], spaces: int, seeds: int) -> str:
    """One line that names the strategy with the highest score."""
    scores = {row["strategy"]: [r["score"] for r in rows if r["strategy"] == row["strategy"]] for row in rows}
    means = sorted(((statistics.fmean(each), name) for name, each in scores.items()), reverse=True)
    (best, name), others = means[0], means[1:]
    beside = ", ".join(f"{mean:.2f} of {other}" for mean, other in others)
    return (
        f"{name} has the highest score, {best:.2f}"
        + (f", beside {beside}" if others else "")
        + f": the mean of {spaces} space{'s' * (spaces > 1)}, {seeds} run{'s' * (seeds > 1)} each"
    )


def _trials_to(cost: float, curves: Sequence[Sequence[float]]) -> float | None:
    """The median number of trials until that cost; None where half of the runs did not come to it."""
    numbers = [next((n for n, best in enumerate(curve, 1) if best <= cost), None) for curve in curves]
    found = sorted(number for number in numbers if number is not None)
    missing = len(numbers) - len(found)
    return float(statistics.median_low(found + [max(found)] * missing)) if len(found) > missing else None


def _table(results: Sequence[dict[str, Any]], trials: int) -> Any:
    marks = [
        mark for mark in _MARKS if mark <= trials and any(str(mark) in r["share_of_best"] for r in results)
    ]
    columns = [f"{mark}" for mark in marks]
    found = table("space", "recorded", "best ms", "strategy", *columns, "to the best", "score", left=2)
    for each in results:
        bound = "" if each["counted"] else "at least "
        share = f"{each['recorded']} of {each['points']} ({bound}{each['recorded'] / each['points']:.1%})"
        old = f", {each['old']} of other versions left out" if each["old"] else ""
        shares = each["share_of_best"]
        cells = [percent(shares[mark]) if mark in shares else "-" for mark in columns]
        number = each["trials_to_best"]
        last = f"over {trials}" if number is None else f"{number:g}"
        where = _where(each)
        best, score = milliseconds(each["best_s"]), f"{each['score']:.2f}"
        found.add_row(where, share + old, best, each["strategy"], *cells, last, score)
    return found
