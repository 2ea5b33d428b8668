"""boards of deliveries: what a built model takes belongs to the board that said so

Revision ID: 0021
Revises: 0020
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("delivered_by", sa.String(100), server_default="", nullable=False))


def downgrade() -> None:
    op.drop_column("jobs", "delivered_by")
