"""Several changes to a table in one commit.

    with table.transaction() as changes:
        changes.delete("day < date'2026-01-01'")
        changes.append(rows)
        changes.set_domain("app.progress", "42")

Protocol: "Actions"; paper §3.2. Everything is planned on the snapshot with which the transaction began: rows that it appends are not among
those that it deletes. Nothing is visible before the end; where another writer was first and it matters, nothing is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tahoe.errors import (
    CheckConstraintViolatedError,
    ClusteringStatisticsError,
    CommitOutcomeUnknownError,
    ConstraintDependsError,
    DeltaError,
    DropClusteringColumnError,
    GeneratedColumnDependsError,
    InvalidOptionError,
    InvalidPredicateError,
    NotNullViolationError,
    SchemaMismatchError,
    UnsupportedOperationError,
    WriteAlreadyRecordedError,
)
from tahoe.protocol import clustering, column_changes
from tahoe.protocol.actions import Action, Add, DomainMetadata, Metadata, Protocol, Txn, remove_of
from tahoe.protocol.column_changes import ColumnChange, NewColumn, Path
from tahoe.protocol.column_mapping import column_id
from tahoe.protocol.column_values import column_values, identity_columns
from tahoe.protocol.conflict import Intent
from tahoe.protocol.constraints import Constraint, constraints_of
from tahoe.protocol.feature_drop import droppable_feature
from tahoe.protocol.features import check_writable, keeps_partitions_in_files, setting, supported_features
from tahoe.protocol.partitions import resolve_path
from tahoe.protocol.predicate import TRUE, Column, Comparison, Literal, Predicate, has_unknown
from tahoe.protocol.properties import ENABLE_CHANGE_DATA_FEED, ENABLE_DELETION_VECTORS, ENABLE_ROW_TRACKING, FeatureProperty
from tahoe.protocol.row_tracking import FEATURE as ROW_TRACKING
from tahoe.protocol.row_tracking import assigns_row_ids
from tahoe.protocol.schema import Field, Struct, walk_fields
from tahoe.protocol.table_configuration import TableConfiguration
from tahoe.sql.predicates import parse_predicate, paths_named
from tahoe.table.arguments import (
    COLUMN_CHANGES,
    FILTER,
    FLAG,
    LONG,
    NAMES,
    NEW_COLUMNS,
    PATH,
    PATHS,
    POSITIONS,
    ROWS,
    SCHEMA,
    TEXT,
    TEXTS,
    ArrowStream,
    or_none,
    takes,
)
from tahoe.table.arrow.types import delta_schema
from tahoe.table.commit.row_deletions import Mark, num_records
from tahoe.table.commit.transaction import Transaction
from tahoe.table.log.deletion_vectors import deleted_rows
from tahoe.table.reading.constraints import check_rows
from tahoe.table.reading.read_set import AnyRead, RowsRead
from tahoe.table.reading.rows import matching_rows, read_file, read_rows
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.reading.table_reader import TableReader
from tahoe.table.writing.arrow_writer import given_schema, write_files
from tahoe.table.writing.feature_traces import check_given_up, domains_of
from tahoe.table.writing.write_plan import WriteRequest, check_schema, marked, plan_existing

# What the history calls a commit of several operations to which the user gave no name.
TRANSACTION = "TRANSACTION"

# What a table may ask of the rows that stay in a file that is written again, and is not done yet.
_STAYING_ROWS_MATTER = {
    ENABLE_CHANGE_DATA_FEED: "its change data feed would call the rows that stay deleted and inserted",
    ENABLE_ROW_TRACKING: "the rows that stay would get other row ids",
}

# Domains of this prefix belong to features. Protocol: "Domain Metadata".
_SYSTEM_DOMAINS = "delta."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """One of the changes, as the history tells it."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Changes:
    """An open transaction. Made by `Table.transaction`; it is committed at the end of the `with` block, and not at all where that fails.

    A change that is refused leaves the transaction as it was, so that it can go on without it. Conditions and columns go by the names that
    the table has after the changes so far.

    Args:
        check: looks whether the rows of a snapshot satisfy a condition, and raises CheckConstraintViolatedError; Arrow does it where it is
            None, and understands fewer conditions.

    Attributes:
        snapshot: the table as it is read.
        version: the version that was made; None before the end, and where there was nothing to commit.
    """

    def __init__(
        self,
        table: TableReader,
        *,
        operation: str | None = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        engine: str | None = None,
        check: Callable[[Snapshot, Constraint], None] | None = None,
    ) -> None:
        self.table = table
        self._check = check
        self.snapshot: Snapshot = table.snapshot()
        self.version: int | None = None
        self._is_open = True
        self._definition = TableConfiguration(table=table.url, protocol=self.snapshot.protocol, metadata=self.snapshot.metadata)
        self._operation, self._txn, self._user_metadata, self._engine = operation, txn, user_metadata, engine
        self._operations: list[_Operation] = []
        self._metrics: dict[str, int] = {}
        self._adds: list[Add] = []
        self._deleted: dict[str, Mark] = {}
        self._whole: set[str] = set()
        self._domains: dict[str, DomainMetadata] = {}
        self._txns: dict[str, int] = {}
        self._reads: list[RowsRead] = []
        self._is_exact = True
        self._is_alone = False

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._is_open:
            return
        if kind is None:
            self.commit()
        else:
            self._is_open = False
            self._discard()

    @property
    def url(self) -> str:
        return self.table.url

    # --- reading

    @takes(filter=FILTER)
    def scan(self, filter: str | Predicate | None = None) -> Scan:
        """The files that may hold matching rows. What others do to such rows before the commit is a conflict from now on.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the text cannot be understood.
        """
        read = self._read(filter)
        self._reads.append(read)
        self._is_exact = False
        return read.snapshot.scan(read.predicate)

    @takes(columns=NAMES, filter=FILTER)
    def to_arrow(self, columns: Iterable[str] | None = None, filter: str | Predicate | None = None) -> pa.Table:
        """The rows that the table had when the transaction began, as `Snapshot.to_arrow`; they count as read."""
        return read_rows(self.scan(filter), None if columns is None else list(columns))

    @property
    def _current(self) -> Snapshot:
        """The snapshot under the definition and with the domains that the table has by now."""
        definition, known = self._definition, {**self.snapshot.domains, **self._domains}
        domains = {name: domain for name, domain in known.items() if not domain.removed}
        return replace(self.snapshot, protocol=definition.protocol, metadata=definition.metadata, domains=domains)

    def _read(self, filter: str | Predicate | None) -> RowsRead:
        self._check_open()
        current = self._current
        if isinstance(filter, str):
            return RowsRead(current, parse_predicate(filter, current.schema, table=current.url, zone=self.table.log.zone), filter)
        return RowsRead(current, TRUE if filter is None else filter, "the whole table" if filter is None else "a predicate")

    # --- rows

    @takes(data=ROWS, merge_schema=FLAG)
    def append(self, data: pa.Table | ArrowStream, *, merge_schema: bool = False) -> int:
        """Add rows, as `Table.append` takes them. The files are written now, and go again where nothing is committed.

        Returns:
            how many files were written.

        Raises:
            DeltaAnalysisError: the data does not fit the table, or a row breaks a constraint.
        """
        self._check_open()
        rows: pa.Table = data  # by now
        schema = given_schema(rows, table=self.table.url)
        plan = plan_existing(self.table, WriteRequest(mode="append", schema=schema, merge_schema=merge_schema), self._current)
        files = write_files(plan, rows)
        adds = [plan.add(file) for file in files]
        self._adds += adds
        self._definition = replace(self._definition, protocol=plan.protocol, metadata=marked(plan.metadata, files))
        size_bytes = sum(add.size_bytes for add in adds)
        told = {"mode": "Append", "partitionBy": list(plan.partition_columns)}
        self._did("WRITE", told, numOutputRows=rows.num_rows, numFiles=len(adds), numAddedFiles=len(adds), numOutputBytes=size_bytes)
        return len(adds)

    @takes(paths=NAMES)
    def remove(self, paths: Iterable[str]) -> None:
        """Remove whole files of the table, by their paths as `Scan.listing` shows them, relative or absolute.

        Raises:
            InvalidOptionError: the table has no such file.
            AppendOnlyTableError: the table only takes appends.
        """
        self._check_removes_data()
        wanted = list(paths)
        found = self._files(wanted)
        self._deleted |= {key: self._all_of(add) for key, add in found.items()}
        self._whole |= found.keys()
        self._did("REMOVE", {"paths": wanted})

    @takes(path=TEXT, rows=POSITIONS)
    def mark_deleted(self, path: str, rows: Iterable[int]) -> int:
        """Delete rows of one file by their positions in it.

        Returns:
            how many rows were there still.

        Raises:
            InvalidOptionError: the table has no such file, or the file no such row.
            AppendOnlyTableError: the table only takes appends.
        """
        self._check_removes_data()
        ((key, add),) = self._files([path]).items()
        wanted, total = sorted(rows), self._num_records(add)
        if wanted and not 0 <= wanted[0] <= wanted[-1] < total:
            raise self._invalid("rows", wanted[-1] if wanted[0] >= 0 else wanted[0], f"{path} has rows 0 to {total - 1}")
        count = self._delete({key: (add, BitMap64(wanted))})
        self._did("DELETE", {"path": path}, numDeletedRows=count)
        return count

    @takes(where=FILTER)
    def delete(self, where: str | Predicate | None = None) -> int:
        """Delete the rows for which a condition is true, all if None: through deletion vectors where the table has them
        (`delta.enableDeletionVectors`), else by writing the other rows of their files again.

        Returns:
            how many rows were deleted.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the condition cannot be understood without Spark.
            AppendOnlyTableError: the table only takes appends.
            UnsupportedOperationError: files would be written again, which this table does not allow.
        """
        self._check_removes_data()
        read = self._read(where)
        if has_unknown(read.predicate):
            raise InvalidPredicateError(table=self.table.url, predicate=str(read.predicate), detail="a part of it cannot be evaluated")
        found = {self._canonical(add.path): (add, self._matching(read, add)) for add in read.snapshot.scan(read.predicate).adds()}
        count = self._delete(found)
        self._reads.append(read)
        self._did("DELETE", {"predicate": "true" if where is None else str(read)}, numDeletedRows=count)
        return count

    def _matching(self, read: RowsRead, add: Add) -> BitMap64:
        return BitMap64(np.flatnonzero(matching_rows(read.snapshot, add, read.predicate)).tolist())

    def _delete(self, wanted: Mapping[str, tuple[Add, BitMap64]]) -> int:
        """Take rows for deleted, those that are there still. Returns how many."""
        new = {key: (add, rows - self._gone(key, add)) for key, (add, rows) in wanted.items()}
        marks = {key: Mark(file=add, rows=self._marked(key) | rows) for key, (add, rows) in new.items() if rows}
        if not self._has_vectors():
            self._check_may_copy(marks.values())
        self._deleted |= marks
        return sum(len(rows) for _, rows in new.values())

    def _marked(self, key: str) -> BitMap64:
        """The rows of a file that this transaction deletes."""
        return self._deleted[key].rows if key in self._deleted else BitMap64()

    def _gone(self, key: str, add: Add) -> BitMap64:
        return self._marked(key) | deleted_rows(self.table.log, add)

    def _all_of(self, add: Add) -> Mark:
        everything = BitMap64(range(self._num_records(add)))
        return Mark(file=add, rows=everything - deleted_rows(self.table.log, add))

    def _num_records(self, add: Add) -> int:
        return num_records(self.table.log, add, self.snapshot.version)

    def _is_whole(self, mark: Mark) -> bool:
        """Whether no row of the file is left."""
        return len(mark.rows | deleted_rows(self.table.log, mark.file)) >= self._num_records(mark.file)

    def _files(self, paths: Iterable[str]) -> dict[str, Add]:
        """Live files by their paths, spelled in whatever way, under their canonical ones."""
        self._check_open()
        wanted = {self._canonical(path): path for path in paths}
        as_written = pc.indices_nonzero(pc.is_in(self.snapshot.live.column("path"), value_set=pa.array(wanted.values(), pa.string())))
        found = {self._canonical(add.path): add for add in Scan(self.snapshot, None, as_written).adds()}
        if len(found) < len(wanted):
            found |= {key: add for add in self.snapshot.live.adds() if (key := self._canonical(add.path)) in wanted}
        for key, path in wanted.items():
            if key not in found:
                raise self._invalid("path", path, f"version {self.snapshot.version} has no such file")
        return found

    def _check_removes_data(self) -> None:
        self._check_open()
        check_writable(self._definition.protocol, self._definition.metadata, table=self.table.url, removes_data=True)

    def _is_on(self, switch: FeatureProperty[bool]) -> bool:
        return setting(switch, self._definition.protocol, self._definition.properties, table=self.table.url)

    def _has_vectors(self) -> bool:
        return self._is_on(ENABLE_DELETION_VECTORS)

    def _check_may_copy(self, marks: Iterable[Mark]) -> None:
        switch = next(filter(self._is_on, _STAYING_ROWS_MATTER), None)
        if switch is not None and not all(self._is_whole(mark) for mark in marks):
            raise UnsupportedOperationError(
                operation="Deleting some rows of a file",
                table=self.table.url,
                detail=_STAYING_ROWS_MATTER[switch],
                remedy="Set delta.enableDeletionVectors=true, so that the other rows need not be rewritten.",
            )

    # --- what the table says of itself

    @takes(properties=TEXTS)
    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set table properties, known and the user's own; `delta.feature.<name>` = supported adds a feature, `comment` is the description.

        Raises:
            InvalidPropertyError: one that does not exist, that only writers set, or whose value cannot be.
            DeltaProtocolError: it switches a rule on that tahoe does not keep yet.
        """
        changed = self._definition.with_properties(properties, self.table.env.new_id)
        self._define(changed, "SET TBLPROPERTIES", {"properties": dict(properties)})

    @takes(names=NAMES, if_exists=FLAG)
    def unset_properties(self, names: Iterable[str], *, if_exists: bool = False) -> None:
        """Remove table properties, so that their defaults hold.

        Raises:
            InvalidPropertyError: one that is not set, or that only writers set.
        """
        asked = list(names)
        changed = self._definition.without_properties(asked, if_exists=if_exists)
        self._define(changed, "UNSET TBLPROPERTIES", {"properties": asked, "ifExists": if_exists})

    @takes(schema=SCHEMA)
    def set_schema(self, schema: Struct | pa.Schema) -> None:
        """Give the table another schema in which its rows can still be read; see `TableConfiguration.with_schema` for what may change.

        Raises:
            SchemaMismatchError, DuplicateColumnsError: the files do not allow it, or a constraint or the clustering needs what goes.
        """
        wanted = schema if isinstance(schema, Struct) else delta_schema(schema, table=self.table.url)
        changed = self._definition.with_schema(wanted, self.table.env.new_id)
        self._check_dependants(changed)
        self._define(changed, "UPDATE SCHEMA", {"schema": wanted.to_json()})

    @takes(columns=NEW_COLUMNS)
    def add_columns(self, columns: Iterable[NewColumn]) -> None:
        """Add columns, anywhere in the schema; the rows that are there have nulls in them.

        Raises:
            ColumnChangeError, ColumnNotFoundError, InvalidColumnNameError, UnsupportedDataTypeError: a column that cannot be.
        """
        wanted = list(columns)
        changed = column_changes.add_columns(self._definition, wanted, self.table.env.new_id)
        check_schema(changed.schema, changed.column_mapping_mode, table=self.table.url)
        told = [
            {"column": column_changes.told(c.parent, c.field)} | ({} if c.position is None else {"position": str(c.position)})
            for c in wanted
        ]
        self._define(changed, "ADD COLUMNS", {"columns": told})

    @takes(path=PATH, name=TEXT)
    def rename_column(self, path: Path, name: str) -> None:
        """Give a column another name. Column mapping is needed: its name in the data files stays.

        Raises:
            RenameColumnUnsupportedError: the table does not map columns.
            ColumnNotFoundError, DuplicateColumnsError, ParentNotStructError: the names are wrong.
            ConstraintDependsError, GeneratedColumnDependsError: an expression of the table names it.
        """
        changed = column_changes.rename_column(self._definition, path, name)
        self._check_dependants(changed)
        told = {"oldColumnPath": column_changes.dotted(path), "newColumnPath": column_changes.dotted((*path[:-1], name))}
        self._define(changed, "RENAME COLUMN", told)

    @takes(paths=PATHS, if_exists=FLAG)
    def drop_columns(self, paths: Iterable[Path], *, if_exists: bool = False) -> None:
        """Drop columns. Column mapping is needed: their values stay in the data files.

        Raises:
            DropColumnUnsupportedError: the table does not map columns.
            ColumnNotFoundError, DropPartitionColumnError, DropClusteringColumnError, DropLastFieldError.
            ConstraintDependsError, GeneratedColumnDependsError: an expression of the table names one.
        """
        wanted = list(paths)
        changed = column_changes.drop_columns(self._definition, wanted, if_exists=if_exists)
        self._check_dependants(changed)
        self._define(changed, "DROP COLUMNS", {"columns": [column_changes.dotted(path) for path in wanted]})

    @takes(changes=COLUMN_CHANGES)
    def alter_columns(self, changes: Iterable[ColumnChange]) -> None:
        """Change types, comments, defaults, nullability and places of columns.

        Where a column becomes NOT NULL, the rows that are there are looked at first.

        Raises:
            ColumnChangeError, ColumnNotFoundError: a change that cannot be.
            ConstraintDependsError, GeneratedColumnDependsError: another type of a column that an expression of the table names.
            NotNullViolationError: a row that is there has a null.
        """
        self._check_open()
        wanted, changed = list(changes), self._definition
        for change in wanted:
            before = column_changes.column_at(changed, change.path)[1]
            changed = column_changes.change_column(changed, change, self.table.env.new_id)
            if column_changes.column_at(changed, change.path)[1].type != before.type:
                self._check_unnamed(change.path)
        self._check_not_null(changed, wanted)
        told = [
            column_changes.told(change.path[:-1], column_changes.column_at(changed, change.path)[1])
            | ({} if change.position is None else {"position": str(change.position)})
            for change in wanted
        ]
        if len(told) == 1:
            position = told[0].pop("position", None)
            self._define(changed, "CHANGE COLUMN", {"column": told[0]} | ({} if position is None else {"position": position}))
        else:
            self._define(changed, "CHANGE COLUMNS", {"columns": told})

    def _check_not_null(self, changed: TableConfiguration, wanted: Iterable[ColumnChange]) -> None:
        for change in wanted:
            spelled, before = column_changes.column_at(self._definition, change.path)
            if before.nullable and not column_changes.column_at(changed, change.path)[1].nullable:
                # a field of a struct that is null is none that holds a null
                parents = [f"{column_changes.sql_path(spelled[:depth])} IS NULL" for depth in range(1, len(spelled))]
                condition = " OR ".join([*parents, f"{column_changes.sql_path(spelled)} IS NOT NULL"])
                try:
                    self._check_rows(Constraint(name="NOT NULL", expression=condition))
                except CheckConstraintViolatedError as error:
                    raise NotNullViolationError(table=self.table.url, column=column_changes.dotted(spelled)) from error

    @takes(columns=SCHEMA)
    def replace_columns(self, columns: Struct | pa.Schema) -> None:
        """Give the table these columns, known by their names, in this order; see `TableConfiguration.with_schema` for what may change.

        Raises:
            IdentityReplaceColumnsError, ColumnTypeChangeError, SchemaMismatchError: the rows that are there do not allow it.
            ConstraintDependsError, GeneratedColumnDependsError, DropClusteringColumnError: what goes is needed.
        """
        wanted = columns if isinstance(columns, Struct) else delta_schema(columns, table=self.table.url)
        changed = column_changes.replace_columns(self._definition, wanted, self.table.env.new_id)
        check_schema(changed.schema, changed.column_mapping_mode, table=self.table.url)
        self._check_dependants(changed)
        self._define(changed, "REPLACE COLUMNS", {"columns": [column_changes.told((), field) for field in wanted]})

    @takes(columns=PATHS)
    def cluster_by(self, columns: Iterable[Path]) -> None:
        """Cluster the table by other columns, or by none. Nothing is moved; files are clustered when they are written or optimised.

        Raises:
            InvalidClusteringError, ColumnNotFoundError: the table cannot be clustered by them.
        """
        self._check_open()
        definition, wanted = self._definition, list(columns)
        if not wanted and clustering.FEATURE not in supported_features(definition.protocol):
            return
        spelled = clustering.check_clustering(
            wanted, definition.schema, definition.metadata.partition_columns, definition.properties, table=self.table.url
        )
        changed = definition.with_protocol(None, None, [clustering.FEATURE])
        mode = changed.column_mapping_mode
        before = self._clustering_columns(definition)
        domain = clustering.clustering_domain(spelled, changed.schema, mode)
        assert domain is not None
        if changed == definition and before == spelled:
            return
        check_writable(changed.protocol, changed.metadata, table=self.table.url)
        self._check_appended(domain)
        self._definition = changed
        self._domains[clustering.DOMAIN] = domain
        old, new = (",".join(column_changes.dotted(path) for path in paths) for paths in (before, spelled))
        self._did("CLUSTER BY", {"oldClusteringColumns": old, "newClusteringColumns": new})

    def _check_appended(self, domain: DomainMetadata) -> None:
        """The files that this transaction adds must have statistics of the columns by which the table is clustered from it on."""
        lacking = ", ".join(clustering.columns_without_statistics(domain, self._adds))
        if lacking:
            detail, remedy = "rows were appended earlier without statistics for them", "Cluster the table before the append."
            raise ClusteringStatisticsError(table=self.table.url, columns=lacking, detail=detail, remedy=remedy)

    def _clustering_columns(self, definition: TableConfiguration) -> tuple[Path, ...]:
        domain = self._domains.get(clustering.DOMAIN) or self.snapshot.domains.get(clustering.DOMAIN)
        return clustering.clustering_columns(domain, definition.schema, definition.column_mapping_mode)

    def _check_dependants(self, changed: TableConfiguration) -> None:
        """Columns that were dropped, or have another name now, may be named elsewhere."""
        lost = {path: field for path, field in walk_fields(self._definition.schema) if not _has_still(changed.schema, path, field)}
        kept = {column_id(field) for _, field in walk_fields(changed.schema)}
        for path, column in lost.items():
            self._check_unnamed(path)
            if path in self._clustering_columns(self._definition) and column_id(column) not in kept:
                raise self._needed(DropClusteringColumnError, path, "the clustering of the table")

    def _check_unnamed(self, path: Path) -> None:
        """Refuse to change a column that an expression of the table names, or a part of which it does."""
        constraints = [c.expression for c in constraints_of(self._definition.metadata, table=self.table.url)]
        generated = column_values(self._definition.protocol, self._definition.schema).generated.values()
        folded = tuple(name.lower() for name in path)
        for error, expressions in ((ConstraintDependsError, constraints), (GeneratedColumnDependsError, generated)):
            for expression in expressions:
                if any(named[: len(folded)] == folded[: len(named)] for named in paths_named(expression)):
                    raise self._needed(error, path, expression)

    def _needed(self, error: type[SchemaMismatchError], path: Path, what: str) -> SchemaMismatchError:
        return error(
            table=self.table.url,
            detail=f"column {column_changes.dotted(path)} would be dropped, renamed or retyped, but {what} depends on it",
            remedy="Drop what depends on it first, or keep the column.",
        )

    @takes(name=TEXT, expression=TEXT)
    def add_constraint(self, name: str, expression: str) -> None:
        """Add a CHECK constraint, an SQL condition that every row must satisfy. The rows that are there are looked at first, and those that
        this transaction appends.

        Raises:
            CheckConstraintViolatedError: a row that is there does not satisfy it.
            ConstraintExistsError: there is one of that name.
            UnsupportedOperationError, ColumnNotFoundError: it cannot be understood without Spark.
        """
        self._check_open()
        changed = self._definition.with_constraint(name, expression)
        self._check_rows(Constraint(name=name, expression=expression))
        self._define(changed, "ADD CONSTRAINT", {"name": name, "expr": expression})

    def _check_rows(self, constraint: Constraint) -> None:
        """Look whether all rows satisfy a condition, and count them as read."""
        is_as_it_was = not self._adds and not self._deleted and self._definition.schema == self.snapshot.schema
        if self._check is not None and is_as_it_was:
            self._check(self.snapshot, constraint)
        else:
            current = self._current
            for add in [*self.snapshot.live.adds(), *self._adds]:
                rows = read_file(current, add, self._marked(self._canonical(add.path)))
                check_rows(rows, [constraint], current.schema, table=self.table.url, zone=self.table.log.zone)
        self.scan(None)

    @takes(name=TEXT, if_exists=FLAG)
    def drop_constraint(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a CHECK constraint.

        Raises:
            ConstraintNotFoundError: there is none of that name.
        """
        expression = self._definition.constraint(name)
        changed = self._definition.without_constraint(name, if_exists=if_exists)
        told = {"existed": "false"} if expression is None else {"expr": expression, "existed": "true"}
        self._define(changed, "DROP CONSTRAINT", {"name": name, **told})

    @takes(reader_version=LONG, writer_version=LONG, features=NAMES)
    def upgrade_protocol(
        self, reader_version: int | None = None, writer_version: int | None = None, *, features: Iterable[str] = ()
    ) -> None:
        """Raise the protocol to at least these versions, and add features.

        Raises:
            InvalidPropertyError: a version or a feature that does not exist.
            DeltaProtocolError: it switches a rule on that tahoe does not keep yet.
        """
        changed = self._definition.with_protocol(reader_version, writer_version, features)
        self._define(changed, "UPGRADE PROTOCOL", {"newProtocol": _protocol_text(changed)})

    @takes(column=TEXT, value=or_none(LONG))
    def sync_identity(self, column: str, value: int | None) -> None:
        """Let an identity column count on from a value that is in the table. That no value is farther counts as read: rows that another
        writer adds with such values are a conflict.

        Args:
            value: the one of the snapshot that is farthest from the column's start; None where it has none, and nothing changes.

        Raises:
            NotAnIdentityColumnError: the table has no identity column of that name.
        """
        start = self._definition
        changed = start.with_identity_at(column, value) if value is not None else start
        self._define(changed, "SYNC IDENTITY", {"column": column})
        if value is not None:
            self.scan(self._farther(column, value))

    def _farther(self, column: str, value: int) -> Predicate:
        found = {name.lower(): (name, identity) for name, identity in identity_columns(self._definition.schema, table=self.table.url)}
        name, identity = found[column.lower()]
        return Comparison(">" if identity.step > 0 else "<", Column((name,)), Literal(value))

    @takes(feature=TEXT, truncate_history=FLAG)
    def drop_feature(self, feature: str, *, truncate_history: bool = False) -> None:
        """Take a feature from the protocol, of which nothing may be left; `Table.drop_feature` does what comes before and after.

        Args:
            truncate_history: no version that can be read uses the feature, so that no checkpoint need be protected.

        Raises:
            FeatureDropError: it does not exist, or not here; or something of the table needs it.
        """
        self._check_open()
        found = droppable_feature(self._definition.protocol, feature, table=self.table.url)
        check_given_up(found, self.snapshot, truncate_history=truncate_history)
        protects = found.is_reader_feature and not truncate_history
        changed = self._definition.without_feature(found, protected_before=self.snapshot.version + 1 if protects else None)
        self._is_alone = True
        self._domains |= {domain.domain: replace(domain, removed=True) for domain in domains_of(found, self.snapshot)}
        self._define(changed, "DROP FEATURE", {"featureName": feature, "truncateHistory": truncate_history})

    def _define(self, changed: TableConfiguration, operation: str, parameters: Mapping[str, Any]) -> None:
        self._check_open()
        check_writable(changed.protocol, changed.metadata, table=self.table.url)
        self._check_files_keep_partitions(changed)
        if changed != self._definition:
            self._definition = changed
            self._did(operation, parameters)

    def _check_files_keep_partitions(self, changed: TableConfiguration) -> None:
        """Protocol: "Materialize Partition Columns", "Writer Requirements for IcebergCompatV1". It cannot begin where files lack them."""
        now, before = (keeps_partitions_in_files(d.protocol, d.metadata) for d in (changed, self._definition))
        if now and not before and changed.metadata.partition_columns and (len(self.snapshot.live) or self._adds):
            raise UnsupportedOperationError(
                operation="Keeping partition columns in data files",
                table=self.table.url,
                detail="existing files do not contain them",
                remedy="Create a new table with this property, and write the rows to it.",
            )

    @takes(domain=TEXT, configuration=or_none(TEXT))
    def set_domain(self, domain: str, configuration: str | None) -> None:
        """Set the text of a metadata domain, or remove the domain with None. Those of features (`delta.*`) are not for users.

        Raises:
            InvalidOptionError: the domain belongs to a feature, or is not there to be removed.
        """
        self._check_open()
        if domain.lower().startswith(_SYSTEM_DOMAINS):
            raise self._invalid("domain", domain, "domains that start with delta. belong to table features")
        known = self._domains.get(domain) or self.snapshot.domains.get(domain)
        if configuration is None and (known is None or known.removed):
            raise self._invalid("domain", domain, "the table has no such domain")
        changed = self._definition.with_protocol(None, None, ["domainMetadata"])
        check_writable(changed.protocol, changed.metadata, table=self.table.url)
        self._definition = changed
        text = known.configuration if configuration is None and known is not None else configuration or ""
        self._domains[domain] = DomainMetadata(domain=domain, configuration=text, removed=configuration is None)
        self._did("SET DOMAIN", {"domain": domain})

    @takes(app_id=TEXT, version=LONG)
    def set_txn(self, app_id: str, version: int) -> None:
        """Record the version of an application, whatever is recorded now: it may be lowered. See `txn` of `Table.transaction` for a write
        that is made once.
        """
        self._check_open()
        self._txns[app_id] = version
        self._did("SET TRANSACTION", {"appId": app_id, "version": version})

    # --- the end

    def commit(self) -> int | None:
        """Commit everything in one version. After it the transaction is over.

        Returns:
            the version that was made; None where there was nothing to do, or the `txn` is recorded already.

        Raises:
            DeltaConcurrentModificationException: another writer was first, and it matters; nothing was committed.
            CommitOutcomeUnknownError: the storage would not tell whether the commit arrived.
        """
        self._check_open()
        self._is_open = False
        try:
            transaction = self._transaction()
        except BaseException:  # nothing was sent to the log yet
            self._discard()
            raise
        if transaction is None:
            self._discard()
            return None
        try:
            self.version = transaction.commit()
        except CommitOutcomeUnknownError:
            raise
        except DeltaError as error:
            self._discard()
            if not isinstance(error, WriteAlreadyRecordedError):
                raise
        return self.version

    def _check_open(self) -> None:
        if not self._is_open:
            raise UnsupportedOperationError(
                operation="Continuing a transaction",
                table=self.table.url,
                detail="it has ended",
                remedy="Begin a new one with Table.transaction().",
            )

    def _transaction(self) -> Transaction | None:
        """What is to be committed; None where that is nothing."""
        if self._is_recorded():
            return None
        marks, removes = self._finished_deletes()
        actions = self._actions([*removes, *self._adds, *self._added_again()])
        if not actions and not marks:
            return None
        operation, parameters = self._told()
        return Transaction(
            log=self.table.log,
            base=self.snapshot,
            actions=actions,
            marks=marks,
            operation=operation,
            intent=self._intent(frozenset(self._deleted.keys() - marks.keys())),
            parameters=parameters,
            metrics=self._metrics,
            user_metadata=self._user_metadata,
            engine=self._engine,
            once=self._txn[0] if self._txn else None,
        )

    def _finished_deletes(self) -> tuple[dict[str, Mark], list[Action]]:
        """The files to be marked, and the removes of others: of whole files, and, where the table has no vectors, of files whose other rows
        are written again.
        """
        marks = {key: mark for key, mark in self._deleted.items() if key not in self._whole} if self._has_vectors() else {}
        removed = [mark for key, mark in self._deleted.items() if key not in marks]
        self._check_may_copy(removed)
        for mark in removed:
            if not self._is_whole(mark):
                self._copy_rest(mark)
        now_ms = self.table.env.clock_ms()
        return marks, [remove_of(mark.file, now_ms) for mark in removed]

    def _copy_rest(self, mark: Mark) -> None:
        """Write the rows of a file that stay."""
        current = self._current
        rest = read_file(current, mark.file, mark.rows)
        plan = plan_existing(self.table, WriteRequest(mode="append", schema=current.schema), current)
        adds = [plan.add(file) for file in write_files(plan, rest, are_new=False)]
        self._adds += adds
        self._count(numCopiedRows=rest.num_rows, numAddedFiles=len(adds))

    def _is_recorded(self) -> bool:
        recorded = None if self._txn is None else self.snapshot.txn_version(self._txn[0])
        return self._txn is not None and recorded is not None and recorded >= self._txn[1]

    def _recorded(self) -> dict[str, int]:
        return self._txns | (dict([self._txn]) if self._txn else {})

    def _actions(self, files: Iterable[Action]) -> list[Action]:
        definition, snapshot = self._definition, self.snapshot
        protocol = [definition.protocol] if definition.protocol != snapshot.protocol else []
        metadata = [definition.metadata] if definition.metadata != snapshot.metadata else []
        now_ms = self.table.env.clock_ms()
        txns = [Txn(app_id=app, version=version, last_updated_ms=now_ms) for app, version in self._recorded().items()]
        return [*protocol, *metadata, *self._domains.values(), *txns, *files]

    def _added_again(self) -> list[Add]:
        """The files that get row ids now that rows are tracked, or lose them. Protocol: "Row Tracking"."""
        before, after = (ROW_TRACKING in supported_features(protocol) for protocol in (self.snapshot.protocol, self._definition.protocol))
        if not self._begins(assigns_row_ids) and (after or not before):
            return []
        live = (add for add in self.snapshot.live.adds() if (add.base_row_id is None) == after)
        bare = (replace(add, base_row_id=None, default_row_commit_version=None, data_change=False) for add in live)
        return [add for add in bare if self._canonical(add.path) not in self._deleted]

    def _intent(self, removed: frozenset[str]) -> Intent:
        reads = AnyRead(tuple(self._reads)) if self._reads else None
        is_alone = self._is_alone or self._begins(assigns_row_ids) or self._begins(keeps_partitions_in_files)
        return Intent(reads=reads, is_exact=self._is_exact, is_alone=is_alone, removed_paths=removed, app_ids=frozenset(self._recorded()))

    def _begins(self, rule: Callable[[Protocol, Metadata], bool]) -> bool:
        """Whether a rule on every file of the table holds once this is committed, and did not before."""
        before, after = self.snapshot, self._definition
        return rule(after.protocol, after.metadata) and not rule(before.protocol, before.metadata)

    def _told(self) -> tuple[str, Mapping[str, Any]]:
        """What the history says: the one operation there is, or the names of all."""
        if len(self._operations) == 1:
            only = self._operations[0]
            return self._operation or only.name, only.parameters
        return self._operation or TRANSACTION, {"operations": [operation.name for operation in self._operations]}

    def _did(self, name: str, parameters: Mapping[str, Any], **metrics: int) -> None:
        self._operations.append(_Operation(name=name, parameters=parameters))
        self._count(**metrics)

    def _count(self, **metrics: int) -> None:
        for name, count in metrics.items():
            self._metrics[name] = self._metrics.get(name, 0) + count

    def _discard(self) -> None:
        """Delete what was written and will never be committed."""
        for add in self._adds:
            store, key = self.table.log.locate(resolve_path(add.path, self.table.url))
            store.delete(key)
        self._adds.clear()

    def _canonical(self, path: str) -> str:
        return self.table.log.canonical(path)

    def _invalid(self, option: str, value: object, detail: str) -> InvalidOptionError:
        return InvalidOptionError(option=option, value=value, table=self.table.url, detail=detail)


def _has_still(schema: Struct, path: tuple[str, ...], field: Field) -> bool:
    """Whether a path leads to the same column as before: to one of the same id, where columns have ids."""
    found = next((f for known, f in walk_fields(schema) if known == path), None)
    return found is not None and column_id(found) == column_id(field)


def _protocol_text(definition: TableConfiguration) -> str:
    protocol = definition.protocol
    return f"{protocol.reader_version},{protocol.writer_version},{','.join(sorted(protocol.writer_features or ()))}"
