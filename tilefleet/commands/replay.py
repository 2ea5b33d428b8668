"""``replay``: strategies on recorded measurements."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilefleet.commands.common import Json, show, working
from tilefleet.commands.local import read_log_file
from tilefleet.errors import TilefleetError
from tilefleet.render import milliseconds, percent, table

if TYPE_CHECKING:
    from tuner.log.record import Record

_MARKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def replay(
    space: Annotated[
        Path,
        typer.Argument(
            metavar="SPACE", exists=True, dir_okay=False, help="A tuning log with all records, or T4."
        ),
    ],
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="A strategy's name, FILE.py:Class or module:Class; may be given again."),
    ] = None,
    workload: Annotated[str | None, typer.Option(help="Only this workload, by its key.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each run at most.")] = 100,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each strategy, by different seeds.")] = 5,
    as_json: Json = False,
) -> None:
    """Run strategies over recorded trials instead of boards: the best found against the number of trials.

    A cell is the speed of the best config found until then over that of the best recorded one, as the
    median over the seeds.
    """
    from tuner.search.replay import spaces_of

    sys.path.insert(0, "")  # a module beside the log, as python itself would find it
    records, _ = read_log_file(space)
    found = spaces_of(records, lambda record: workload in (None, record.workload.key))
    if not found:
        raise TilefleetError(f"{space} has no record" + (f" of workload {workload}" if workload else ""))
    names = strategy or ["random", "model"]
    with working(f"replaying {len(names)} strategies on {len(found)} spaces"):
        results = [each for group in found for each in _replayed(group, names, trials, seeds)]
    show(results, as_json, _table(results, trials))


def _replayed(
    records: Sequence[Record], names: Sequence[str], trials: int, seeds: int
) -> list[dict[str, Any]]:
    from tuner.search.replay import best_by_trial, recorded

    try:
        found = recorded(records)
        runs = {name: [best_by_trial(found, name, trials, seed) for seed in range(seeds)] for name in names}
    except ValueError as error:
        raise TilefleetError(str(error)) from None
    first = records[0]
    return [
        {
            "workload": str(first.workload),
            "workload_key": first.workload.key,
            "target": first.target.name,
            "clock": first.clock,
            "threads": first.threads,
            "recorded": len(found.costs),
            "points": found.points,
            "counted": found.counted,
            "old": found.old,
            "best_s": found.best_s,
            "strategy": name,
            "share_of_best": {
                str(mark): statistics.median(
                    found.best_s / curve[min(mark, len(curve)) - 1] for curve in curves
                )
                for mark in _MARKS
                if mark <= max(len(curve) for curve in curves)
            },
            "trials_to_best": _trials_to(found.best_s, curves),
        }
        for name, curves in runs.items()
    ]


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
    found = table("workload", "recorded", "best ms", "strategy", *columns, "to the best", left=2)
    for each in results:
        bound = "" if each["counted"] else "at least "
        share = f"{each['recorded']} of {each['points']} ({bound}{each['recorded'] / each['points']:.1%})"
        old = f", {each['old']} of other versions left out" if each["old"] else ""
        shares = each["share_of_best"]
        cells = [percent(shares[mark]) if mark in shares else "-" for mark in columns]
        number = each["trials_to_best"]
        last = f"over {trials}" if number is None else f"{number:g}"
        where = f"{each['workload']} ({each['target']})"
        found.add_row(where, share + old, milliseconds(each["best_s"]), each["strategy"], *cells, last)
    return found
