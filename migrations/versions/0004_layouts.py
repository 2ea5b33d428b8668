"""layouts: what the config of a record reads and writes, and what converting takes

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

BATCH = 1000
BEST = ["workload_key", "target_key", "clock", "threads"]


def upgrade() -> None:
    # Not in batch mode: that would drop a table which others refer to.
    layouts = sa.Column("layouts", sa.String(length=64), server_default="nchw", nullable=False)
    op.add_column("records", layouts)
    op.drop_index("ix_records_best", "records")
    _index([*BEST, "layouts", "ranking_s"])
    op.create_table(
        "relayouts",
        sa.Column("target_key", sa.String(length=16), nullable=False),
        sa.Column("threads", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("clock", sa.String(length=100), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["target_key"], ["targets.key"], name="fk_relayouts_target_key_targets"),
        sa.PrimaryKeyConstraint("target_key", "threads", "clock", name="pk_relayouts"),
    )
    records = sa.table("records", sa.column("id"), sa.column("layouts"))
    page = sa.text("SELECT id, document FROM records WHERE id > :after ORDER BY id LIMIT :batch")
    connection, after = op.get_bind(), 0
    while found := connection.execute(page, {"after": after, "batch": BATCH}).all():
        for id_, document in found:
            if (words := _layouts(_read(document)["config"])) != "nchw":
                op.execute(records.update().where(records.c.id == id_).values(layouts=words))
        after = found[-1][0]


def downgrade() -> None:
    op.drop_table("relayouts")
    op.drop_index("ix_records_best", "records")
    _index([*BEST, "ranking_s"])
    op.drop_column("records", "layouts")


def _index(columns: list[str]) -> None:
    ran = sa.text("ranking_s IS NOT NULL")
    op.create_index("ix_records_best", "records", columns, sqlite_where=ran, postgresql_where=ran)


def _read(document: Any) -> Any:
    """SQLite gives JSON as text, PostgreSQL as a value."""
    return json.loads(document) if isinstance(document, str) else document


def _layouts(config: dict[str, Any]) -> str:
    data, out = config.get("data", "nchw"), config.get("out", "nchw")
    return f"{data}" if data == out else f"{data}>{out}"
