"""Giving table features up, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    CheckpointProtectionKeptError,
    ConcurrentWriteException,
    DependentFeatureError,
    FeatureDropWaitsError,
    FeatureInHistoryError,
    FeatureInUseError,
    FeatureNotDroppableError,
    FeatureNotPresentError,
    NoHistoryToTruncateError,
    PropertyNoFeatureError,
    UnknownFeatureError,
)
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.log.actions import Protocol
from tahoe.protocol.log.log_files import Kind
from tahoe.storage.memory import MemoryStore
from tahoe.table.verify.check import check_version
from tests.table.builders import memory_env, put_commit

DAY_MS = 86_400_000
PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        self.now_ms += 1000
        return self.now_ms


def make(clock: Clock | None = None, **properties: str) -> tahoe.Table:
    env = memory_env()
    if clock is not None:
        env = replace(env, store=MemoryStore(env.store.url, clock_ms=clock), clock_ms=clock)
    table = tahoe.Table("memory://given", env=env)
    table.append(
        pa.table({"id": pa.array(range(3), pa.int64())}),
        properties={f"delta.{k.replace('__', '.')}": v for k, v in properties.items()},
    )
    return table


def add(table: tahoe.Table, *features: str) -> None:
    with table.transaction() as changes:
        changes.upgrade_protocol(features=features)


def files_of(table: tahoe.Table) -> list:
    return list(table.snapshot().live.adds())


@pytest.mark.parametrize(
    ("feature", "properties", "left"),
    [
        ("inCommitTimestamp", {"enableInCommitTimestamps": "true"}, (1, 2)),
        ("rowTracking", {"enableRowTracking": "true"}, {"appendOnly", "invariants", "domainMetadata"}),
        ("materializePartitionColumns", {"feature.materializePartitionColumns": "supported"}, (1, 2)),
        ("clustering", {"feature.clustering": "supported"}, {"appendOnly", "invariants", "domainMetadata"}),
        ("appendOnly", {}, {"invariants"}),
        ("allowColumnDefaults", {"feature.allowColumnDefaults": "supported"}, (1, 2)),
        ("changeDataFeed", {"feature.changeDataFeed": "supported"}, (1, 2)),
        ("v2Checkpoint", {"checkpointPolicy": "v2"}, {"appendOnly", "invariants", "checkpointProtection"}),
        (
            "vacuumProtocolCheck",
            {"feature.vacuumProtocolCheck": "supported"},
            {"appendOnly", "invariants", "checkpointProtection"},
        ),
        ("deletionVectors", {"enableDeletionVectors": "true"}, {"appendOnly", "invariants", "checkpointProtection"}),
        ("typeWidening", {"enableTypeWidening": "true"}, {"appendOnly", "invariants", "checkpointProtection"}),
    ],
)
def test_a_feature_goes_with_what_the_table_has_of_it(feature, properties, left):
    table = make(**properties)
    rows = table.to_arrow()
    table.drop_feature(feature.upper())
    snapshot = table.snapshot()
    if isinstance(left, tuple):
        assert snapshot.protocol == Protocol(reader_version=left[0], writer_version=left[1])
    else:
        assert supported_features(snapshot.protocol) == left
        assert snapshot.protocol.reader_version == 1
    expected = (
        {PROTECTED_BEFORE: str(snapshot.version)}
        if "checkpointProtection" in supported_features(snapshot.protocol)
        else {}
    )
    assert dict(snapshot.properties) == expected
    stays = {"delta.rowTracking"} if feature == "rowTracking" else set()  # with the last row id
    assert {domain.domain for domain in snapshot.domains.values() if domain.domain.startswith("delta.")} == stays
    assert table.to_arrow() == rows
    assert list(check_version(snapshot)) == []
    assert table.history(1)[0]["operation"] == "DROP FEATURE"
    assert table.append(pa.table({"id": pa.array([9], pa.int64())})) == snapshot.version + 1


def test_files_lose_their_row_ids_in_the_same_version():
    table = make(enableRowTracking="true")
    version = table.version
    assert files_of(table)[0].base_row_id == 0
    table.drop_feature("rowTracking")
    assert table.version == version + 1
    assert [(file.base_row_id, file.default_row_commit_version) for file in files_of(table)] == [(None, None)]


def test_domains_of_users_go_with_the_feature():
    table = make()
    with table.transaction() as changes:
        changes.set_domain("app", "1")
    with pytest.raises(FeatureInUseError, match="app"), table.transaction() as changes:
        changes.drop_feature("domainMetadata")
    table.drop_feature("domainMetadata")
    assert table.protocol == Protocol(reader_version=1, writer_version=2)
    assert not [domain for domain in table.snapshot().domains.values() if not domain.removed]


@pytest.mark.parametrize(
    ("feature", "error", "words"),
    [
        ("nope", UnknownFeatureError, "columnMapping"),
        ("delta.appendOnly", PropertyNoFeatureError, "UNSET TBLPROPERTIES"),
        ("clustering", FeatureNotPresentError, "domainMetadata"),
        ("domainMetadata", DependentFeatureError, "rowTracking"),
        ("variantShredding", FeatureNotDroppableError, "shredded"),
        ("checkConstraints", FeatureInUseError, "delta.constraints.positive"),
        ("changeDataFeed", FeatureInUseError, "delta.enableChangeDataFeed"),
        ("checkpointProtection", CheckpointProtectionKeptError, "TRUNCATE HISTORY"),
        ("columnMapping", FeatureInUseError, "delta.columnMapping.mode"),
    ],
)
def test_what_cannot_be_dropped_is_told_before_anything_changes(feature, error, words):
    table = make(
        enableRowTracking="true", enableChangeDataFeed="true", enableVariantShredding="true", columnMapping__mode="name"
    )
    with table.transaction() as changes:
        changes.add_constraint("positive", "id >= 0")
    add(table, "checkpointProtection")
    version = table.version
    with pytest.raises(error, match=words):
        table.drop_feature(feature)
    assert table.version == version


def test_files_with_vectors_are_rewritten_without_spark():
    """It was left to Spark, so that whoever has none could not make the table readable for others."""
    table = make(enableDeletionVectors="true")
    with table.transaction() as changes:
        changes.delete("id = 1")
    before = table.to_arrow().sort_by("id")
    assert table.snapshot().has_deletion_vectors
    table.drop_feature("deletionVectors")
    assert not table.snapshot().has_deletion_vectors
    assert "deletionVectors" not in (table.protocol.reader_features or ())
    assert table.to_arrow().sort_by("id") == before


def test_a_history_is_cut_off_once_it_is_old_enough():
    clock = Clock()
    table = make(clock, enableDeletionVectors="true")
    with pytest.raises(NoHistoryToTruncateError):
        table.drop_feature("appendOnly", truncate_history=True)
    with pytest.raises(FeatureDropWaitsError, match="24 hours"):
        table.drop_feature("deletionVectors", truncate_history=True)
    assert "delta.enableDeletionVectors" not in table.properties
    with pytest.raises(FeatureInHistoryError):
        table.drop_feature("deletionVectors", truncate_history=True)
    clock.now_ms += DAY_MS + 60_000
    table.drop_feature("deletionVectors", truncate_history=True)
    assert table.protocol == Protocol(reader_version=1, writer_version=2)
    assert dict(table.properties) == {}
    assert min(file.version for file in table.log.list_files()) > 0
    assert table.to_arrow()["id"].to_pylist() == [0, 1, 2]
    assert list(check_version(table.snapshot())) == []


def test_protected_checkpoints_are_given_up_with_the_history_before_them():
    clock = Clock()
    table = make(clock, enableDeletionVectors="true")
    table.drop_feature("deletionVectors")
    with pytest.raises(FeatureInHistoryError):
        table.drop_feature("checkpointProtection", truncate_history=True)
    clock.now_ms += DAY_MS + 60_000
    table.drop_feature("checkpointProtection", truncate_history=True)
    assert table.protocol == Protocol(reader_version=1, writer_version=2)
    assert dict(table.properties) == {}
    assert table.to_arrow()["id"].to_pylist() == [0, 1, 2]


def test_checkpoints_of_the_second_version_are_history_too():
    clock = Clock()
    table = make(clock, checkpointPolicy="v2")
    table.create_checkpoint()
    with pytest.raises(FeatureDropWaitsError):
        table.drop_feature("v2Checkpoint", truncate_history=True)
    clock.now_ms += DAY_MS + 60_000
    table.drop_feature("v2Checkpoint", truncate_history=True)
    assert {file.kind for file in table.log.list_files() if file.is_checkpoint} == {Kind.CLASSIC_CHECKPOINT}
    assert table.protocol == Protocol(reader_version=1, writer_version=2)


def test_no_other_commit_may_come_between():
    table = make(enableDeletionVectors="true")
    changes = table.transaction()
    changes.unset_properties(["delta.enableDeletionVectors"])
    changes.drop_feature("deletionVectors")
    put_commit(table.env, table.version + 1, [])
    with pytest.raises(ConcurrentWriteException):
        changes.commit()
