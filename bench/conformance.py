"""The ``onnx`` package's own tests of every operator, through our import and build.

python -m bench.conformance --sample 150 --json FILE
python -m bench.conformance --tflite

Each test is right, refused with the operator's name, or wrong; a wrong one makes the command fail. Two
contradict onnxruntime, by which models are made: there its way is taken (otherwise). Every
test runs as it is written, with all operands as inputs, and once more with all but the first as constants,
as models have them. TFLite's operators (``--tflite``) are files of one operator each with the attributes that
matter, of every type of data, beside LiteRT; those that it does not take itself are absent.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from worker.children.nursery import ChildError, Nursery

DEADLINE_S = 120.0
MEMORY_BYTES = 8 << 30
CHILD, TFLITE_CHILD = "bench.conformance_case", "bench.conformance_tflite"
FORMS = ("inputs", "constants")
T = TypeVar("T")


def main() -> None:
    """Run the tests and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m bench.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, metavar="N", help="only so many tests, spread over all")
    parser.add_argument("--only", metavar="TEXT", help="only tests that have this in their names")
    parser.add_argument("--tflite", action="store_true", help="TFLite's operators instead, beside LiteRT")
    parser.add_argument("--json", type=Path, help="write a row for every test here")
    arguments = parser.parse_args()
    rows = (run_tflite if arguments.tflite else run)(arguments.sample, arguments.only or "")
    if arguments.json:
        arguments.json.write_text(json.dumps({"bench": "conformance", "rows": rows}, indent=1) + "\n")
    print(summary(rows))
    sys.exit(any(row["verdict"] == "wrong" for row in rows))


def run(sample: int | None = None, only: str = "") -> list[dict[str, Any]]:
    """``{"name", "op", "form", "verdict", "reason"}`` of every test, as it is and with constants."""
    from bench.conformance_case import CASES

    names = _sampled([name for name in sorted(CASES) if only in name], sample)
    wanted = [(name, form) for name in names for form in FORMS[: max(1, _operands(CASES[name]))]]
    return [
        {"name": name, "op": _operator(CASES[name]), "form": form, **answer}
        for (name, form), answer in zip(wanted, _answers(CHILD, wanted), strict=True)
    ]


def run_tflite(sample: int | None = None, only: str = "") -> list[dict[str, Any]]:
    """The like of every case of TFLite's operators; ``form`` is the type of its data."""
    from bench.conformance_tflite import CASES, TYPES

    wanted = [(name, form) for name in sorted(CASES) if only in name for form in TYPES]
    wanted = _sampled(wanted, sample)
    return [
        {"name": name, "op": name, "form": form, **answer}
        for (name, form), answer in zip(wanted, _answers(TFLITE_CHILD, wanted), strict=True)
    ]


def _sampled(all_of_them: list[T], sample: int | None) -> list[T]:
    """So many of them, spread over all."""
    if sample is None or sample >= len(all_of_them):
        return all_of_them
    return [all_of_them[place * len(all_of_them) // sample] for place in range(sample)]


def _answers(child: str, wanted: list[tuple[str, str]]) -> list[dict[str, str]]:
    """What ``child`` says of each test."""
    with (
        Nursery((child,), env={"TVM_NUM_THREADS": "1"}) as nursery,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        return list(pool.map(partial(_answer, nursery, child), wanted))


def _answer(nursery: Nursery, child: str, wanted: tuple[str, str]) -> dict[str, str]:
    payload = {"name": wanted[0], "form": wanted[1]}
    try:
        return dict(nursery.call(f"{child}:run", payload, timeout_s=DEADLINE_S, memory_bytes=MEMORY_BYTES))
    except ChildError as error:
        return {"verdict": "wrong", "reason": f"{type(error).__name__}: {str(error).strip()[-300:]}"}


def _operands(case: Any) -> int:
    return len(case.model.graph.input)


def _operator(case: Any) -> str:
    """The first operator of a test's model, which mostly is the only one."""
    return str(case.model.graph.node[0].op_type)


def summary(rows: list[dict[str, Any]]) -> str:
    """What came out, for people: the wrong ones, what is refused and how often, and counts."""
    verdicts = Counter(row["verdict"] for row in rows)
    wrong = [f"wrong: {r['name']} ({r['form']}): {r['reason']}" for r in rows if r["verdict"] == "wrong"]
    refused = Counter(row["op"] for row in rows if row["verdict"] == "refused")
    listed = ", ".join(f"{op} {count}" for op, count in refused.most_common())
    counts = ", ".join(
        f"{verdicts[verdict]} {verdict}"
        for verdict in ("right", "refused", "otherwise", "absent", "wrong")
        if verdict != "absent" or verdicts[verdict]
    )
    return "\n".join([*wrong, f"refused: {listed or 'none'}", f"{len(rows)} tests: {counts}"])


if __name__ == "__main__":
    main()
