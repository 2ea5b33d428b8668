"""The bench of the best-config query, small."""

from __future__ import annotations

from pathlib import Path

from bench.best_config import fill, measure
from server.db.database import Database


def test_the_query_is_served_by_the_index(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path / 'test.sqlite3'}")
    db.upgrade()
    keys = fill(db, 3000)
    figures = measure(db, keys, 50)
    db.close()
    assert len(keys) == 3
    assert figures["p99_ms"] >= figures["median_ms"] > 0
    plan = " ".join(figures["plan"])
    assert "USING INDEX ix_records_best" in plan
    assert "TEMP B-TREE" not in plan
    assert "SCAN" not in plan
