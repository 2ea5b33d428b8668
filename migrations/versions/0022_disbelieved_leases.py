"""disbelieved leases: what a board said before its word was taken back is not stored after that

Revision ID: 0022
Revises: 0021
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("boards", sa.Column("disbelieved", sa.BigInteger(), server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("boards", "disbelieved")
