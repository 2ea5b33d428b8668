"""A write-ahead log of SQLite's that lies beside another database than its own.

Whoever copies a backup over the database of a service that was killed leaves its log there. SQLite would
write what is in it into the backup, and say nothing.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEAD, _FRAME = 32, 24
_MAGIC = (0x377F0682, 0x377F0683)
_YOUNGER_S = 1.0
"""By how much the database is younger than its log where it was put there later: a checkpoint takes less."""


def foreign_log(database: Path) -> str:
    """Why ``database`` must not be opened with the log beside it; empty where it may be.

    It may where the database is not younger than the log, or has in it already what the log says.
    """
    log = database.with_name(f"{database.name}-wal")
    if not (database.exists() and log.exists() and log.stat().st_size > _HEAD):
        return ""
    if database.stat().st_ctime <= log.stat().st_ctime + _YOUNGER_S or not _says_more(database, log):
        return ""
    return (
        f"{database} was put there after {log.name} had been written: that is the log of another database, "
        "and would change this one. If it is a backup that you have put there, remove "
        f"{log.name} and {database.name}-shm; if it is the database of that log, run `touch {log}`"
    )


def _says_more(database: Path, log: Path) -> bool:
    """Whether a page is another after the log's last commit than the database has it."""
    with log.open("rb") as frames, database.open("rb") as pages:
        magic, _, size, _, *salts = struct.unpack(">6I", frames.read(24))
        if magic not in _MAGIC:
            return False
        frames.seek(_HEAD)
        committed: dict[int, int] = {}
        begun: dict[int, int] = {}
        while len(head := frames.read(_FRAME)) == _FRAME:
            page, commits, *own = struct.unpack(">4I", head[:16])
            if own != salts:
                break
            begun[page] = frames.tell()
            frames.seek(size, 1)
            if commits:
                committed |= begun
                begun = {}
        for page, at in committed.items():
            frames.seek(at)
            pages.seek((page - 1) * size)
            if frames.read(size) != pages.read(size):
                return True
    return False
