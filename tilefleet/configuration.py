"""The server's settings as commands read them: a wrong one is a message that names it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from server.settings import Settings
from tilefleet.errors import TilefleetError


def read_settings(boards: str | None = None, fleet: Path | None = None) -> Settings:
    """Settings from the environment; ``boards`` or ``fleet``, where given, take the place of both there.

    Raises TilefleetError that names the variable that is wrong.
    """
    try:
        if fleet is not None:
            return Settings(fleet=fleet)
        return Settings() if boards is None else Settings(boards=boards, fleet=None)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # a message that has all there is to say
            text = first["msg"].removeprefix("Value error, ")
            for option, given in (("boards", boards), ("fleet", fleet)):
                if given is not None:  # the user wrote that, and no variable
                    text = text.replace(f"TILEFLEET_{option.upper()}:", f"--{option}:", 1)
            raise TilefleetError(text) from None
        name = "_".join(str(part) for part in first["loc"][:1]).upper()
        message = f"TILEFLEET_{name}: {first['msg']}, got {first['input']!r}"
        raise TilefleetError(message) from None
