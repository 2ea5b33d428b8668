"""sorted records: the rate, and an index for each list that is sorted or filtered

Revision ID: 0017
Revises: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

BY = ("ranking_s", "rate")
FIRST: tuple[tuple[str, ...], ...] = ((), ("kernel",), ("target_key",))


def upgrade() -> None:
    op.add_column("records", sa.Column("rate", sa.Float(53)))
    op.execute(
        "UPDATE records SET rate = (SELECT flops FROM workloads WHERE workloads.key = records.workload_key)"
        " / ranking_s WHERE ranking_s > 0"
    )
    op.create_index("ix_records_workload_key_id", "records", ["workload_key", "id"])
    for by in BY:
        some = sa.text(f"{by} IS NOT NULL")
        for first in FIRST:
            op.create_index(
                f"ix_records_{'_'.join((*first, by))}",
                "records",
                [*first, by, "id"],
                sqlite_where=some,
                postgresql_where=some,
            )
    failed = sa.text("error IS NOT NULL")
    op.create_index(
        "ix_records_failed", "records", ["id", "error"], sqlite_where=failed, postgresql_where=failed
    )


def downgrade() -> None:
    names = [f"ix_records_{'_'.join((*first, by))}" for by in BY for first in FIRST]
    for name in (*names, "ix_records_workload_key_id", "ix_records_failed"):
        op.drop_index(name, "records")
    op.drop_column("records", "rate")
