"""Several changes to a table in one commit.

    with table.transaction() as changes:
        changes.delete("day < date'2026-01-01'")
        changes.append(rows)
        changes.set_domain("app.progress", "42")

Protocol: "Actions"; paper §3.2. Everything is planned on the snapshot with which the transaction began: rows that it appends are not among
those that it deletes. Nothing is visible before the end; where another writer was first and it matters, nothing is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from tahoe._cached import cached_property
from tahoe.errors import CommitOutcomeUnknownError, DeltaError, InvalidOptionError, UnsupportedOperationError, WriteAlreadyRecordedError
from tahoe.protocol.actions import Action, Add, DomainMetadata, Txn, remove_of
from tahoe.protocol.conflict import Intent
from tahoe.protocol.constraints import Constraint
from tahoe.protocol.definition import Definition
from tahoe.protocol.features import check_writable
from tahoe.protocol.partitions import resolve_path
from tahoe.protocol.predicate import TRUE, Or, Predicate
from tahoe.protocol.properties import ENABLE_CHANGE_DATA_FEED, ENABLE_DELETION_VECTORS, ENABLE_ROW_TRACKING
from tahoe.protocol.row_tracking import assigns_row_ids
from tahoe.protocol.schema import Struct
from tahoe.sql.predicates import parse_predicate
from tahoe.table.arrow_writer import write_files
from tahoe.table.constraints import check_rows
from tahoe.table.marks import Mark, num_records
from tahoe.table.read_set import RowsRead
from tahoe.table.rows import matching_rows, read_file, read_rows
from tahoe.table.scan import Scan
from tahoe.table.snapshot import Snapshot
from tahoe.table.transaction import Transaction
from tahoe.table.types import delta_schema
from tahoe.table.vectors import deleted_rows
from tahoe.table.writing import WritePlan, WriteRequest, plan_existing

if TYPE_CHECKING:
    from tahoe.table.table import Table

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

    Attributes:
        snapshot: the table as it is read.
        version: the version that was made; None before the end, and where there was nothing to commit.
    """

    def __init__(
        self,
        table: Table,
        *,
        operation: str | None = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        engine: str | None = None,
    ) -> None:
        self.table = table
        self.snapshot: Snapshot = table.snapshot()
        self.version: int | None = None
        self._definition = Definition(table=table.url, protocol=self.snapshot.protocol, metadata=self.snapshot.metadata)
        self._operation, self._txn, self._user_metadata, self._engine = operation, txn, user_metadata, engine
        self._operations: list[_Operation] = []
        self._metrics: dict[str, int] = {}
        self._adds: dict[str, Add] = {}
        self._removed: dict[str, Add] = {}
        self._marks: dict[str, Mark] = {}
        self._domains: dict[str, DomainMetadata] = {}
        self._txns: dict[str, int] = {}
        self._reads: list[tuple[Predicate, str]] = []
        self._is_exact = True

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit()
        else:
            self._discard()

    # --- reading

    def scan(self, filter: str | Predicate | None = None) -> Scan:
        """The files that may hold matching rows. What others do to such rows before the commit is a conflict from now on.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the text cannot be understood.
        """
        predicate = self._predicate(filter)
        self._reads.append((predicate, filter if isinstance(filter, str) else "the whole table" if filter is None else "a predicate"))
        self._is_exact = False
        return self.snapshot.scan(predicate)

    def to_arrow(self, columns: Iterable[str] | None = None, filter: str | Predicate | None = None) -> pa.Table:
        """The rows, as `Snapshot.to_arrow`; they count as read."""
        return read_rows(self.scan(filter), None if columns is None else list(columns))

    def _predicate(self, filter: str | Predicate | None) -> Predicate:
        if isinstance(filter, str):
            return parse_predicate(filter, self.snapshot.schema, table=self.table.url, zone=self.table.log.zone)
        return TRUE if filter is None else filter

    # --- rows

    def append(self, data: pa.Table, *, merge_schema: bool = False) -> int:
        """Add the rows of an Arrow table. The files are written now, and go again where nothing is committed.

        Returns:
            how many files were written.

        Raises:
            DeltaAnalysisError: the data does not fit the table, or a row breaks a constraint.
        """
        schema = delta_schema(data.schema, table=self.table.url)
        plan = self._plan(WriteRequest(mode="append", schema=schema, merge_schema=merge_schema))
        self._definition = replace(self._definition, protocol=plan.protocol, metadata=plan.metadata)
        self._did("WRITE", {"mode": "Append", "partitionBy": list(plan.partition_columns)}, numOutputRows=data.num_rows)
        return self._write(plan, data)

    def _plan(self, request: WriteRequest) -> WritePlan:
        changed = replace(self.snapshot, protocol=self._definition.protocol, metadata=self._definition.metadata)
        return plan_existing(self.table, request, changed)

    def _write(self, plan: WritePlan, data: pa.Table) -> int:
        adds = [plan.add(file) for file in write_files(plan, data)]
        self._adds.update({self._canonical(add.path): add for add in adds})
        self._count(numAddedFiles=len(adds), numFiles=len(adds), numOutputBytes=sum(add.size_bytes for add in adds))
        return len(adds)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove whole files of the table, by their paths as `Scan.listing` shows them, relative or absolute.

        Raises:
            InvalidOptionError: the table has no such file.
            AppendOnlyTableError: the table only takes appends.
        """
        self._check_removes_data()
        wanted = {self._canonical(path): path for path in paths}
        for key, add in [(key, self._file(path)) for key, path in wanted.items()]:
            self._remove(key, add)
        self._did("REMOVE", {"paths": list(wanted.values())})

    def mark_deleted(self, path: str, rows: Iterable[int]) -> int:
        """Delete rows of one file by their positions in it, through its deletion vector.

        Returns:
            how many rows were there still.

        Raises:
            InvalidOptionError: the table has no such file, or the file no such row.
            UnsupportedOperationError: the table has no deletion vectors.
        """
        self._check_removes_data()
        self._check_has_vectors()
        key, add, wanted = self._canonical(path), self._file(path), sorted(rows)
        total = num_records(self.table.log, add, self.snapshot.version)
        if wanted and not 0 <= wanted[0] <= wanted[-1] < total:
            raise self._invalid("rows", wanted[-1] if wanted[0] >= 0 else wanted[0], f"{path} has the rows 0 to {total - 1}")
        marked = self._mark(key, add, BitMap64(wanted))
        self._did("DELETE", {"path": path}, numDeletedRows=marked)
        return marked

    def delete(self, where: str | Predicate | None = None) -> int:
        """Delete the rows for which a condition is true, all if None: through deletion vectors where the table has them
        (`delta.enableDeletionVectors`), else by writing the other rows of their files again.

        Returns:
            how many rows were deleted.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the condition cannot be understood without Spark.
            AppendOnlyTableError: the table only takes appends.
        """
        self._check_removes_data()
        predicate = self._predicate(where)
        text = where if isinstance(where, str) else "true" if where is None else "a predicate"
        self._reads.append((predicate, text))
        deleted = sum(self._delete_from(add, predicate) for add in self.snapshot.scan(predicate).adds())
        self._did("DELETE", {"predicate": text}, numDeletedRows=deleted)
        return deleted

    def _delete_from(self, add: Add, predicate: Predicate) -> int:
        key = self._canonical(add.path)
        if key in self._removed:
            return 0
        matching = BitMap64(np.flatnonzero(matching_rows(self.snapshot, add, predicate)).tolist())
        if ENABLE_DELETION_VECTORS.get(self._definition.properties, table=self.table.url):
            return self._mark(key, add, matching)
        gone = matching - deleted_rows(self.table.log, add)
        if not gone:
            return 0
        live = num_records(self.table.log, add, self.snapshot.version) - (add.deletion_vector.cardinality if add.deletion_vector else 0)
        self._remove(key, add)
        if len(gone) < live:
            self._rewrite(add, matching)
        return len(gone)

    def _rewrite(self, add: Add, without: BitMap64) -> None:
        """Write the rows of a file that stay."""
        for switch, problem in _STAYING_ROWS_MATTER.items():
            if switch.get(self._definition.properties, table=self.table.url):
                raise UnsupportedOperationError(
                    operation="Deleting some rows of a file",
                    table=self.table.url,
                    detail=problem,
                    remedy="Set delta.enableDeletionVectors=true, with which they stay where they are.",
                )
        kept = read_file(self.snapshot, add, without)
        self._count(numCopiedRows=kept.num_rows)
        self._write(self._plan(WriteRequest(mode="append", schema=self.snapshot.schema)), kept)

    def _file(self, path: str) -> Add:
        add = self._files.get(self._canonical(path))
        if add is None:
            raise self._invalid("path", path, f"version {self.snapshot.version} has no such file")
        return add

    @cached_property
    def _files(self) -> dict[str, Add]:
        return {self._canonical(add.path): add for add in self.snapshot.live.adds()}

    def _mark(self, key: str, add: Add, rows: BitMap64) -> int:
        known = self._marks.get(key)
        before = deleted_rows(self.table.log, add) | (BitMap64() if known is None else known.rows)
        new = rows - before
        if new and key not in self._removed:
            self._marks[key] = Mark(file=add, rows=new if known is None else known.rows | new)
            return len(new)
        return 0

    def _remove(self, key: str, add: Add) -> None:
        self._marks.pop(key, None)
        self._removed[key] = add

    def _check_removes_data(self) -> None:
        check_writable(self._definition.protocol, self._definition.metadata, table=self.table.url, removes_data=True)

    def _check_has_vectors(self) -> None:
        if not ENABLE_DELETION_VECTORS.get(self._definition.properties, table=self.table.url):
            raise UnsupportedOperationError(
                operation="Marking rows as deleted",
                table=self.table.url,
                detail="delta.enableDeletionVectors is not true",
                remedy="Set the property first, in this transaction or before, or use delete(), which writes files again.",
            )

    # --- what the table says of itself

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set table properties, known and the user's own; `delta.feature.<name>` = supported adds a feature, `comment` is the description.

        Raises:
            InvalidPropertyError: one that does not exist, that only writers set, or whose value cannot be.
            DeltaProtocolError: it switches a rule on that tahoe does not keep yet.
        """
        changed = self._definition.with_properties(properties, self.table.env.new_id)
        self._define(changed, _Operation(name="SET TBLPROPERTIES", parameters={"properties": dict(properties)}))

    def unset_properties(self, names: Iterable[str], *, if_exists: bool = False) -> None:
        """Remove table properties, so that their defaults hold.

        Raises:
            InvalidPropertyError: one that is not set, or that only writers set.
        """
        asked = list(names)
        changed = self._definition.without_properties(asked, if_exists=if_exists)
        self._define(changed, _Operation(name="UNSET TBLPROPERTIES", parameters={"properties": asked, "ifExists": if_exists}))

    def set_schema(self, schema: Struct | pa.Schema) -> None:
        """Give the table another schema in which its rows can still be read; see `Definition.with_schema` for what may change.

        Raises:
            SchemaMismatchError, DuplicateColumnsError: the files do not allow it.
        """
        wanted = schema if isinstance(schema, Struct) else delta_schema(schema, table=self.table.url)
        changed = self._definition.with_schema(wanted, self.table.env.new_id)
        self._define(changed, _Operation(name="UPDATE SCHEMA", parameters={"schema": wanted.to_json()}))

    def add_constraint(self, name: str, expression: str) -> None:
        """Add a CHECK constraint, an SQL condition that every row must satisfy. The rows that are there are looked at first.

        Raises:
            CheckConstraintViolatedError: a row that is there does not satisfy it.
            InvalidPropertyError: there is one of that name.
            InvalidPredicateError, ColumnNotFoundError: it cannot be understood without Spark.
        """
        changed = self._definition.with_constraint(name, expression)
        constraint = Constraint(name=name, expression=expression)
        check_rows(self.to_arrow(), [constraint], self.snapshot.schema, table=self.table.url, zone=self.table.log.zone)
        self._define(changed, _Operation(name="ADD CONSTRAINT", parameters={"name": name, "expr": expression}))

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a CHECK constraint.

        Raises:
            InvalidPropertyError: there is none of that name.
        """
        changed = self._definition.without_constraint(name, if_exists=if_exists)
        self._define(changed, _Operation(name="DROP CONSTRAINT", parameters={"name": name, "existsOk": if_exists}))

    def upgrade_protocol(
        self, reader_version: int | None = None, writer_version: int | None = None, *, features: Iterable[str] = ()
    ) -> None:
        """Raise the protocol to at least these versions, and add features.

        Raises:
            InvalidPropertyError: a version or a feature that does not exist.
            DeltaProtocolError: it switches a rule on that tahoe does not keep yet.
        """
        changed = self._definition.with_protocol(reader_version, writer_version, features)
        self._define(changed, _Operation(name="UPGRADE PROTOCOL", parameters={"newProtocol": _protocol_text(changed)}))

    def _define(self, changed: Definition, operation: _Operation) -> None:
        check_writable(changed.protocol, changed.metadata, table=self.table.url)
        if changed == self._definition:
            return
        self._definition = changed
        self._operations.append(operation)

    def set_domain(self, domain: str, configuration: str | None) -> None:
        """Set the text of a metadata domain, or remove the domain with None. Those of features (`delta.*`) are not for users.

        Raises:
            InvalidOptionError: the domain belongs to a feature, or is not there to be removed.
        """
        if domain.lower().startswith(_SYSTEM_DOMAINS):
            raise self._invalid("domain", domain, "domains that begin with delta. belong to the protocol's features")
        known = self.snapshot.domains.get(domain)
        if configuration is None and known is None:
            raise self._invalid("domain", domain, "the table has no such domain")
        changed = self._definition.with_protocol(None, None, ["domainMetadata"])
        check_writable(changed.protocol, changed.metadata, table=self.table.url)
        self._definition = changed
        text = known.configuration if configuration is None and known is not None else configuration or ""
        self._domains[domain] = DomainMetadata(domain=domain, configuration=text, removed=configuration is None)
        self._did("SET DOMAIN", {"domain": domain})

    def set_txn(self, app_id: str, version: int) -> None:
        """Record the version of an application, whatever is recorded now: it may be lowered. See `txn` of `Table.transaction` for a write
        that is made once.
        """
        self._txns[app_id] = version
        self._did("SET TRANSACTION", {"appId": app_id, "version": version})

    # --- the end

    def commit(self) -> int | None:
        """Commit everything in one version. After it the transaction is over.

        Returns:
            the version that was made; None where there was nothing to do, or the `txn` is recorded already.

        Raises:
            DeltaConcurrentModificationException: another writer was first, and it matters; nothing was committed.
        """
        actions = self._actions()
        if self._is_recorded() or not (actions or self._marks):
            self._discard()
            return None
        try:
            self.version = self._transaction(actions).commit()
        except CommitOutcomeUnknownError:
            raise
        except WriteAlreadyRecordedError:
            self._discard()
            if self._txn is None:
                raise
        except DeltaError:
            self._discard()
            raise
        return self.version

    def _transaction(self, actions: list[Action]) -> Transaction:
        operation, parameters = self._told()
        return Transaction(
            log=self.table.log,
            base=self.snapshot,
            actions=actions,
            marks=self._marks,
            operation=operation,
            intent=self._intent(),
            parameters=parameters,
            metrics=self._metrics,
            user_metadata=self._user_metadata,
            engine=self._engine,
        )

    def _is_recorded(self) -> bool:
        recorded = None if self._txn is None else self.snapshot.txn_version(self._txn[0])
        return self._txn is not None and recorded is not None and recorded >= self._txn[1]

    def _actions(self) -> list[Action]:
        """All but what marks come to."""
        now_ms = self.table.env.clock_ms()
        definition, snapshot = self._definition, self.snapshot
        defined: list[Action] = [*([definition.protocol] if definition.protocol != snapshot.protocol else [])]
        defined += [definition.metadata] if definition.metadata != snapshot.metadata else []
        removes = [remove_of(add, now_ms) for add in self._removed.values()]
        changed = [*defined, *self._domains.values(), *removes, *self._adds.values(), *self._without_row_ids()]
        recorded = self._txns | (dict([self._txn]) if self._txn else {})
        return [*changed, *(Txn(app_id=app, version=version, last_updated_ms=now_ms) for app, version in recorded.items())]

    def _without_row_ids(self) -> list[Add]:
        """The files that get ids now that rows are tracked. Protocol: "Row Tracking"."""
        before = assigns_row_ids(self.snapshot.protocol, self.snapshot.metadata)
        if before or not assigns_row_ids(self._definition.protocol, self._definition.metadata):
            return []
        touched = {*self._removed, *self._marks}
        return [replace(a, data_change=False) for path, a in self._files.items() if a.base_row_id is None and path not in touched]

    def _intent(self) -> Intent:
        reads = list(self._reads)
        if self._without_row_ids():  # a file that came in between would have none
            reads.append((TRUE, "all files, which get row ids"))
        predicates = tuple(predicate for predicate, _ in reads)
        return Intent(
            reads=RowsRead(self.snapshot, Or(predicates), " or ".join(text for _, text in reads)) if reads else None,
            is_exact=self._is_exact and len(reads) == len(self._reads),
            removed_paths=frozenset(self._removed),
            app_ids=frozenset(self._txns | (dict([self._txn]) if self._txn else {})),
        )

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
        for add in self._adds.values():
            store, key = self.table.log.locate(resolve_path(add.path, self.table.url))
            store.delete(key)
        self._adds.clear()

    def _canonical(self, path: str) -> str:
        return self.table.log.canonical(path)

    def _invalid(self, option: str, value: object, detail: str) -> InvalidOptionError:
        return InvalidOptionError(option=option, value=value, table=self.table.url, detail=detail)


def _protocol_text(definition: Definition) -> str:
    protocol = definition.protocol
    return f"{protocol.reader_version},{protocol.writer_version},{','.join(sorted(protocol.writer_features or ()))}"
