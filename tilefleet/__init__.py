"""What users touch: the command line ``tilefleet`` and the Python client of the REST API."""

from tilefleet.client import Client
from tilefleet.errors import Conflict, InvalidInput, NotFound, ProblemError, ServerUnreachable, TilefleetError

__all__ = [
    "Client",
    "Conflict",
    "InvalidInput",
    "NotFound",
    "ProblemError",
    "ServerUnreachable",
    "TilefleetError",
]
