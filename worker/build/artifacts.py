"""Built candidates on disk, each named by the hash of its content."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


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

        Raises OSError.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                Path(partial).replace(path)
            except BaseException:  # the disk is full, say, and half a file would make it fuller
                Path(partial).unlink()
                raise
        return sha256, path

    def prune(self, max_bytes: int) -> None:
        """Remove the oldest files until no more than ``max_bytes`` are left."""
        files = [(path, path.stat()) for path in self.folder.glob("*/*") if path.is_file()]
        files.sort(key=lambda file: file[1].st_mtime, reverse=True)
        kept = 0
        for path, stat in files:
            kept += stat.st_size
            if kept > max_bytes:
                path.unlink(missing_ok=True)
