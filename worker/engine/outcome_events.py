"""Outcomes on their way from a measure worker to the engine, each as soon as it is there.

They travel as events of Dask's log, apart from the task's result: what was measured before the worker was
killed is not lost with it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from worker.outcome import ErrorKind, Outcome


def write(token: str, index: int, outcome: Outcome) -> dict[str, Any]:
    """The message for outcome number ``index`` of what is measured under ``token``."""
    plain = asdict(outcome)
    if outcome.error is not None:
        plain["error"] = outcome.error.value
    return {"token": token, "index": index, "outcome": plain}


def read(message: dict[str, Any]) -> tuple[str, int, Outcome]:
    """What ``write`` was given."""
    plain = dict(message["outcome"])
    if plain["error"] is not None:
        plain["error"] = ErrorKind(plain["error"])
    plain["repeats_s"] = tuple(plain["repeats_s"])
    return message["token"], message["index"], Outcome(**plain)
