"""queue: jobs that wait are nobody's, and are found by what they want

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

QUEUE, LATE = "state = 'queued'", "state = 'queued' AND deadline IS NOT NULL"
ENTRIES = {"ix_jobs_queue": ("wants", sa.text("priority DESC"), "id"), "ix_jobs_late": ("deadline",)}
WHERES = {"ix_jobs_queue": QUEUE, "ix_jobs_late": LATE}
DISTINCT = """select distinct target_key, threads, clock, cast(tags as varchar) as tags from jobs"""
NAME = """update jobs set wants = :wants where target_key = :target_key and threads = :threads
and clock = :clock and cast(tags as varchar) = :tags"""


def upgrade() -> None:
    op.add_column("jobs", sa.Column("wants", sa.String(16), server_default="", nullable=False))
    connection = op.get_bind()
    for row in connection.execute(sa.text(DISTINCT)).mappings().all():
        text = json.dumps([row["target_key"], row["threads"], row["clock"], sorted(json.loads(row["tags"]))])
        wants = hashlib.sha256(text.encode()).hexdigest()[:16]
        connection.execute(sa.text(NAME), {**row, "wants": wants})
    connection.execute(sa.text("update jobs set owner = null, beat = null where state = 'queued'"))
    for name, columns in ENTRIES.items():
        where = sa.text(WHERES[name])
        op.create_index(name, "jobs", list(columns), sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    for name in ENTRIES:
        op.drop_index(name, "jobs")
    op.drop_column("jobs", "wants")
