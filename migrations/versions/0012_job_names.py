"""job names: what people call their jobs, the labels on them, who submitted them and by which version

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# As the column that it refers to: SQLite counts rows only in one that is exactly INTEGER.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LENGTHS = {"name": 200, "submitter": 200, "version": 64}


def upgrade() -> None:
    for name, length in LENGTHS.items():
        op.add_column("jobs", sa.Column(name, sa.String(length=length), server_default="", nullable=False))
    op.create_table(
        "job_labels",
        sa.Column("job_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("label", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_labels_job_id_jobs"),
        sa.PrimaryKeyConstraint("job_id", "label", name="pk_job_labels"),
    )
    op.create_index("ix_job_labels_label", "job_labels", ["label"])
    op.create_table(
        "deleted_jobs",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("deleted", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deleted_jobs"),
    )


def downgrade() -> None:
    op.drop_table("deleted_jobs")
    op.drop_table("job_labels")
    for name in LENGTHS:
        op.drop_column("jobs", name)
