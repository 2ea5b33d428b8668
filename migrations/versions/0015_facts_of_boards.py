"""peaks, bandwidths, relayouts: the board that said so

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLES = ("peaks", "bandwidths", "relayouts")


def upgrade() -> None:
    for name in TABLES:
        op.add_column(name, sa.Column("board", sa.String(length=100), server_default="", nullable=False))


def downgrade() -> None:
    for name in TABLES:
        op.drop_column(name, "board")
