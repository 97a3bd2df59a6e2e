"""What the numbers of a table were assigned to, over its whole history, and operations that may assign one again."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

import tahoe
from tahoe.errors import DeltaError
from tahoe.protocol.changes.column_changes import NewColumn
from tahoe.protocol.changes.column_values import Identity, identity_columns
from tahoe.protocol.configuration.column_mapping import MAX_COLUMN_ID, column_id, physical_name
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.configuration.row_tracking import DOMAIN as ROW_TRACKING
from tahoe.protocol.configuration.row_tracking import high_water_mark
from tahoe.protocol.log.actions import Action, Add, CommitInfo, DomainMetadata, Metadata, Txn
from tahoe.protocol.statistics.stats import num_records_of
from tahoe.protocol.types.schema import LONG, STRING, Field, Struct, walk_fields
from tahoe.storage.env import Env
from tahoe.table.commit.post_commit_hooks import clean_log
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.verify.check import check_table
from tahoe.table.writing.planning import create_table
from tahoe.table.writing.write_request import WriteRequest
from tests.table.builders import memory_env

IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
COLUMNS = Struct(
    (Field(name="id", type=LONG), Field(name="k", type=LONG, metadata=IDENTITY), Field(name="p", type=STRING))
)
CREATED = "CREATE OR REPLACE TABLE"

MAPPED = {"delta.columnMapping.mode": "name"}
TRACKED = {"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "false"}


class NumbersOfLog:
    """The law of a log: a number once assigned under one table id is never assigned to anything else.

    Versions are looked at as they come, so that those are known, too, that are cleaned up later. A clone brings the
    column ids of its source; what the table itself assigns later is another number.
    """

    def __init__(self) -> None:
        self.version = -1
        self.faults: list[str] = []
        self._table = ""
        self._column_ids: dict[int, set[str]] = defaultdict(set)
        self._max_column_id = 0
        self._row_ids: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
        self._highest_row_id = self._mark = -1
        self._txns: dict[str, int] = {}
        self._stamp_ms = -1
        self._declared: list[int] = []
        self._identity: dict[tuple[int, str], set[int]] = defaultdict(set)
        self._columns: dict[str, Identity] = {}

    def look(self, log: Log, until: int) -> list[str]:
        """The faults of the versions up to this one, that were not looked at before."""
        for version in range(self.version + 1, until + 1):
            actions = list(log.read_version(version))
            info = next((a for a in actions if isinstance(a, CommitInfo)), CommitInfo({}))
            self.version, self._operation = version, str(info.fields.get("operation"))
            self._declared.append(declaration(info, self._declared))
            for action in sorted(actions, key=lambda a: isinstance(a, DomainMetadata)):
                self._look_at(action, log)
            self._look_at_time(info)
        return self.faults

    def _is(self, fact: bool, text: str) -> None:
        if not fact:
            self.faults.append(f"version {self.version}, {self._operation}: {text}")

    def _look_at(self, action: Action, log: Log) -> None:
        match action:
            case Metadata():
                self._is(self._table in ("", action.id), "the table has another id")
                self._table = action.id
                self._look_at_columns(action)
                self._look_at_identity(action)
            case Add():
                self._look_at_file(log.canonical(action.path), action)
            case DomainMetadata(domain=domain, removed=False) if domain == ROW_TRACKING:
                mark = high_water_mark(action)
                self._is(
                    mark >= max(self._mark, self._highest_row_id),
                    f"the mark of row ids is {mark}, and was {self._mark}",
                )
                self._mark = mark
            case Txn():
                before = self._txns.get(action.app_id, action.version)
                self._is(action.version >= before, f"{action.app_id} is at {action.version}, and was at {before}")
                self._txns[action.app_id] = action.version
            case _:
                pass

    def _look_at_columns(self, metadata: Metadata) -> None:
        there = {
            number: physical_name(column)
            for _, column in walk_fields(metadata.schema)
            if (number := column_id(column)) is not None
        }
        for number, name in there.items():
            known = self._column_ids[number]
            self._is(
                self._operation == "CLONE" or not known or name in known,
                f"column {name} has the id {number} of {known}",
            )
        for number, name in there.items():
            self._column_ids[number].add(name)
        highest = int(metadata.configuration.get(MAX_COLUMN_ID, "0"))
        self._is(
            highest >= max([self._max_column_id, *there]), f"maxColumnId is {highest}, and was {self._max_column_id}"
        )
        self._max_column_id = max(self._max_column_id, highest)

    def _look_at_identity(self, metadata: Metadata) -> None:
        """What a write moves a mark over are new values."""
        there = dict(identity_columns(metadata.schema))
        columns = {physical_name(column): there[column.name] for column in metadata.schema if column.name in there}
        for name, now in columns.items():
            before = self._columns.get(name)
            if (
                self._operation == "WRITE"
                and before is not None
                and now.high_water_mark not in (None, before.high_water_mark)
            ):
                values = set(range(before.next, now.high_water_mark + now.step, now.step))
                assigned = self._identity[self._declared[-1], name]
                self._is(not values & assigned, f"the column {name} has the values {sorted(values & assigned)} again")
                assigned.update(values)
        self._columns = columns

    def _look_at_file(self, path: str, add: Add) -> None:
        if add.base_row_id is None:
            self._row_ids[path].append((-1, None))
            return
        had, has = self._row_ids[path], (add.base_row_id, add.default_row_commit_version)
        is_new = (
            add.base_row_id > max(self._mark, self._highest_row_id) and add.default_row_commit_version == self.version
        )
        again = has in had if self._operation == "RESTORE" else bool(had) and has == had[-1]
        was_counted = bool(had) and had[-1][1] is not None
        self._is(
            again or (is_new and not was_counted),
            f"{path} has the row ids {has}, and had {had}; {self._highest_row_id} are assigned",
        )
        had.append(has)
        self._highest_row_id = max(self._highest_row_id, add.base_row_id + (num_records_of(add.stats) or 0) - 1)

    def _look_at_time(self, info: CommitInfo) -> None:
        stamp_ms = info.in_commit_timestamp_ms
        if stamp_ms is not None:
            self._is(stamp_ms > self._stamp_ms, f"its time is {stamp_ms}, and was {self._stamp_ms}")
            self._stamp_ms = stamp_ms


class NumbersOfRows:
    """The same law by what a reader sees: an identity value or a row id always shows the same row, which its `id`
    tells.

    A table that is created anew declares new columns. A version before it has the columns of that time.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._declared: list[int] = []
        self._row_ids: dict[int, int] = {}
        self._identity: dict[tuple[int, int], int] = {}

    def look(self, snapshot: Snapshot, info: CommitInfo, written: set[int]) -> list[str]:
        """The faults of a version.

        Args:
            written: the rows that were written to this table. Those of clones bring the identity values of their
                source.
        """
        self._declared.append(declaration(info, self._declared))
        tracked = snapshot.row_tracking is not None
        names = [name for name in ("id", "k") if name in snapshot.schema.names]
        for row in snapshot.to_arrow(columns=[*names, *(["_metadata.row_id"] if tracked else [])]).to_pylist():
            if tracked:
                self._see(self._row_ids, row["_metadata.row_id"], row["id"], f"version {snapshot.version}: row id")
            if row.get("k") is not None and row["id"] in written:
                self._see(
                    self._identity,
                    (self._declared[-1], row["k"]),
                    row["id"],
                    f"version {snapshot.version}: identity value",
                )
        return self.faults

    def _see(self, known: dict[Any, int], number: Any, row: int, what: str) -> None:
        if known.setdefault(number, row) != row:
            self.faults.append(f"{what} {number} was row {known[number]} and is row {row}")


def declaration(info: CommitInfo, before: Sequence[int]) -> int:
    """Which statement has declared the columns of a version, by the versions before it."""
    operation, parameters = info.fields.get("operation"), info.fields.get("operationParameters") or {}
    if str(operation).startswith(CREATED) or operation == "CREATE TABLE":
        return max(before, default=-1) + 1
    return before[int(parameters["version"])] if operation == "RESTORE" else max(before[-1:], default=0)


@dataclass
class World:
    """A table and a source of clones, and what happens to the table."""

    env: Env = field(default_factory=memory_env)
    rows: int = 0
    columns: int = 0
    txn: int = 0
    written: set[int] = field(default_factory=set)
    log_law: NumbersOfLog = field(default_factory=NumbersOfLog)
    row_law: NumbersOfRows = field(default_factory=NumbersOfRows)

    def __post_init__(self) -> None:
        self.target, self.source = (
            replace(self.env, store=self.env.store_at(f"memory://{name}-{next(_NAMES)}")) for name in ("t", "s")
        )
        for env, properties in ((self.target, {}), (self.source, {})):
            self._create(self._open(env), properties)
        self._write(self._open(self.source))

    # --- the table

    @property
    def table(self) -> tahoe.Table:
        return self._open(self.target)

    def _open(self, env: Env) -> tahoe.Table:
        return tahoe.Table(env.store.url, env=env)

    def _create(self, table: tahoe.Table, properties: Mapping[str, str]) -> None:
        given = {"delta.feature.identityColumns": "supported", "delta.checkpointInterval": "1000", **properties}
        request = WriteRequest(mode="error", schema=COLUMNS, properties=given, keep_nullability=True, operation=CREATED)
        create_table(table, request, replace_existing=True)

    def _frame(self, table: tahoe.Table) -> pa.Table:
        ids = list(range(self.rows, self.rows + 2))
        self.rows += 2
        if table.url == self.target.store.url:
            self.written.update(ids)
        frame = pa.table({"id": pa.array(ids, pa.int64()), "p": ["x", "y"]})
        return frame.select([name for name in frame.column_names if name in table.schema.names])

    def _write(self, table: tahoe.Table, **settings: Any) -> None:
        table.append(self._frame(table), **settings)

    # --- operations

    def do(self, operation: str) -> None:
        """Do one operation, as far as the table allows it now, and check the laws."""
        table = self.table
        try:
            OPERATIONS[operation](self, table)
        except DeltaError as error:
            if type(error).__name__ not in REFUSALS:
                raise
        self.check()

    def check(self) -> None:
        table = self.table
        newest = table.version
        for version in range(self.log_law.version + 1, newest + 1):
            info = table.log.commit_info(version) or CommitInfo({})
            found = self.log_law.look(table.log, version)
            assert not found, found
            found = self.row_law.look(table.snapshot(version), info, self.written)
            assert not found, found

    def check_log(self) -> None:
        assert [str(fault) for fault in check_table(self.table.log)] == []

    def set(self, table: tahoe.Table, properties: Mapping[str, str]) -> None:
        with table.transaction() as changes:
            changes.set_properties(properties)


_NAMES = itertools.count()


def _restore(table: tahoe.Table, version: int) -> None:
    if version != table.version:
        table.restore(version, retention_check=False)


def _add_column(world: World, table: tahoe.Table) -> None:
    world.columns += 1
    with table.transaction() as changes:
        changes.add_columns([NewColumn(field=Field(name=f"c{world.columns}", type=LONG))])


def _drop_k(_: World, table: tahoe.Table) -> None:
    with table.transaction() as changes:
        changes.drop_columns([("k",)], if_exists=True)


def _drop(feature: str) -> Callable[[World, tahoe.Table], None]:
    return lambda _, table: table.drop_feature(feature) if feature in supported_features(table.protocol) else None


def _put(properties: Mapping[str, str]) -> Callable[[World, tahoe.Table], None]:
    return lambda world, table: world.set(table, properties)


def _clone(world: World, table: tahoe.Table, *, shallow: bool) -> None:
    world._open(world.source).clone(table.url, shallow=shallow, replace=True, env=world.target)


def _clone_other(world: World, table: tahoe.Table) -> None:
    """A source without the identity column, and with other properties."""
    env = replace(world.env, store=world.env.store_at(f"memory://o-{next(_NAMES)}"))
    frame = pa.table({"id": pa.array([world.rows], pa.int64())})
    world.rows += 1
    world._open(env).append(frame)
    world._open(env).clone(table.url, replace=True, env=world.target)


def _append_once(world: World, table: tahoe.Table) -> None:
    world.txn += 1
    world._write(table, txn=("app", world.txn))


def _source_goes_on(world: World, _: tahoe.Table) -> None:
    source = world._open(world.source)
    with source.transaction() as changes:
        changes.set_properties({"delta.enableDeletionVectors": "true"})
    source.delete(f"id = {source.to_arrow()['id'].to_pylist()[0]}")
    world._write(source, txn=("app", 1))


def _source_is(properties: Mapping[str, str]) -> Callable[[World, tahoe.Table], None]:
    return lambda world, _: world.set(world._open(world.source), properties)


def _cleanup(world: World, table: tahoe.Table) -> None:
    if world.log_law.version == table.version:
        table.create_checkpoint()
        clean_log(table.snapshot(), timedelta(0))


def _overwrite_schema(world: World, table: tahoe.Table) -> None:
    ids = [world.rows]
    world.rows += 1
    world.written.update(ids)
    table.overwrite(pa.table({"id": pa.array(ids, pa.int64()), "p": ["z"]}), overwrite_schema=True)


OPERATIONS: Mapping[str, Callable[[World, tahoe.Table], None]] = {
    "append": lambda world, table: world._write(table),
    "append once": _append_once,
    "delete": lambda world, table: table.delete(f"id % 2 = {world.rows // 2 % 2}") and None,
    "update": lambda world, table: table.update({"p": "'u'"}, "id % 2 = 0") and None,
    "optimize": lambda world, table: table.optimize() and None,
    "truncate": lambda world, table: table.delete() and None,
    "restore to the first rows": lambda world, table: _restore(table, min(1, table.version)),
    "restore one back": lambda world, table: _restore(table, max(table.version - 1, 0)),
    "clone": lambda world, table: _clone(world, table, shallow=False),
    "shallow clone": lambda world, table: _clone(world, table, shallow=True),
    "clone of a table without the column": _clone_other,
    "the source goes on": _source_goes_on,
    "the source tracks rows": _source_is(TRACKED),
    "the source is mapped": _source_is(MAPPED),
    "create or replace": lambda world, table: world._create(table, {}),
    "overwrite the schema": _overwrite_schema,
    "map": _put(MAPPED),
    "add a column": _add_column,
    "drop the identity column": _drop_k,
    "track rows": _put(TRACKED),
    "suspend": _put({"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"}),
    "stamp": _put({"delta.enableInCommitTimestamps": "true"}),
    "vectors": _put({"delta.enableDeletionVectors": "true"}),
    "drop row tracking": _drop("rowTracking"),
    "drop domains": _drop("domainMetadata"),
    "drop timestamps": _drop("inCommitTimestamp"),
    "drop identity": _drop("identityColumns"),
    "drop column mapping": _drop("columnMapping"),
    "clean up": _cleanup,
    "vacuum": lambda world, table: table.vacuum(0, retention_check=False) and None,
}

# What an operation may say of a table that is not made for it.
REFUSALS = frozenset(
    {
        "ColumnNotFoundError",
        "DependentFeatureError",
        "DropColumnUnsupportedError",
        "FeatureInUseError",
        "InvalidPropertyError",
        "RestoreFilesMissingError",
        "RestoreVersionError",
    }
)
