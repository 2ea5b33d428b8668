"""numerics: of jobs, and which records are of exact configs

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

EXACT_KERNELS = ("sconv", "sconv_mma", "fconv", "gemm", "grouped")
BATCH = 1000


def upgrade() -> None:
    # Not in batch mode: that would drop a table which others refer to. SQLite alters columns itself.
    numerics = sa.Column("numerics", sa.String(length=16), server_default="relaxed", nullable=False)
    op.add_column("jobs", numerics)
    op.add_column("records", sa.Column("exact", sa.Boolean(), server_default=sa.false(), nullable=False))
    records = sa.table("records", sa.column("id"), sa.column("kernel"), sa.column("exact", sa.Boolean()))
    op.execute(records.update().where(records.c.kernel.in_(EXACT_KERNELS)).values(exact=True))
    connection, after = op.get_bind(), 0
    winograd = sa.text(
        "SELECT r.id, r.document, w.document FROM records r JOIN workloads w ON w.key = r.workload_key "
        "WHERE r.kernel = 'winograd' AND r.id > :after ORDER BY r.id LIMIT :batch"
    )
    while found := connection.execute(winograd, {"after": after, "batch": BATCH}).all():
        exact = [id_ for id_, record, workload in found if _is_exact(_read(record), _read(workload))]
        op.execute(records.update().where(records.c.id.in_(exact)).values(exact=True))
        after = found[-1][0]


def downgrade() -> None:
    op.drop_column("records", "exact")
    op.drop_column("jobs", "numerics")


def _read(document: Any) -> Any:
    """SQLite gives JSON as text, PostgreSQL as a value."""
    return json.loads(document) if isinstance(document, str) else document


def _is_exact(record: dict[str, Any], workload: dict[str, Any]) -> bool:
    """At most the three finite points of F(2x2, 3x3)."""
    m, taps, stride = record["config"].get("m"), workload.get("kh"), workload.get("stride")
    return isinstance(m, int) and taps is not None and m - (-taps // stride[0]) - 2 <= 3
