"""What a server needs besides: descriptions, owners, staging tables, principals, tokens and grants."""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for table, names in (("schemas", ("created_ms",)), ("tables", ("described_version",))):
        op.add_column(table, sa.Column("properties", sa.Text))
        op.add_column(table, sa.Column("owner", sa.String(255)))
        for name in names:
            op.add_column(table, sa.Column(name, sa.BigInteger))
    op.add_column("tables", sa.Column("columns", sa.Text))
    op.create_table(
        "staging_tables",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("schema_id", sa.String(36), sa.ForeignKey("schemas.id", ondelete="CASCADE"), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("owner", sa.String(255)),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "principals",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    principal = "principal", sa.String(255), sa.ForeignKey("principals.name", ondelete="CASCADE")
    op.create_table(
        "tokens",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column(*principal, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger),
    )
    op.create_table(
        "grants",
        sa.Column("principal", sa.String(255), sa.ForeignKey("principals.name", ondelete="CASCADE"), primary_key=True),
        sa.Column("securable", sa.String(36), primary_key=True),
        sa.Column("privilege", sa.String(32), primary_key=True),
    )
    identity = op.create_table("identity", sa.Column("id", sa.String(36), primary_key=True))
    op.bulk_insert(identity, [{"id": str(uuid.uuid4())}])
