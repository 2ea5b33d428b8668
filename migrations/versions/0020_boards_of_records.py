"""boards of records: what a board has measured is found without reading all records

Revision ID: 0020
Revises: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

PLACED = sa.text("placed")
FILL = {
    "sqlite": """update records set
        board = coalesce(substr(json_extract(document, '$.board'), 1, 200), ''),
        placed = json_extract(document, '$.placed_s') is not null
        where case when json_valid(document) then json_type(document) = 'object' else false end""",
    "postgresql": """update records set
        board = coalesce(left(document ->> 'board', 200), ''),
        placed = document ->> 'placed_s' is not null
        where json_typeof(document) = 'object'""",
}


def upgrade() -> None:
    op.add_column("records", sa.Column("board", sa.String(200), server_default="", nullable=False))
    op.add_column("records", sa.Column("placed", sa.Boolean, server_default=sa.false(), nullable=False))
    op.execute(FILL[op.get_bind().dialect.name])
    op.create_index("ix_records_board_id", "records", ["board", "id"])
    op.create_index(
        "ix_records_placed", "records", ["target_key", "id"], sqlite_where=PLACED, postgresql_where=PLACED
    )


def downgrade() -> None:
    op.drop_index("ix_records_placed", "records")
    op.drop_index("ix_records_board_id", "records")
    op.drop_column("records", "placed")
    op.drop_column("records", "board")
