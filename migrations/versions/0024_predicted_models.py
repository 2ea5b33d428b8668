"""predicted models: what each layer, and the rest of a job's model, are predicted to take

Revision ID: 0024
Revises: 0023
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("predicted_s", sa.Float))
    op.add_column("jobs", sa.Column("others_s", sa.Float, server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("jobs", "others_s")
    op.drop_column("tasks", "predicted_s")
