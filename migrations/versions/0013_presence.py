"""presence: how long boards were watched and in service, by day

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

COLUMNS = ("watched_s", "in_service_s")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("board_days", sa.Column(name, sa.Float(53), server_default="0", nullable=False))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("board_days", name)
