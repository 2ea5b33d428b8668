"""What users touch: the command line ``tilefleet`` and the Python client of the REST API."""

from tilefleet.async_client import AsyncClient
from tilefleet.client import Client
from tilefleet.errors import Conflict, InvalidInput, NotFound, ProblemError, ServerUnreachable, TilefleetError
from tilefleet.job import Job
from tilefleet.tuning import Tuned, tune

__all__ = [
    "AsyncClient",
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
