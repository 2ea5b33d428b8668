"""imported: which records another lab has measured, and so rank behind those that were measured here

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

SEARCH = ["workload_key", "target_key", "clock", "threads", "layouts"]


def upgrade() -> None:
    # Not in batch mode: that would drop a table which others refer to.
    op.add_column("records", sa.Column("imported", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.drop_index("ix_records_best", "records")
    _index([*SEARCH, "imported", "disturbed", "ranking_s"])


def downgrade() -> None:
    op.drop_index("ix_records_best", "records")
    _index([*SEARCH, "disturbed", "ranking_s"])
    op.drop_column("records", "imported")


def _index(columns: list[str]) -> None:
    ran = sa.text("ranking_s IS NOT NULL")
    op.create_index("ix_records_best", "records", columns, sqlite_where=ran, postgresql_where=ran)
