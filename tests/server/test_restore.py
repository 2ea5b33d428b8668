"""A backup put back as docs/operations.md says, and as one would without reading it."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from server.db.database import Database, DatabaseError
from server.db.restored import foreign_log
from server.settings import Settings
from tilefleet.commands.service import mend
from tilefleet.doctor import _database
from tilefleet.errors import TilefleetError

ROOT = Path(__file__).resolve().parents[2]
WRITER = """
import os, sys
from server.db.database import Database
from sqlalchemy import text
db = Database("sqlite:///" + sys.argv[1])
db.upgrade()
def put(key):
    with db.write() as session:
        insert = "insert into workloads (key, kind, document, flops) values (:k, 'gemm', '{}', 1)"
        session.execute(text(insert), {"k": key})
put("before")
print("ready", flush=True)
sys.stdin.readline()
put("after")
print("written", flush=True)
sys.stdin.readline()
"""


def keys(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [key for (key,) in connection.execute("select key from workloads order by key")]


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, Path]:
    """A database whose writer was killed, and a backup of it from before its last write."""
    database, backup = tmp_path / "tilefleet.sqlite3", tmp_path / "tilefleet.bak"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as copy:
        source.backup(copy)
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "written\n"
    writer.kill()
    writer.wait()
    assert (tmp_path / "tilefleet.sqlite3-wal").stat().st_size > 0
    return database, backup


def younger(database: Path) -> None:
    """Some time passes between the log's last word and what is put beside it."""
    log = database.with_name(f"{database.name}-wal")
    while time.time() < log.stat().st_ctime + 1.2:
        time.sleep(0.1)


def test_a_backup_beside_the_log_of_another_is_refused(killed: tuple[Path, Path]) -> None:
    database, backup = killed
    younger(database)
    shutil.copyfile(backup, database)
    assert "remove tilefleet.sqlite3-wal" in foreign_log(database)
    with pytest.raises(DatabaseError, match="the log of another database"):
        Database(f"sqlite:///{database}").upgrade()
    for end in ("-wal", "-shm"):
        database.with_name(f"tilefleet.sqlite3{end}").unlink()
    again = Database(f"sqlite:///{database}")
    again.upgrade()
    again.close()
    assert keys(database) == ["before"]


def test_a_killed_service_starts_again(killed: tuple[Path, Path]) -> None:
    database, _ = killed
    younger(database)
    assert foreign_log(database) == ""
    os.utime(database)
    assert foreign_log(database)
    database.with_name("tilefleet.sqlite3-wal").touch()
    again = Database(f"sqlite:///{database}")
    again.upgrade()
    again.close()
    assert keys(database) == ["after", "before"]


def test_the_commands_of_the_document_save_and_restore_it(killed: tuple[Path, Path]) -> None:
    """Typed as they stand there, but for starting the service."""
    database, backup = killed
    home = database.parent
    (home / "models").mkdir()
    (home / "models" / "a").write_text("new")
    page = (ROOT / "docs/operations.md").read_text()
    environment = {**os.environ, "TILEFLEET_HOME": str(home)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def type_in(heading: str) -> None:
        block = re.search(rf"#+ {heading}\n.*?```\n(.*?)```", page, re.DOTALL)
        assert block is not None
        lines = [line for line in block[1].splitlines() if not line.startswith("tilefleet ")]
        subprocess.run(["bash", "-ec", "\n".join(lines)], env=environment, check=True, cwd=home)

    type_in("Backup")
    saved = home / "backup"
    assert keys(saved / "tilefleet.bak") == ["after", "before"]
    assert [path.name for path in (saved / "models").iterdir()] == ["a"]
    backup.replace(saved / "tilefleet.bak")
    (saved / "models" / "b").write_text("old")
    type_in("Restore")
    again = Database(f"sqlite:///{database}")
    again.upgrade()
    again.close()
    assert keys(database) == ["before"]
    assert {path.name for path in (home / "models").iterdir()} == {"a", "b"}


def test_an_older_version_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tilefleet.sqlite3'}"
    database = Database(url)
    database.upgrade()
    with database.write() as session:
        session.execute(text("update alembic_version set version_num = '9999_future'"))
    with pytest.raises(DatabaseError, match=r"newer Tilefleet.*9999_future.*up to 0\d\d\d.*update this one"):
        database.upgrade()
    database.close()
    with pytest.raises(DatabaseError, match="9999_future"):
        _database(Settings(home=tmp_path, database_url=url))


DAMAGES: list[tuple[str, str]] = [
    ("cut", "is damaged (database disk image is malformed)"),
    ("other", "is damaged (file is not a database)"),
    ("folder", "unable to open database file"),
    ("drop table bandwidths", "lacks bandwidths, which"),
    ("alter table tasks drop column reused", "lacks tasks.reused, which"),
    ("delete from alembic_version", "is damaged (table models already exists)"),
    ("update alembic_version set version_num = '0021'", "is damaged ("),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGES)
def test_a_damaged_database_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, said: str
) -> None:
    file = tmp_path / "tilefleet.sqlite3"
    whole = Database(f"sqlite:///{file}")
    whole.upgrade()
    whole.close()
    if damage == "cut":
        os.truncate(file, 5000)
    elif damage == "other":
        file.write_bytes(b"garbage" * 1000)
    elif damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(damage)
    monkeypatch.setenv("TILEFLEET_HOME", str(tmp_path))
    with pytest.raises(TilefleetError, match=re.escape(said)):
        mend()
    if "alembic_version" not in damage:  # which only a migration meets
        with pytest.raises(DatabaseError, match=re.escape(said)):
            _database(Settings(home=tmp_path))
