"""The database of a catalog: what is kept of schemas, tables, views, ratified commits, and of those who may use them.

`properties` and `columns` are JSON.
"""

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
    sa.Column("properties", sa.Text),
    sa.Column("owner", sa.String(NAME_LENGTH_MAX)),
    sa.Column("created_ms", sa.BigInteger),
)

# Kinds of tables are `managed` and `external`. Views are among them, because they share their names and grants.
VIEW = "view"

# `latest_version` decides who owns the next version: it moves by one, or not at all. Columns, properties and comment of
# a managed table are those of `described_version`.
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
    sa.Column("properties", sa.Text),
    sa.Column("columns", sa.Text),
    sa.Column("described_version", sa.BigInteger),
    sa.Column("owner", sa.String(NAME_LENGTH_MAX)),
    sa.Column("view", sa.Text),
    sa.UniqueConstraint("schema_id", "name"),
)

IS_TABLE = TABLES.c.kind != VIEW

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

# Folders that were given out for new tables, whose first version their makers write; and the ids of tables that have no
# name, by which they are registered again. Only the former expire.
STAGING_TABLES = sa.Table(
    "staging_tables",
    METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("schema_id", sa.String(36), sa.ForeignKey("schemas.id", ondelete="CASCADE"), nullable=False),
    sa.Column("name", sa.String(NAME_LENGTH_MAX), nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("owner", sa.String(NAME_LENGTH_MAX)),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("expires_ms", sa.BigInteger),
)

# One row, from which clients know the catalog again.
IDENTITY = sa.Table("identity", METADATA, sa.Column("id", sa.String(36), primary_key=True))

PRINCIPALS = sa.Table(
    "principals",
    METADATA,
    sa.Column("name", sa.String(NAME_LENGTH_MAX), primary_key=True),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
)

# Tokens themselves are not kept.
TOKENS = sa.Table(
    "tokens",
    METADATA,
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column(
        "principal",
        sa.String(NAME_LENGTH_MAX),
        sa.ForeignKey("principals.name", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("expires_ms", sa.BigInteger),
)

# `securable` is the id of a schema or a table, and empty for the catalog.
GRANTS = sa.Table(
    "grants",
    METADATA,
    sa.Column(
        "principal",
        sa.String(NAME_LENGTH_MAX),
        sa.ForeignKey("principals.name", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("securable", sa.String(36), primary_key=True),
    sa.Column("privilege", sa.String(32), primary_key=True),
)
