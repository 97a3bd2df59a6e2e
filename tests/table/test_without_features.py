"""Properties that another writer set, and whose features the protocol does not list: they say nothing, to whatever part
asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ChangesNotRecordedError, SchemaMismatchError
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.configuration.properties import PROPERTIES, FeatureProperty
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.schema import INTEGER, STRING, Field, Struct
from tahoe.table.log.delta_log import Log
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.verify.check import check_version
from tests.table.builders import PROTOCOL, memory_env, put_commit

SCHEMA = Struct((Field(name="id", type=INTEGER),))
ON = {
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.inCommitTimestampEnablementVersion": "0",
    "delta.enableChangeDataFeed": "true",
    "delta.enableRowTracking": "true",
    "delta.enableTypeWidening": "true",
    "delta.checkpointPolicy": "v2",
    "delta.columnMapping.mode": "name",
    "delta.appendOnly": "true",
    "delta.requireCheckpointProtectionBeforeVersion": "1000",
}
NO_FEATURES = Protocol(reader_version=1, writer_version=7, writer_features=frozenset())


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int32())})


@pytest.fixture(params=[NO_FEATURES, PROTOCOL], ids=["writer 7", "writer 2"])
def table(request: pytest.FixtureRequest) -> tahoe.Table:
    env = memory_env()
    configuration = {k: v for k, v in ON.items() if k != "delta.appendOnly" or request.param is NO_FEATURES}
    metadata = Metadata(id="t", schema_string=SCHEMA.to_json(), configuration=configuration)
    put_commit(env, 0, [request.param, metadata])
    table = tahoe.Table(env.store.url, env=env)
    table.append(ids(1, 2, 3))
    return table


def test_rows_are_deleted_without_vectors_that_old_readers_do_not_look_at(table: tahoe.Table) -> None:
    with table.transaction() as changes:
        changes.delete("id = 2")
    assert not table.snapshot().has_deletion_vectors
    assert table.to_arrow().column("id").to_pylist() == [1, 3]
    assert list(check_version(table.snapshot())) == []


def test_commits_have_no_timestamps_of_their_own_and_none_are_asked_for(table: tahoe.Table) -> None:
    base = table.snapshot()
    put_commit(table.env, 2, [])  # another writer's
    with table.transaction() as changes:  # behind it
        changes.append(ids(4))
    late = tahoe.Table(base.url, env=table.env)
    with late.transaction() as changes:
        put_commit(table.env, late.version + 1, [])
        changes.append(ids(5))
    infos = [table.log.commit_info(version) for version in range(1, table.version + 1)]
    assert all(info is None or info.in_commit_timestamp_ms is None for info in infos)
    assert [commit["version"] for commit in table.history()] == [*range(table.version, -1, -1)]
    assert table.snapshot(timestamp=table.history()[0]["timestamp"]).version == table.version
    assert list(check_version(table.snapshot())) == []


def test_other_rules_are_not_followed_either(table: tahoe.Table) -> None:
    snapshot = table.snapshot()
    assert snapshot.row_tracking is None
    assert snapshot.column_mapping_mode == "none"
    assert [add.base_row_id for add in snapshot.live.adds()] == [None]
    with pytest.raises(ChangesNotRecordedError, match="not enabled at version 1"):
        table.changes(start_version=1)
    with pytest.raises(SchemaMismatchError, match="id is int64, but integer in the table"):
        table.append(pa.table({"id": pa.array([2**40], pa.int64())}), merge_schema=True)


def test_a_new_column_asks_for_no_feature_and_no_names_of_row_ids(table: tahoe.Table) -> None:
    before = table.snapshot()
    table.append(pa.table({"id": pa.array([4], pa.int32()), "new": ["x"]}), merge_schema=True)
    assert table.protocol == before.protocol
    assert table.properties.items() <= before.properties.items()


CHANGES: dict[str, Callable[[TransactionBuilder], None]] = {
    "column": lambda changes: changes.add_columns([pa.field("new", pa.string())]),
    "schema": lambda changes: changes.set_schema(Struct((*SCHEMA, Field(name="new", type=STRING)))),
    "constraint": lambda changes: changes.add_constraint("c", "id > 0"),
    "property": lambda changes: changes.set_properties({"owner": "me"}),
    "switch": lambda changes: changes.set_properties({"delta.checkpoint.writeStatsAsJson": "true"}),
    "domain": lambda changes: changes.set_domain("mine", "x"),
    "clustering": lambda changes: changes.cluster_by([("id",)]),
    "versions": lambda changes: changes.upgrade_protocol(3, 7),
    "feature": lambda changes: changes.upgrade_protocol(features=["timestampNtz"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_changes_of_the_table_do_not_ask_for_these_features(table: tahoe.Table, change: str) -> None:
    """Column mapping without ids and physical names, or row ids without columns for them, would be illegal."""
    with table.transaction() as changes:
        CHANGES[change](changes)
    features = supported_features(table.protocol)
    assert features <= {"appendOnly", "invariants", "checkConstraints", "domainMetadata", "clustering", "timestampNtz"}
    assert (table.snapshot().column_mapping_mode, table.snapshot().row_tracking) == ("none", None)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_feature_that_is_asked_for_is_complete(table: tahoe.Table, is_named: bool) -> None:
    """The property that says how it is used is there already."""
    with table.transaction() as changes:
        if is_named:
            changes.upgrade_protocol(features=["columnMapping", "rowTracking"])
        else:
            changes.set_properties({"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"})
    snapshot = table.snapshot()
    assert snapshot.schema.fields[0].metadata == {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}
    assert snapshot.row_tracking is not None
    assert snapshot.row_tracking.row_id_column
    assert [add.base_row_id for add in snapshot.live.adds()] == [0]
    assert table.to_arrow().column("id").to_pylist() == [1, 2, 3]


def test_checkpoints_are_classic_and_none_is_protected(table: tahoe.Table) -> None:
    table.create_checkpoint()
    log = Log(table.env)
    assert [file.name for file in log.list_files() if file.is_checkpoint] == [f"{1:020}.checkpoint.parquet"]
    table.append(ids(4))
    table.create_checkpoint()
    future = replace(table.env, clock_ms=lambda: 4_000_000_000_000)
    assert tahoe.Table(table.url, env=future).cleanup_metadata() > 0


def test_every_switch_of_a_feature_is_set_here_or_belongs_to_one_that_is_refused_or_optional() -> None:
    """So that a new one is thought of."""
    refused_or_optional = {"delta.enableVariantShredding", "delta.enableMaterializePartitionColumnsFeature"}
    refused_or_optional |= {"delta.rowTrackingSuspended", *(f"delta.enableIcebergCompatV{n}" for n in (1, 2, 3))}
    switches = {p.name for p in PROPERTIES if isinstance(p, FeatureProperty)}
    assert switches == (ON.keys() & switches) | refused_or_optional
