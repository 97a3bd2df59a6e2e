"""Every change of a table's configuration beside every write: rows and log are as if the write had come after the
change.

The write is planned before the change and commits behind it. The same write on a table that was changed before tells
the right rows. The log that results has no fault, and its change feed agrees with its rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import DeltaConcurrentModificationException, DeltaError
from tahoe.protocol.changes.column_changes import ColumnChange
from tahoe.protocol.types.schema import LONG
from tahoe.table.commit.draft import Draft
from tahoe.table.verify.check import check_table
from tests.table.builders import memory_env
from tests.table.switches import again, check_values, content, set_to

_names = itertools.count()

VECTORS = {"delta.enableDeletionVectors": "true"}
REWRITING = {"delta.enableDeletionVectors": "false"}


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "n": pa.array([7 * i for i in ids], pa.int32()),
            "day": ["a" if i < 3 else "b" for i in ids],
        }
    )


def changed(change: Callable[[Any], object]) -> Callable[[tahoe.Table], object]:
    def run(table: tahoe.Table) -> None:
        with table.transaction() as changes:
            change(changes)

    return run


def both(*changes: Callable[[tahoe.Table], object]) -> Callable[[tahoe.Table], object]:
    return lambda table: [change(table) for change in changes]


SWITCHES: Mapping[str, Callable[[tahoe.Table], object]] = {
    "vectors on": set_to(delta__enableDeletionVectors="true"),
    "vectors off": set_to(delta__enableDeletionVectors="false"),
    "mapping": set_to(delta__columnMapping__mode="name"),
    "feed on": set_to(delta__enableChangeDataFeed="true"),
    "stamps on": set_to(delta__enableInCommitTimestamps="true"),
    "row ids supported": set_to(delta__feature__rowTracking="supported"),
    "row ids on": set_to(delta__enableRowTracking="true"),
    "append-only": set_to(delta__appendOnly="true"),
    "widening on": set_to(delta__enableTypeWidening="true"),
    "v2 checkpoints": set_to(delta__checkpointPolicy="v2"),
    "vacuum check": set_to(delta__feature__vacuumProtocolCheck="supported"),
    "domains": set_to(delta__feature__domainMetadata="supported"),
    "clustering": changed(lambda changes: changes.cluster_by([("id",)])),
    "partition columns in files": set_to(delta__feature__materializePartitionColumns="supported"),
    "Iceberg": both(
        set_to(delta__enableDeletionVectors="false"),
        set_to(delta__enableIcebergCompatV1="true", delta__columnMapping__mode="name"),
    ),
    "retention": set_to(delta__logRetentionDuration="interval 9 days"),
    "weaker level": set_to(delta__isolationLevel="WriteSerializable"),
    "manifests": set_to(delta__compatibility__symlinkFormatManifest__enabled="true"),
    "constraint that holds": changed(lambda changes: changes.add_constraint("c", "n < 10000")),
    "constraint that breaks": changed(lambda changes: changes.add_constraint("c", "n < 60")),
    "comment": changed(lambda changes: changes.alter_columns([ColumnChange(path=("n",), comment="a number")])),
    "new column": changed(lambda changes: changes.add_columns([pa.field("more", pa.int64())])),
    "wider type": both(
        set_to(delta__enableTypeWidening="true"),
        changed(lambda changes: changes.alter_columns([ColumnChange(path=("n",), type=LONG)])),
    ),
    "NOT NULL": changed(lambda changes: changes.alter_columns([ColumnChange(path=("n",), nullable=False)])),
    "all at once": set_to(
        delta__enableDeletionVectors="true",
        delta__columnMapping__mode="name",
        delta__enableInCommitTimestamps="true",
        delta__enableRowTracking="true",
        delta__enableChangeDataFeed="true",
    ),
}

WRITES: Mapping[str, Callable[[tahoe.Table], object]] = {
    "append": lambda table: table.append(rows(8, 9)),
    "delete": lambda table: table.delete("id = 1"),
    "delete all": lambda table: table.delete(),
    "update": lambda table: table.update({"n": "n + 1"}, "id = 2"),
    "merge": lambda table: (
        table.merge(rows(2, 11), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    ),
    "overwrite": lambda table: table.overwrite(rows(5, 6)),
    "replace": lambda table: table.overwrite(rows(1), filter="id < 3"),
    "optimize": lambda table: table.optimize(),
    "tag": lambda table: table.tag("t"),
}

# What is not run again: it ends with the reason where it cannot go on.
NOT_RUN_AGAIN = {"optimize"}

# Behind these, each write goes on.
HARMLESS = {
    "vectors on",
    "mapping",
    "stamps on",
    "row ids supported",
    "widening on",
    "v2 checkpoints",
    "vacuum check",
    "domains",
}
HARMLESS |= {"clustering", "retention", "comment"}


def made(properties: Mapping[str, str], *, partitioned: bool) -> tahoe.Table:
    table = tahoe.Table(f"memory://behind-{next(_names)}", env=memory_env())
    for ids in ((0, 1, 2), (3, 4)):
        table.append(rows(*ids), properties=properties, partition_by=["day"] if partitioned else None)
    return table


def outcome(write: Callable[[tahoe.Table], object], table: tahoe.Table) -> type[Exception] | None:
    try:
        write(table)
    except DeltaError as error:
        return type(error)
    return None


def beside(
    switch: Callable[[tahoe.Table], object], write: Callable[[tahoe.Table], object], table: tahoe.Table
) -> type[Exception] | None:
    """Run a write, with a change of the table between its last look at the table and its commit."""
    commit, waiting = Draft.commit, [lambda: switch(again(table))]

    def behind(self: Draft, *arguments: Any) -> Any:
        if waiting:
            waiting.pop()()
        return commit(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft, "commit", behind)
        ended = outcome(write, table)
    for rival in waiting:  # the write had nothing to commit
        rival()
    return ended


@pytest.mark.parametrize(
    ("properties", "partitioned"), [(VECTORS, False), (REWRITING, True)], ids=["vectors", "rewriting partitions"]
)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("switch", SWITCHES)
def test_a_write_behind_a_switch_is_as_if_it_had_come_after_it(switch, write, properties, partitioned):
    raced, ordered = (made(properties, partitioned=partitioned) for _ in range(2))
    switched = outcome(SWITCHES[switch], ordered)
    if switched is not None:
        pytest.skip(f"not possible here: {switched.__name__}")
    expected = outcome(WRITES[write], ordered)
    found = beside(SWITCHES[switch], WRITES[write], raced)
    if found is not None and issubclass(found, DeltaConcurrentModificationException):
        assert switch not in HARMLESS
        assert expected is not None or write in NOT_RUN_AGAIN, found
        ordered = made(properties, partitioned=partitioned)
        SWITCHES[switch](ordered)
    else:
        assert found is expected
    assert content(raced) == content(ordered)
    assert [str(fault) for fault in check_table(raced.log)] == []
    check_values(raced)
