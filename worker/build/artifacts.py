"""Built candidates on disk, each named by the hash of its content."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import time
from pathlib import Path

IN_USE_S = 600.0
"""Longer than any artifact waits to be measured."""
MOST_BYTES = 1 << 30
"""All together; more is pruned now and then."""
PRUNES = "00"
"""How the hash of an artifact begins that is stored with a look at all others: one in 256."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class ArtifactStore:
    """A folder of shared objects; any number of processes may write to it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Where the artifact of that hash is, or would be."""
        return self.folder / sha256[:2] / f"{sha256}.so"

    def put(self, data: bytes) -> tuple[str, Path]:
        """Store ``data`` if it is not there yet; its hash and path. Readers never see half a file.

        Where the disk is full, artifacts that nobody needs any more make room. Raises OSError.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256)
        if not path.exists():
            try:
                self._write(data, path)
            except OSError as error:
                if error.errno not in FULL or not self.prune(0, older_than_s=IN_USE_S):
                    raise
                self._write(data, path)
            if sha256.startswith(PRUNES):
                self.prune(MOST_BYTES, older_than_s=IN_USE_S)
        return sha256, path

    def _write(self, data: bytes, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(partial).replace(path)
        except BaseException:  # the disk is full, say, and half a file would make it fuller
            Path(partial).unlink()
            raise

    def prune(self, max_bytes: int, older_than_s: float = 0.0) -> int:
        """Remove the oldest files until no more than ``max_bytes`` are left, but none that is not
        ``older_than_s``; how many were removed."""
        files = []
        for path in self.folder.glob("*/*"):
            try:
                files.append((path, path.stat()))
            except FileNotFoundError:  # another process prunes, too
                continue
        files.sort(key=lambda file: file[1].st_mtime, reverse=True)
        kept, removed, newest = 0, 0, time.time() - older_than_s
        for path, stat in files:
            kept += stat.st_size
            if kept > max_bytes and stat.st_mtime <= newest:
                path.unlink(missing_ok=True)
                removed += 1
        return removed
