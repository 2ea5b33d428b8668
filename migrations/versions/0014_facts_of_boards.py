"""peaks, bandwidths, relayouts: the board that said so

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TABLES = ("peaks", "bandwidths", "relayouts")


def upgrade() -> None:
    for name in TABLES:
        op.add_column(name, sa.Column("board", sa.String(length=100), server_default="", nullable=False))


def downgrade() -> None:
    for name in TABLES:
        op.drop_column(name, "board")
