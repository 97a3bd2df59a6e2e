"""An open transaction of several changes: its draft, its read set, and its entry in the history.

Protocol: "Actions"; paper §3.2. The changes are in `row_edits`, `table_edits` and `column_edits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyroaring import BitMap64

from tahoe.errors import InvalidOptionError, UnsupportedOperationError
from tahoe.protocol.changes.constraints import Constraint
from tahoe.protocol.changes.table_configuration import TableConfiguration
from tahoe.protocol.configuration.features import keeps_partitions_in_files, setting, supported_features
from tahoe.protocol.configuration.properties import FeatureProperty
from tahoe.protocol.configuration.row_tracking import FEATURE as ROW_TRACKING
from tahoe.protocol.configuration.row_tracking import assigns_row_ids
from tahoe.protocol.configuration.universal_format import has_iceberg
from tahoe.protocol.log.actions import Add, Metadata, Protocol
from tahoe.protocol.types.predicate import TRUE
from tahoe.table.arguments import FILTER, NAMES, takes
from tahoe.table.commit.draft import Draft, OperationInfo
from tahoe.table.commit.row_deletions import alive_records, num_records, with_counted_rows
from tahoe.table.log.deletion_vectors import deleted_rows
from tahoe.table.reading.filters import Filter, predicate_of
from tahoe.table.reading.physical_rows import PhysicalRows
from tahoe.table.reading.read_set import AnyRead, RowsRead
from tahoe.table.reading.rows import read_rows
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader

# The operation of a commit with several changes, if the user gave no name.
TRANSACTION = "TRANSACTION"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """One of the changes, as the history records it."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


class OpenTransaction:
    """The state that all changes of a transaction share. Made by `Table.transaction`.

    Args:
        check: checks a condition on the rows of a snapshot, and raises CheckConstraintViolatedError. None uses Arrow,
            which can evaluate fewer conditions.

    Attributes:
        snapshot: the table at the start of the transaction.
        version: the version that was committed; None before the commit, or if there was nothing to commit.
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
        self._draft = Draft(
            log=table.log,
            base=self.snapshot,
            protocol=self.snapshot.protocol,
            metadata=self.snapshot.metadata,
            txn=txn,
            is_exact=True,
        )
        self._reads: list[RowsRead] = []
        self._rows = PhysicalRows()
        # what is in change data files already: rows by the canonical path of their file, and added files
        self._recorded_rows: dict[str, BitMap64] = {}
        self._recorded_adds: set[str] = set()
        self._operation, self._user_metadata, self._engine = operation, user_metadata, engine
        self._operations: list[_Operation] = []
        self._metrics: dict[str, int | None] = {}  # None where a count is unknown
        self._copied_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        if kind is None:
            self.commit()
        else:
            self._is_open = False
            self._rows.forget()
            self._draft.discard()

    @property
    def url(self) -> str:
        """The table's location."""
        return self.table.url

    def __repr__(self) -> str:
        state = (
            "open"
            if self._is_open
            else "nothing committed"
            if self.version is None
            else f"committed as version {self.version}"
        )
        made = ", ".join(operation.name for operation in self._operations)
        return f"Transaction({self.url!r}, {state}{f': {made}' if made else ''})"

    # --- reading

    @takes(filter=FILTER)
    def scan(self, filter: Filter | None = None) -> Scan:
        """The files that may contain matching rows. From now on, changes of such rows by other writers conflict.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the text is not a valid predicate over the table's columns.
        """
        read = self._read(filter)
        self._reads.append(read)
        self._draft.is_exact = False
        return read.snapshot.scan(read.predicate)

    @takes(columns=NAMES, filter=FILTER)
    def to_arrow(self, columns: Iterable[str] | None = None, filter: Filter | None = None) -> pa.Table:
        """The rows that the table had when the transaction began, as `Snapshot.to_arrow`; they are added to the read
        set.
        """
        return read_rows(self.scan(filter), None if columns is None else list(columns))

    def _read(self, filter: Filter | None) -> RowsRead:
        self._check_open()
        current = self._current
        if filter is None:
            return RowsRead(current, TRUE, "the whole table")
        predicate = predicate_of(filter, current.schema, zone=self.table.log.zone, table=current.url)
        return RowsRead(current, predicate, filter if isinstance(filter, str) else str(filter))

    # --- the table after the changes so far

    @property
    def _configuration(self) -> TableConfiguration:
        return TableConfiguration(table=self.table.url, protocol=self._draft.protocol, metadata=self._draft.metadata)

    @_configuration.setter
    def _configuration(self, changed: TableConfiguration) -> None:
        self._draft.protocol, self._draft.metadata = changed.protocol, changed.metadata

    @property
    def _current(self) -> Snapshot:
        """The snapshot with the table configuration and the domains after the changes so far."""
        definition, known = self._configuration, {**self.snapshot.domains, **self._draft.domains}
        domains = {name: domain for name, domain in known.items() if not domain.removed}
        return replace(self.snapshot, protocol=definition.protocol, metadata=definition.metadata, domains=domains)

    def _is_on(self, switch: FeatureProperty[bool]) -> bool:
        return setting(switch, self._draft.protocol, self._draft.metadata.configuration, table=self.table.url)

    def _left(self, add: Add) -> BitMap64:
        """The row indexes of a file's rows that are not deleted, by this transaction or before."""
        key = self._canonical(add.path)
        if key in self._draft.removed:
            return BitMap64()
        deleted = self._draft.deleted[key].rows if key in self._draft.deleted else BitMap64()
        return self._alive(add) - deleted

    def _alive(self, add: Add) -> BitMap64:
        """The row indexes of the rows that a file had when the transaction began."""
        return BitMap64(range(self._num_records(add))) - deleted_rows(self.table.log, add)

    def _num_records(self, add: Add) -> int:
        return num_records(self.table.log, add, self.snapshot.version)

    # --- commit

    def commit(self) -> int | None:
        """Commit all changes in one version, and close the transaction.

        Returns:
            the version that was committed; None if there was nothing to do, or the `txn` is already recorded.

        Raises:
            DeltaConcurrentModificationException: a winner conflicts; nothing was committed.
            CommitOutcomeUnknownError: the storage did not tell whether the commit was written.
        """
        self._check_open()
        self._is_open = False
        try:
            return self._committed()
        finally:
            self._rows.forget()

    def _committed(self) -> int | None:
        with self._draft as draft:
            if not draft.is_recorded:
                self._finish()
                if not draft.is_empty:
                    self.version = draft.commit(self._operation_info())
                    return self.version
            draft.discard()
        return None

    def _finish(self) -> None:
        """Complete the draft."""
        draft = self._draft
        draft.reads = AnyRead(tuple(self._reads)) if self._reads else None
        rules = (assigns_row_ids, keeps_partitions_in_files, _has_iceberg)
        draft.is_alone = draft.is_alone or any(map(self._begins, rules))
        self._add_again()

    def _add_again(self) -> None:
        """Add files again because the commit enables row ids, which they get, or drops row tracking. Protocol: "Row
        Tracking".
        """
        before, after = (
            ROW_TRACKING in supported_features(protocol)
            for protocol in (self.snapshot.protocol, self._configuration.protocol)
        )
        if not self._begins(assigns_row_ids) and (after or not before):
            return
        draft, marked, gone = self._draft, self._draft.by_vector, self._draft.removed_files
        adds = (add for add in self.snapshot.full_scan.adds() if (add.base_row_id is None) == after)
        bares = [
            add.replace(base_row_id=None, default_row_commit_version=None)
            for add in adds
            if self._canonical(add.path) not in gone
        ]
        for bare in with_counted_rows(self.table.log, bares, self.snapshot.version) if after else bares:
            if (key := self._canonical(bare.path)) in marked:  # it is added with its new vector
                draft.delete_rows([replace(marked[key], file=bare)])
            else:
                draft.adds.append(bare.replace(data_change=False))

    def _begins(self, rule: Callable[[Protocol, Metadata], bool]) -> bool:
        """Whether the commit enables a rule on all files of the table."""
        before, after = self.snapshot, self._configuration
        return rule(after.protocol, after.metadata) and not rule(before.protocol, before.metadata)

    def _operation_info(self) -> OperationInfo:
        """The history entry: the only operation, or the names of all."""
        name, parameters = TRANSACTION, {"operations": [operation.name for operation in self._operations]}
        if len(self._operations) == 1:
            name, parameters = self._operations[0].name, dict(self._operations[0].parameters)
        return OperationInfo(
            operation=self._operation or name,
            parameters=parameters,
            metrics={
                **{metric: count for metric, count in self._metrics.items() if count is not None},
                **(self._file_metrics(name) if self._metrics else {}),
            },
            user_metadata=self._user_metadata,
            engine=self._engine,
        )

    def _file_metrics(self, operation: str) -> dict[str, int]:
        """How many files and deletion vectors the commit adds and removes, under the reference's names."""
        draft, is_merge = self._draft, operation == "MERGE"
        vectors = draft.by_vector.values()
        partly = [each.file for each in vectors if len(each.rows) != alive_records(each.file)]
        wholly = [each.file for each in vectors if len(each.rows) == alive_records(each.file)]
        removed = [*draft.removed_files.values(), *wholly]
        replaced = [*partly, *removed] if draft.deletes_by_vector else []

        def name(what: str, done: str) -> str:
            return f"numTarget{what}{done}" if is_merge else f"num{done}{what}"

        prefix = "numTarget" if is_merge else "num"
        return {
            name("Files", "Added"): len(draft.adds),
            name("Bytes", "Added"): sum(file.size_bytes for file in draft.adds),
            name("Files", "Removed"): len(removed),
            name("Bytes", "Removed"): sum(file.size_bytes for file in removed),
            name("ChangeFiles", "Added"): len(draft.change_files),
            f"{prefix}DeletionVectorsAdded": len(partly),
            f"{prefix}DeletionVectorsRemoved": sum(file.deletion_vector is not None for file in replaced),
            f"{prefix}DeletionVectorsUpdated": sum(file.deletion_vector is not None for file in partly),
            "numTargetRowsCopied" if is_merge else "numCopiedRows": self._copied_rows,
        }

    def _check_open(self) -> None:
        if not self._is_open:
            raise UnsupportedOperationError(
                operation="Continuing a transaction",
                table=self.table.url,
                detail="the transaction has ended",
                remedy="Begin a new one with Table.transaction().",
            )

    def _did(self, name: str, parameters: Mapping[str, Any], **metrics: int | None) -> None:
        self._operations.append(_Operation(name=name, parameters=parameters))
        self._count(**metrics)

    def _count(self, **metrics: int | None) -> None:
        for name, count in metrics.items():
            before = self._metrics.get(name, 0)
            self._metrics[name] = None if before is None or count is None else before + count

    def _canonical(self, path: str) -> str:
        return self.table.log.canonical(path)

    def _invalid(self, option: str, value: object, detail: str) -> InvalidOptionError:
        return InvalidOptionError(option=option, value=value, table=self.table.url, detail=detail)


def _has_iceberg(_: Protocol, metadata: Metadata) -> bool:
    return has_iceberg(metadata.configuration)
