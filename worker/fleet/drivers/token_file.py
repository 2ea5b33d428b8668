"""The files that hold the tokens of boards."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.dial_proof import check_token
from worker.fleet.small_file import read_small


def _in_folder(path: Path, info: ValidationInfo) -> Path:
    return Path((info.context or {}).get("folder", "")) / path.expanduser()


TokenFile = Annotated[Path, Field(strict=False), AfterValidator(_in_folder)]


def why_no_token(board: str, path: Path) -> str | None:
    """Why a board's token cannot or should not be used, with the way out; None when it can."""
    try:
        read_tokens(board, path)
    except BoardError as error:
        return str(error)
    if path.stat().st_mode & stat.S_IROTH:
        return f"everybody here can read the token file {path}; chmod 600 {path}"
    return None


def read_tokens(board: str, path: Path) -> tuple[str, ...]:
    """The tokens in a board's file, a line each, any of which the board may have: while one takes the place
    of another, both hold. Raises BoardError that names the file and the way out."""
    try:
        tokens = tuple(read_small(path).decode().split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BoardError(
            f"board {board}: token file {path}: {reason}; make it with: "
            f"(umask 077; openssl rand -hex 24 > {path})"
        ) from None
    tokens = tuple(token.strip() for token in tokens if token.strip()) or ("",)
    for token in tokens:
        if problem := check_token(token):
            raise BoardError(f"board {board}: token file {path}: {problem}")
    return tokens
