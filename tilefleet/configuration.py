"""The server's settings as commands read them: a wrong one is a message that names it."""

from __future__ import annotations

from pydantic import ValidationError

from server.settings import Settings
from tilefleet.errors import TilefleetError


def read_settings(boards: str | None = None) -> Settings:
    """Settings from the environment, ``boards`` as given if it is.

    Raises TilefleetError that names the variable that is wrong.
    """
    try:
        return Settings() if boards is None else Settings(boards=boards)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "_".join(str(part) for part in first["loc"][:1]).upper()
        message = f"TILEFLEET_{name}: {first['msg']}, got {first['input']!r}"
        raise TilefleetError(message) from None
