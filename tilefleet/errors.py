"""What can go wrong between a user and the service; every message is fit to be shown as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def named(path: Path, error: Exception) -> str:
    """What is wrong with a file, after its path; an error that begins with its name says that once."""
    return f"{path}: {str(error).removeprefix(path.name).lstrip()}"


class TilefleetError(Exception):
    """Root of everything this package raises on purpose."""


class Incomplete(TilefleetError):
    """A job ended, but for some of its layers no config ran: the command's exit code is 3."""


class ServerUnreachable(TilefleetError):
    """Nothing answers at the URL, or the connection broke and did not come back."""


class ProblemError(TilefleetError):
    """The server refused: an RFC 9457 problem body.

    ``status`` is the HTTP status, ``type`` the problem's type URI, ``errors`` the list of ``{loc, msg}`` of
    invalid input (empty otherwise).
    """

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.type = str(body.get("type", "about:blank"))
        self.title = str(body.get("title", f"HTTP {status}"))
        self.detail = str(body.get("detail") or "")
        self.errors: list[dict[str, Any]] = list(body.get("errors") or [])
        super().__init__(self._message())

    def _message(self) -> str:
        text = self.detail or self.title
        unsaid = [error for error in self.errors if str(error.get("msg")) not in text]
        extra = "; ".join(f"{_where(error.get('loc'))}: {error.get('msg')}" for error in unsaid)
        return f"{text}: {extra}" if extra else text


class NotFound(ProblemError):
    """404: there is no such thing."""


class Conflict(ProblemError):
    """409: the thing's state does not allow it."""


class InvalidInput(ProblemError):
    """400, 413, 415 or 422: what was sent cannot be used."""


def from_response(status: int, body: Any) -> ProblemError:
    """The typed error of a problem body; a body that is none still gives its status."""
    kind: type[ProblemError] = ProblemError
    if status == 404:
        kind = NotFound
    elif status == 409:
        kind = Conflict
    elif status in (400, 413, 415, 422):
        kind = InvalidInput
    return kind(status, body if isinstance(body, dict) else {})


def _where(location: Any) -> str:
    return ".".join(str(part) for part in location) if isinstance(location, list) else str(location)
