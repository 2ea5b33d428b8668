"""Rows as what they stand for; each raises DamagedError where that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kernels import target as targets
from kernels.target import Target
from kernels.workload import base as workloads
from kernels.workload.base import Workload
from server.db.documents import DamagedError, checked
from server.db.tables import TargetRow, WorkloadRow

T = TypeVar("T")


def target_of(row: TargetRow) -> Target:
    """The target of a row."""
    return read(row.document, targets.from_json, f"target {row.name!r}")


def workload_of(row: WorkloadRow) -> Workload:
    """The workload of a row."""
    return read(row.document, workloads.from_json, f"workload {row.key}")


def read(document: Any, make: Callable[[dict[str, Any]], T], what: str) -> T:
    """What ``make`` makes of a document."""
    found = checked(document, dict[str, Any], what)
    try:
        return make(found)
    except Exception as error:  # it may hold anything
        why = str(error) or type(error).__name__
        raise DamagedError(f"{what} cannot be read in the database: {why}") from None
