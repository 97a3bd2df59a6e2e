"""The database of a catalog: what is kept of schemas, tables and ratified commits."""

from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()

NAME_LENGTH_MAX = 255

SCHEMAS = sa.Table(
    "schemas",
    METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(NAME_LENGTH_MAX), nullable=False, unique=True),
    sa.Column("comment", sa.Text),
)

# `latest_version` decides who owns the next version: it moves by one, or not at all.
TABLES = sa.Table(
    "tables",
    METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("schema_id", sa.String(36), sa.ForeignKey("schemas.id"), nullable=False),
    sa.Column("name", sa.String(NAME_LENGTH_MAX), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("comment", sa.Text),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("latest_version", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("schema_id", "name"),
)

# Ratified commits that may not have been published yet.
COMMITS = sa.Table(
    "commits",
    METADATA,
    sa.Column("table_id", sa.String(36), sa.ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("file", sa.String(NAME_LENGTH_MAX), nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("modified_ms", sa.BigInteger, nullable=False),
)
