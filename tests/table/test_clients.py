"""The table of clients against the clients: what they refuse because of a feature, and what they read and write
rightly.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from typer.testing import CliRunner

import tahoe
from tahoe import cli
from tahoe.protocol.configuration.clients import CLIENTS, CLIENTS_BY_NAME, Client
from tahoe.protocol.configuration.features import FEATURES

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


READS: dict[str, Callable[[str], Any]] = {
    "delta-rs": queried,
    "delta-rs-pyarrow": lambda folder: DeltaTable(folder).to_pyarrow_table(),
    "polars": lambda folder: pl.read_delta(folder).to_arrow(),
}
TRIED = [CLIENTS_BY_NAME[name] for name in READS]


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        if not any(
            reason in str(error)
            for reason in ("not yet support", "nsupported table features", "which polars does not support")
        ):
            raise
        return None


@pytest.mark.parametrize("feature", PROPERTIES)
@pytest.mark.parametrize("client", TRIED, ids=lambda client: client.name)
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
    assert "DROP FEATURE deletionVectors" in told.output
    assert (
        '"blocks_reading"'
        in CliRunner().invoke(cli.app, ["clients", str(tmp_path), "--json"], catch_exceptions=False).output
    )


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["clients", *arguments])


@pytest.mark.parametrize(
    ("client", "feature"),
    [
        ("delta-rs", "vacuumProtocolCheck"),
        ("delta-rs-pyarrow", "deletionVectors"),
        ("delta-rs-pyarrow", "v2Checkpoint"),
        ("polars", "v2Checkpoint"),
        ("polars", "vacuumProtocolCheck"),
    ],
)
def test_the_command_makes_a_table_readable_for_a_client(tmp_path, client: str, feature: str) -> None:
    """It told what to drop, and left it to the reader."""
    folder = str(tmp_path)
    table = made(folder, feature)
    assert outcome(lambda: READS[client](folder)) is None
    told = run(folder, "--for", client)
    assert f"DROP FEATURE {feature}" in told.output
    assert feature in told.output
    assert outcome(lambda: READS[client](folder)) is None
    done = run(folder, "--for", client, "--apply")
    assert done.exit_code == 0, done.output
    assert f"dropped: {feature}" in done.output
    assert set(READS[client](folder)["id"].to_pylist()) == set(range(10, 100))
    assert table.count() == 90
    again = " ".join(run(folder, "--for", client, "--apply").output.split())
    assert "nothing dropped: no feature keeps it from reading" in again
    assert "DROP FEATURE checkpointProtection TRUNCATE HISTORY" in again  # what still keeps it from writing


# What keeps Trino from writing a table, and whether --apply drops it.
WRITER_FEATURES = [
    ("domainMetadata", {}, True),
    ("allowColumnDefaults", {}, True),
    ("rowTracking", {"delta.enableRowTracking": "true"}, False),
    ("inCommitTimestamp", {"delta.enableInCommitTimestamps": "true"}, False),
    ("checkpointProtection", {}, False),
]


@pytest.mark.parametrize(("feature", "properties", "is_dropped"), WRITER_FEATURES)
def test_apply_drops_of_the_features_of_writers_those_that_nothing_uses(
    tmp_path, feature: str, properties: dict[str, str], is_dropped: bool
) -> None:
    """It printed the table again, dropped nothing, and said nothing; after `untag` the table could not be written any
    more.
    """
    table = tahoe.Table(str(tmp_path))
    table.append(ROWS, properties={f"delta.feature.{feature}": "supported", **properties})
    done = run(str(tmp_path), "--for", "trino", "--apply")
    told = " ".join(done.output.split())
    assert done.exit_code == 0, done.output
    assert (f"dropped: {feature};" in told) == is_dropped
    assert ("nothing dropped" in told) != is_dropped
    assert (
        f"to write it: ALTER TABLE delta.`{tmp_path}` DROP FEATURE {feature}".replace(" ", "") in told.replace(" ", "")
    ) != is_dropped
    assert table.properties.items() >= properties.items()


def test_after_untag_apply_makes_a_table_writable_again(tmp_path) -> None:
    table = tahoe.Table(str(tmp_path))
    table.append(ROWS)
    table.tag("first")
    assert "nothing dropped" in run(str(tmp_path), "--for", "polars", "--apply").output  # the tag would be lost
    assert [tag.name for tag in table.tags()] == ["first"]
    table.untag("first")
    assert "dropped: domainMetadata" in run(str(tmp_path), "--for", "polars", "--apply").output
    write_deltalake(str(tmp_path), ROWS, mode="append")
    assert table.count() == 200


def test_a_feature_that_only_spark_can_drop_is_left_and_told(tmp_path) -> None:
    folder = str(tmp_path)
    made(folder, "columnMapping")
    done = run(folder, "--for", "polars", "--apply")
    assert done.exit_code == 2
    assert "columnMapping" in done.output
    assert tahoe.Table(folder).count() == 90


def test_a_client_that_is_not_known_is_told_with_those_that_are(tmp_path) -> None:
    made(str(tmp_path), "none")
    for arguments, told in ((["--for", "polar"], "Did you mean polars?"), (["--apply"], "it needs the client")):
        done = run(str(tmp_path), *arguments)
        assert done.exit_code == 2
        assert told in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_has_features_of_the_protocol_and_a_source(client: Client) -> None:
    readers = {feature.name for feature in FEATURES if feature.is_reader_feature}
    assert client.reads_not <= readers
    assert client.writes_not <= {feature.name for feature in FEATURES}
    assert client.misreads <= client.reads_not
    assert client.source.startswith("tried") == (client.name in READS or client.name == "delta-spark")
