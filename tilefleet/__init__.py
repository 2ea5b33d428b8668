"""What users touch: the command line ``tilefleet`` and the Python client of the REST API."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilefleet.async_client import AsyncClient
    from tilefleet.async_job import AsyncJob
    from tilefleet.client import Client
    from tilefleet.errors import (
        Conflict,
        InvalidInput,
        NotFound,
        ProblemError,
        ServerUnreachable,
        TilefleetError,
    )
    from tilefleet.job import Job
    from tilefleet.tuning import Tuned, tune

__all__ = [
    "AsyncClient",
    "AsyncJob",
    "Client",
    "Conflict",
    "InvalidInput",
    "Job",
    "NotFound",
    "ProblemError",
    "ServerUnreachable",
    "TilefleetError",
    "Tuned",
    "tune",
]
_PLACES = {
    "AsyncClient": "async_client",
    "AsyncJob": "async_job",
    "Client": "client",
    "Job": "job",
    "Tuned": "tuning",
    "tune": "tuning",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: commands pay for nothing else."""
    if name not in __all__:
        raise AttributeError(f"module 'tilefleet' has no attribute {name!r}")
    return getattr(import_module(f"tilefleet.{_PLACES.get(name, 'errors')}"), name)
