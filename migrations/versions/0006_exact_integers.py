"""numerics: jobs of before keep integers exact, which is now what is called exact-integers

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_JOBS = sa.table("jobs", sa.column("numerics", sa.String(16)))


def upgrade() -> None:
    _rename("relaxed", "exact-integers")


def downgrade() -> None:
    _rename("exact-integers", "relaxed")


def _rename(old: str, new: str) -> None:
    op.execute(_JOBS.update().where(_JOBS.c.numerics == old).values(numerics=new))
