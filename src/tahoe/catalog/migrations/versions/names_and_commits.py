"""Schemas, tables, and ratified commits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "schemas",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("comment", sa.Text),
    )
    op.create_table(
        "tables",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("schema_id", sa.String(36), sa.ForeignKey("schemas.id"), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("comment", sa.Text),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("latest_version", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("schema_id", "name"),
    )
    op.create_table(
        "commits",
        sa.Column("table_id", sa.String(36), sa.ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("file", sa.String(255), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("modified_ms", sa.BigInteger, nullable=False),
    )
