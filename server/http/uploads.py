"""Receiving a body into a file."""

from __future__ import annotations

import errno
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from server.http.problems import Problem

ABANDONED_S = 24 * 3600.0
"""Longer than any upload waits for its turn to be read."""


@dataclass(frozen=True)
class Upload:
    """A received body."""

    path: Path
    size: int
    sha256: str


def sha256(path: Path) -> str:
    """The digest of a file, as an upload's."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def forget_old(folder: Path) -> None:
    """Delete what a process that was killed had received: whatever is older than any upload under way."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another coordinator does so, too
            if time.time() - path.stat().st_mtime > ABANDONED_S:
                path.unlink()


@asynccontextmanager
async def received(request: Request, folder: Path) -> AsyncIterator[Upload]:
    """Stream the body into a temporary file in ``folder``; it is deleted at the end unless moved away.

    ``BodyLimit`` bounds its size.
    """
    digest = hashlib.sha256()
    size = 0
    with NamedTemporaryFile(dir=folder, delete=False) as file:
        path = Path(file.name)
        try:
            async for chunk in request.stream():
                size += len(chunk)
                digest.update(chunk)
                await run_in_threadpool(file.write, chunk)
            await run_in_threadpool(file.flush)
            yield Upload(path, size, digest.hexdigest())
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Problem(507, f"the disk with {folder} is full: free some of it") from None
            raise
        except ClientDisconnect:
            raise Problem(400, "the connection broke before the whole body had arrived") from None
        finally:
            path.unlink(missing_ok=True)
