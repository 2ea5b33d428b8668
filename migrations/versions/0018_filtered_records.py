"""filtered records: an index for each fact that lists are filtered by

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

FACTS = {"clock": "(clock || '')", "kernel": "(kernel || '')", "threads": "(threads + 0)"}


def upgrade() -> None:
    for fact, expression in FACTS.items():
        op.create_index(f"ix_records_of_{fact}", "records", [sa.text(expression), "id"])


def downgrade() -> None:
    for fact in FACTS:
        op.drop_index(f"ix_records_of_{fact}", "records")
