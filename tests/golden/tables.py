"""Where the tables that other writers made are, and how to read their expected rows.

The folder is given by TAHOE_GOLDEN, or is `../shared/golden` beside the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FOLDER = Path(os.environ.get("TAHOE_GOLDEN") or Path(__file__).parents[3] / "shared" / "golden")

# Each of these breaks the protocol, and must be refused with an error that says how.
REFUSED = {
    "deltalog-invalid-protocol-version": "DELTA_INVALID_PROTOCOL_VERSION",
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": "DELTA_STATE_RECOVER_ERROR",
    "deltalog-state-reconstruction-without-metadata": "DELTA_STATE_RECOVER_ERROR",
    "versions-not-contiguous": "DELTA_VERSIONS_NOT_CONTIGUOUS",
}

# Written on a machine in this zone, with timestamps that do not say so.
ZONES = {"data-reader-partition-values": "America/Los_Angeles"}


def require_folder() -> None:
    """Skip loudly where the tables are not there; fail where a continuous integration run says that they must be."""
    if FOLDER.is_dir():
        return
    message = f"the golden tables are not at {FOLDER}: set TAHOE_GOLDEN to the folder that holds them"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def names_with_expected_rows() -> list[str]:
    return sorted(p.parent.name for p in FOLDER.glob("*/expected"))


def path(name: str) -> str:
    return str(FOLDER / name / "delta")


def expected_rows(name: str) -> pa.Table:
    """The expected rows as their own Parquet files have them, INT96 timestamps in microseconds."""
    files = sorted((FOLDER / name / "expected").rglob("*.parquet"))
    tables = [pq.ParquetFile(f, coerce_int96_timestamp_unit="us").read() for f in files]
    return pa.concat_tables(tables)


def sortable(rows: list[dict[str, object]]) -> list[str]:
    """Rows as texts in one order, to compare tables whose rows have none."""
    return sorted(repr(_plain(row)) for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key.lower() if isinstance(key, str) else key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value != value:
        return "NaN"
    return value
