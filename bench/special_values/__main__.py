"""Operators x what follows them x types of floats x special values, beside onnxruntime without optimisations.

python -m bench.special_values --cases 20000 --seed 1 --json FILE

A case is one of each. Many operators are branches of one model, which is built once and run with all values.
It is right where onnxruntime or onnx's reference computes the same; NaN that onnxruntime loses in maxima by
its place must be there. A wrong case makes the command fail. A run that was stopped goes on by its file.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from bench import journal
from bench.special_values.kinds import Kind, all_kinds
from bench.special_values.trial import Outcome, tried
from kernels.layout import NHWC
from kernels.target import Target
from worker.measure.host import host_target

BRANCHES = 32
"""In a model."""


def main() -> None:
    """Try the cases and print what came out."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.special_values", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--cases", type=int, default=20000, metavar="N", help="how many (20000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which (1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only operators whose names begin so")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep what came out here, and go on with it"
    )
    arguments = parser.parse_args()
    settings = {name: getattr(arguments, name) for name in ("cases", "seed", "only")}
    try:
        report = journal.opened(arguments.json, "special_values", settings)
    except ValueError as error:
        parser.error(str(error))
    rows = report.setdefault("batches", [])
    for number, batch in enumerate(batches(arguments.cases, arguments.seed, arguments.only, host_target())):
        if number < len(rows):
            continue
        rows.append(summed(list(tried(*batch, arguments.seed, host_target()))))
        journal.save(arguments.json, report)
        for line in rows[-1]["wrong"]:
            print(line, flush=True)
    print(told(rows))
    sys.exit(any(row["wrong"] for row in rows))


def batches(
    cases: int, seed: int, only: str, target: Target
) -> Iterator[tuple[list[Kind], list[tuple[str, ...]]]]:
    """Kinds of one layout and numerics, with the values of each: ``cases`` in all, or all that there are.

    Few cases have a part of the values each, so that there are more operators among them.
    """
    rng = random.Random(seed)
    kinds = [kind for kind in all_kinds((NHWC, f"nchw{target.lanes()}c")) if kind.form.startswith(only)]
    rng.shuffle(kinds)
    most = 8 if cases < 5000 else 100
    chosen: list[tuple[Kind, tuple[str, ...]]] = []
    for kind in kinds:
        values = tuple(rng.sample(kind.values, min(most, len(kind.values), cases)))
        cases -= len(values)
        chosen.append((kind, values))
        if not cases:
            break
    chosen.sort(key=lambda pair: (pair[0].layout, pair[0].numerics))
    for _, group in groupby(chosen, key=lambda pair: (pair[0].layout, pair[0].numerics)):
        alike = list(group)
        for first in range(0, len(alike), BRANCHES):
            some = alike[first : first + BRANCHES]
            yield [kind for kind, _ in some], [values for _, values in some]


def summed(outcomes: list[Outcome]) -> dict[str, Any]:
    """A batch for the journal: counts, what is wrong, and what is refused."""
    return {
        "verdicts": Counter(each.verdict for each in outcomes),
        "wrong": [
            f"wrong: {each.kind}, {each.value}: {each.reason}" for each in outcomes if each.verdict == "wrong"
        ],
        "refused": sorted(
            {f"{each.kind.form}: {each.reason}" for each in outcomes if each.verdict == "refused"}
        ),
    }


def told(rows: list[dict[str, Any]]) -> str:
    """What came out, for people."""
    total: Counter[str] = sum((Counter(row["verdicts"]) for row in rows), Counter())
    refused = sorted({line for row in rows for line in row["refused"]})
    counts = ", ".join(f"{total[verdict]} {verdict}" for verdict in ("right", "refused", "wrong"))
    return "\n".join([*(f"refused: {line}" for line in refused), f"{total.total()} cases: {counts}"])


if __name__ == "__main__":
    main()
