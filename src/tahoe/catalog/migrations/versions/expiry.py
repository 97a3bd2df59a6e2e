"""When a folder that was given out for a new table is taken back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("staging_tables", sa.Column("expires_ms", sa.BigInteger))
