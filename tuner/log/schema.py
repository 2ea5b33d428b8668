"""The JSON Schema of a tuning log's lines, made of the classes that read them."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from kernels.target import Target
from kernels.workload import base as workloads
from tuner.log.meanings import explained
from tuner.log.record import FORMAT
from tuner.log.relayouts import FIELD, KIND
from worker.outcome import ErrorKind

_SECONDS = {"type": ["number", "null"], "exclusiveMinimum": 0}
_NUMBER = {"type": ["number", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
RECORD: dict[str, tuple[str, dict[str, Any]]] = {
    "format": ("The version of this format.", {"const": FORMAT}),
    "workload": ("What was computed, in canonical form.", {"$ref": "#/$defs/workload"}),
    "target": ("What the code was generated for.", {"$ref": "#/$defs/Target"}),
    "config": ("The kernel and a value for each of its knobs.", {"$ref": "#/$defs/config"}),
    "kernel_version": ("Version of the kernel's generator; configs of two versions do not compare.", _COUNT),
    "threads": ("Threads that the kernel ran on.", {"type": "integer", "minimum": 1}),
    "clock": ("Whose seconds these are: wall, or simulated:...; two clocks do not compare.", _TEXT),
    "cost_s": ("Median of repeats_s in seconds; null after an error.", _SECONDS),
    "verified_s": (
        "Median in seconds of the interleaved re-measurements; null where there were none.",
        _SECONDS,
    ),
    "remeasured": ("How many re-measurements there were.", _COUNT),
    "in_place_s": (
        "Median seconds of its calls inside a built model; null where it was not timed there.",
        _SECONDS,
    ),
    "placed_s": ("Seconds that it ranks by after a comparison inside a model; null without one.", _SECONDS),
    "repeats_s": (
        "Single times in seconds; of more than 50, medians of groups.",
        {"type": "array", "items": {"type": "number"}},
    ),
    "spread": ("Interquartile range of repeats_s over their median.", _NUMBER),
    "disturbed": ("Whether others used the machine meanwhile.", _FLAG),
    "imported": ("Whether it came in a log and was not measured by this server.", _FLAG),
    "max_error": ("Largest difference from a float64 reference over the reference's largest value.", _NUMBER),
    "cold": ("Whether the weights were evicted from the caches before each repeat.", _FLAG),
    "error": ("How the trial failed; null where it did not.", {"enum": [*map(str, ErrorKind), None]}),
    "message": ("What is known of the failure.", _TEXT),
    "board": ("Id of the board that measured it.", _TEXT),
    "counters": (
        "Of simulated boards: cycles, instructions, loads, stores, l1_misses, l2_misses of a call.",
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ),
    "temperature_c": ("Degrees Celsius of the board just after; null where it does not tell.", _NUMBER),
    "frequency_mhz": ("Clock rate of the board in MHz just after; null where it does not tell.", _NUMBER),
    "toolchain": ("Versions of what built it, by name.", {"type": "object", "additionalProperties": _TEXT}),
    "created": ("When it was measured, ISO 8601.", _TEXT),
}
"""Each field of a record: what it means, and its schema. Those of ``REQUIRED`` are in every record."""
REQUIRED = ["format", "workload", "target", "config", "kernel_version"]
_CONFIG = {
    "type": "object",
    "description": "A point of a kernel's space. Fields not named here are knobs (docs/kernels.md).",
    "required": ["kernel"],
    "properties": {
        "kernel": {"type": "string", "description": "Name of the kernel family."},
        "data": {"type": "string", "description": "Layout that it reads, where that is not nchw."},
        "out": {"type": "string", "description": "Layout that it writes, where that is not nchw."},
    },
    "additionalProperties": {"type": ["integer", "string"]},
}


def log_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of each line of a log: a header, or a record."""
    definitions: dict[str, Any] = {"config": _CONFIG}
    kinds = []
    for kind, workload in workloads.KINDS.items():
        found = TypeAdapter(workload).json_schema(ref_template="#/$defs/{model}")
        definitions |= {name: explained(each) for name, each in found.pop("$defs", {}).items()}
        found = explained(found)
        word = {"kind": {"const": kind, "description": "What is computed."}}
        found["properties"] = {**word, **found["properties"]}
        found["required"] = ["kind", *found["required"]]
        # Not by its class's name: the parts of a chain are of a class, but have no kind.
        definitions[kind] = found
        kinds.append({"$ref": f"#/$defs/{kind}"})
    definitions["workload"] = {"oneOf": kinds}
    definitions["Target"] = explained(TypeAdapter(Target).json_schema(ref_template="#/$defs/{model}"))
    definitions["record"] = {
        "type": "object",
        "required": REQUIRED,
        "additionalProperties": False,
        "properties": {name: {"description": text, **form} for name, (text, form) in RECORD.items()},
    }
    definitions["relayouts"] = _relayouts()
    definitions["header"] = _header()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": KIND,
        "description": "One line of the log. The first is a header, all others are records.",
        "oneOf": [{"$ref": "#/$defs/header"}, {"$ref": "#/$defs/record"}],
        "$defs": definitions,
    }


def _relayouts() -> dict[str, Any]:
    pair = {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "minItems": 2, "maxItems": 2}
    times = {"type": "object", "additionalProperties": {"type": "array", "items": pair}}
    return {
        "type": "object",
        "required": [FIELD, "target", "threads", "clock"],
        "additionalProperties": False,
        "properties": {
            FIELD: {"description": "Pairs of elements and seconds, by from>to of two layouts.", **times},
            "version": {"description": "Version of the conversions' code and of how it is timed.", **_COUNT},
            "target": {"description": "What they were measured on.", "$ref": "#/$defs/Target"},
            "threads": {"description": "Threads that they ran on.", "type": "integer", "minimum": 1},
            "clock": {"description": "Whose seconds these are.", **_TEXT},
        },
    }


def _header() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["format", "log", FIELD],
        "additionalProperties": False,
        "properties": {
            "format": {"description": "The version of this format.", "const": FORMAT},
            "log": {"description": "What the file is.", "const": KIND},
            "schema": {"description": "The command that prints this schema.", **_TEXT},
            FIELD: {
                "description": "Measured times of conversions between layouts.",
                "type": "array",
                "items": {"$ref": "#/$defs/relayouts"},
            },
        },
    }
