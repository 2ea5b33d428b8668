"""no Winograd of floats is exact any more

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


def upgrade() -> None:
    records = sa.table("records", sa.column("kernel"), sa.column("exact", sa.Boolean()))
    op.execute(
        records.update().where(records.c.kernel.in_(("winograd", "winograd_lines"))).values(exact=False)
    )


def downgrade() -> None:
    """Which were exact is not kept: an older version tries them again."""
