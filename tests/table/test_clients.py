"""The table of clients against the clients: what they refuse because of a feature, and what they read and write rightly."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from typer.testing import CliRunner

import tahoe
from tahoe import cli
from tahoe.protocol.clients import CLIENTS, Client

PROPERTIES = {
    "none": {},
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "columnMapping": {"delta.columnMapping.mode": "name"},
    "v2Checkpoint": {"delta.checkpointPolicy": "v2"},
    "changeDataFeed": {"delta.enableChangeDataFeed": "true"},
    "rowTracking": {"delta.enableRowTracking": "true"},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "typeWidening": {"delta.enableTypeWidening": "true"},
    "icebergCompatV1": {"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"},
    "vacuumProtocolCheck": {"delta.feature.vacuumProtocolCheck": "supported"},
    "checkpointProtection": {"delta.feature.checkpointProtection": "supported"},
    "allowColumnDefaults": {"delta.feature.allowColumnDefaults": "supported"},
    "domainMetadata": {"delta.feature.domainMetadata": "supported"},
    "timestampNtz": {},
    "checkConstraints": {},
    "clustering": {},
}
ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


def made(folder: str, feature: str) -> tahoe.Table:
    """A table with the feature, of which rows were deleted, and with a checkpoint."""
    table = tahoe.Table(folder)
    local = pa.array([dt.datetime(2026, 1, 1)] * 100, pa.timestamp("us"))
    table.append(ROWS.append_column("at", local) if feature == "timestampNtz" else ROWS, properties=PROPERTIES[feature])
    with table.transaction() as changes:
        if feature == "checkConstraints":
            changes.add_constraint("positive", "id >= 0")
        if feature == "clustering":
            changes.cluster_by(["id"])
    table.delete("id < 10")
    table.create_checkpoint()
    return table


def queried(folder: str) -> pa.Table:
    return pa.table(QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT * FROM t").read_all())


READS: dict[str, Callable[[str], Any]] = {"delta-rs": queried, "delta-rs-pyarrow": lambda folder: DeltaTable(folder).to_pyarrow_table()}


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        if not any(reason in str(error) for reason in ("not yet support", "nsupported table features")):
            raise
        return None


@pytest.mark.parametrize("feature", PROPERTIES)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_reads_and_writes_what_the_table_of_clients_says(tmp_path, client: Client, feature: str) -> None:
    """The README's table and `tahoe clients` would promise what does not work, or warn of what does."""
    folder = str(tmp_path)
    table = made(folder, feature)
    blocks_reading, blocks_writing = client.blocked(table.protocol)
    rows = outcome(lambda: READS[client.name](folder))
    is_misread = bool(client.misreads.intersection(blocks_reading))
    assert (rows is None) == (bool(blocks_reading) and not is_misread)
    if rows is not None:
        assert (set(rows["id"].to_pylist()) == set(range(10, 100))) == (not is_misread)
    written = outcome(lambda: write_deltalake(folder, table.to_arrow().slice(0, 1), mode="append") or True)
    assert written or blocks_reading or blocks_writing
    assert table.count() == (91 if written else 90)


def test_the_command_names_the_features_and_the_statements(tmp_path) -> None:
    made(str(tmp_path), "deletionVectors")
    told = CliRunner().invoke(cli.app, ["clients", str(tmp_path)], catch_exceptions=False)
    assert told.exit_code == 0
    assert "no: deletionVectors" in told.output
    assert "DROP FEATURE deletionVectors TRUNCATE HISTORY" in told.output
    assert '"blocks_reading"' in CliRunner().invoke(cli.app, ["clients", str(tmp_path), "--json"], catch_exceptions=False).output
