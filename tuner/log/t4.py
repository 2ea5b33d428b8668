"""T4, the results format of the autotuning community (Kernel Tuner writes and reads it), version 1.0.0.

A T4 document has the results of one search space. Its schema allows more fields, so ours has, as
``tilefleet``, what makes records of them again: the space's facts once, and the rest of each record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tuner.log.record import Record, write_log
from worker.outcome import ErrorKind

VERSION = "1.0.0"
OURS = "tilefleet"
_SPACE = ("workload", "target", "threads", "clock", "format")
"""Fields of a record that all of one space share."""
_INVALID = {
    None: "correct",
    ErrorKind.CONSTRAINTS: "constraints",
    ErrorKind.BUILD_TIMEOUT: "timeout",
    ErrorKind.RUN_TIMEOUT: "timeout",
    ErrorKind.BUILD_ERROR: "compile",
    ErrorKind.BUILD_KILLED: "compile",
    ErrorKind.WRONG_RESULT: "correctness",
}
"""T4's word for each end of a trial; ``runtime`` for all others."""
_ERRORS = {
    "constraints": ErrorKind.CONSTRAINTS,
    "timeout": ErrorKind.RUN_TIMEOUT,
    "compile": ErrorKind.BUILD_ERROR,
    "correctness": ErrorKind.WRONG_RESULT,
    "runtime": ErrorKind.CRASH,
}


def space_of(record: Record) -> tuple[str, str, str, int]:
    """What all records of one document share: keys of workload and target, clock, threads."""
    return record.workload.key, record.target.key, record.clock, record.threads


def to_t4(records: Sequence[Record]) -> dict[str, Any]:
    """The document of one space's records; raises ValueError where they are of several or none."""
    spaces = {space_of(record) for record in records}
    if len(spaces) != 1:
        raise ValueError(
            "a T4 file has the results of one workload, target, clock and number of threads; "
            f"these are of {len(spaces)}"
        )
    shared = records[0].to_json()
    return {
        "schema_version": VERSION,
        OURS: {name: shared[name] for name in _SPACE},
        "results": [_result(record) for record in records],
    }


def _result(record: Record) -> dict[str, Any]:
    value = record.to_json()
    measured: list[dict[str, Any]] = []
    if record.isolated_s is not None and record.gflops is not None:
        measured = [
            {"name": "time", "value": record.isolated_s * 1e3, "unit": "ms"},
            {"name": "GFLOP/s", "value": record.gflops, "unit": "GFLOP/s"},
        ]
    measured += [{"name": name, "value": count, "unit": ""} for name, count in record.counters.items()]
    return {
        "timestamp": record.created,
        "configuration": record.config.to_json(),
        "objectives": ["time"],
        "times": {"runtimes": [seconds * 1e3 for seconds in record.repeats_s]},
        "invalidity": _INVALID.get(record.error, "runtime"),
        "correctness": int(record.error is None),
        "measurements": measured,
        OURS: {name: item for name, item in value.items() if name not in (*_SPACE, "config")},
    }


def is_t4(value: Any) -> bool:
    """Whether a JSON value looks like a T4 document."""
    return isinstance(value, dict) and "schema_version" in value and isinstance(value.get("results"), list)


def check_version(value: Mapping[str, Any]) -> None:
    """Raise ValueError where a T4 document is of another major version."""
    if str(value["schema_version"]).split(".")[0] != VERSION.split(".")[0]:
        raise ValueError(f"T4 version {value['schema_version']} is not {VERSION}")


def from_t4(value: Any) -> list[Record]:
    """The records of a T4 document of ours; raises ValueError that names what is wrong.

    A result that somebody else added has no field ``tilefleet``: then its time is its measurement ``time``.
    """
    if not is_t4(value):
        raise ValueError("it is no T4 document: it has no schema_version and results")
    check_version(value)
    shared = value.get(OURS)
    if not isinstance(shared, dict):
        raise ValueError(
            f"it says no workload and target in a field {OURS!r}: "
            "results of other kernels than ours are no records, but `tilefleet replay` searches them"
        )
    records = []
    for number, result in enumerate(value["results"], 1):
        try:
            records.append(Record.from_json({**shared, **_rest(result), "config": result["configuration"]}))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"result {number}: {error}") from None
    return records


def _rest(result: dict[str, Any]) -> dict[str, Any]:
    if isinstance(result.get(OURS), dict):
        return dict(result[OURS])
    from kernels import registry

    word = result["invalidity"]
    rest = {
        "kernel_version": registry.kernel(result["configuration"]["kernel"]).version,
        "created": result.get("timestamp", ""),
    }
    if word != "correct":
        return {**rest, "error": _ERRORS[word]}
    runs = [time * 1e-3 for time in result["times"].get("runtimes", [])]
    return {**rest, "cost_s": time_s(result), "repeats_s": runs}


def time_s(result: Mapping[str, Any]) -> float:
    """The seconds that a result's measurement ``time`` says; raises ValueError and KeyError."""
    times = {each["name"]: each for each in result.get("measurements", [])}
    if "time" not in times:
        raise ValueError(f"it has no measurement 'time', but {', '.join(map(repr, times)) or 'none'}")
    factor = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[times["time"].get("unit") or "ms"]
    return float(times["time"]["value"] * factor)


def dumps(records: Sequence[Record]) -> str:
    """``to_t4`` as text."""
    return json.dumps(to_t4(records), indent=1) + "\n"


def as_log(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a log, made from them where the file is T4; raises ValueError for T4 that is not ours."""
    rest = iter(lines)
    first = next(rest, "")
    value = parsed(first)
    if isinstance(value, dict) and not is_t4(value):
        yield first
        yield from rest
        return
    text = [first, *rest]
    value = parsed("".join(text))
    yield from write_log(from_t4(value)) if is_t4(value) else text


def parsed(text: str) -> Any:
    """A JSON value, or None where the text is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None
