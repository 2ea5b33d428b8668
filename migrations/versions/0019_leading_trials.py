"""leading trials: those that curves go through are found without reading all others

Revision ID: 0019
Revises: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

LEADS = sa.text("leads")
# Failures, and what is slower than one before it, both by number and in the order in which they ended.
BEHIND = """update trials set leads = false where id in (
    select id from (
        select trials.id as id, ranking_s, min(ranking_s) over (
            partition by task_id, clock, disturbed order by number, trials.id
            rows between unbounded preceding and 1 preceding
        ) as before_it, min(ranking_s) over (
            partition by task_id, clock, disturbed order by trials.id
            rows between unbounded preceding and 1 preceding
        ) as ended_before
        from trials join records on records.id = trials.record_id
    ) as each_one
    where ranking_s is null or (ranking_s >= before_it and ranking_s >= ended_before)
)"""


def upgrade() -> None:
    op.add_column("trials", sa.Column("leads", sa.Boolean, server_default=sa.true(), nullable=False))
    op.execute(BEHIND)
    op.create_index("ix_trials_leads", "trials", ["job_id"], sqlite_where=LEADS, postgresql_where=LEADS)
    op.create_index("ix_trials_task_id_number", "trials", ["task_id", "number"])
    op.create_index("ix_trials_job_id_id", "trials", ["job_id", "id"])
    op.drop_index("ix_trials_job_id", "trials")


def downgrade() -> None:
    op.create_index("ix_trials_job_id", "trials", ["job_id"])
    op.drop_index("ix_trials_job_id_id", "trials")
    op.drop_index("ix_trials_task_id_number", "trials")
    op.drop_index("ix_trials_leads", "trials")
    op.drop_column("trials", "leads")
