"""Alembic's entry: runs over the caller's connection, or over the configured database from a shell."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from server.db.database import Database
from server.db.tables import Base
from server.settings import Settings


def _run(connection: Connection) -> None:
    # Batch mode copies a table where SQLite cannot alter it.
    context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    with Database(Settings().database).engine.begin() as connection:
        _run(connection)
