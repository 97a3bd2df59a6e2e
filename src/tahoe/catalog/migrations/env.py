"""Alembic's entry: runs migrations on the connection that `database.upgrade` gives."""

from __future__ import annotations

from alembic import context

from tahoe.catalog.tables_of_database import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
