"""recommended trials: those of the untuned model's and the analysis's configs, which logs of the best keep

Revision ID: 0023
Revises: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

IS = sa.text("recommended")


def upgrade() -> None:
    op.add_column("trials", sa.Column("recommended", sa.Boolean, server_default=sa.false(), nullable=False))
    # Of older trials only these are known to be.
    op.execute("update trials set recommended = true where number = 0")
    op.create_index("ix_trials_recommended", "trials", ["record_id"], sqlite_where=IS, postgresql_where=IS)


def downgrade() -> None:
    op.drop_index("ix_trials_recommended", "trials")
    op.drop_column("trials", "recommended")
