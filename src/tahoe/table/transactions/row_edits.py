"""Changes of rows in a transaction, without Spark: append, remove and delete.

Protocol: "Add File and Remove File", "Writer Requirements for Deletion Vectors", "Change Data Files". Without deletion
vectors, the remaining rows of a file are rewritten with their row ids, and a change data feed gets change data files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tahoe.errors import ColumnNotFoundError, DataFileMissingError, InvalidDataFileError, InvalidPredicateError
from tahoe.protocol.configuration.features import check_writable
from tahoe.protocol.configuration.properties import ENABLE_CHANGE_DATA_FEED
from tahoe.protocol.log.actions import Add, Cdc
from tahoe.protocol.log.file_paths import encode_path
from tahoe.protocol.types.predicate import columns_of, has_unknown
from tahoe.protocol.types.schema import Struct
from tahoe.storage.threads import in_threads
from tahoe.table.arguments import FILTER, FLAG, NAMES, POSITIONS, STREAM, TEXT, takes
from tahoe.table.arrow.given_rows import Data
from tahoe.table.commit.row_deletions import RowDeletion, alive_records
from tahoe.table.reading.filters import Filter, predicate_of
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.skipping import decided_by_partition
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.transactions.open_transaction import OpenTransaction
from tahoe.table.writing.arrow_writer import (
    Must,
    StagedRows,
    append_hidden_columns,
    delete_files,
    schema_of_rows,
    write_again,
    write_change_files,
)
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.planning import plan_existing
from tahoe.table.writing.write_plan import WritePlan, with_minted
from tahoe.table.writing.write_request import WriteRequest, WrittenFile


def must_satisfy(where: Filter, snapshot: Snapshot) -> Must:
    """What the new rows of a replacement must satisfy: a condition over columns that the table has.

    Raises:
        InvalidPredicateError, ColumnNotFoundError: it does not fit the schema.
    """
    schema = snapshot.schema
    predicate = predicate_of(where, schema, zone=snapshot.log.zone, table=snapshot.url)
    for column in columns_of(predicate):
        if schema.resolve(column.path) is None:
            raise ColumnNotFoundError(table=snapshot.url, column=".".join(column.path), columns=", ".join(schema.names))
    return Must(predicate, str(where))


class RowEdits(OpenTransaction):
    """A transaction that can append and delete rows."""

    @takes(data=STREAM, merge_schema=FLAG)
    def append(self, data: Data, *, merge_schema: bool = False) -> int:
        """Add rows; see `Table.append` for the data. The files are written now, and deleted if the transaction is not
        committed.

        Returns:
            the number of files written.

        Raises:
            DeltaAnalysisError: the data does not fit the table, or a row violates a constraint.
        """
        self._check_open()
        rows: Any = data  # `takes` has made it `Rows`
        return self._append(StagedRows(rows), schema_of_rows(rows, table=self.url), merge_schema=merge_schema)

    @takes(data=STREAM, where=FILTER, merge_schema=FLAG)
    def replace(self, data: Data, where: Filter, *, merge_schema: bool = False) -> int:
        """Replace the rows for which a condition is true by others, which must all satisfy it.

        Returns:
            the number of files written.

        Raises:
            ReplaceWhereMismatchError: a new row does not satisfy the condition.
            DeltaAnalysisError: as for `append` and `delete`.
        """
        self._check_open()
        rows: Any = data  # `takes` has made it `Rows`
        staged = StagedRows(rows, must_satisfy(where, self._current))
        return self._replace(staged, schema_of_rows(rows, table=self.url), where, merge_schema=merge_schema)

    def _replace(self, rows: StagedRows, schema: Struct, where: Filter, *, merge_schema: bool) -> int:
        before = len(self._operations)
        count = self._append(rows, schema, merge_schema=merge_schema)
        self.delete(where)
        del self._operations[before:]  # for the history it is one
        partition_by = list(self._draft.metadata.partition_columns)
        self._did("WRITE", {"mode": "Overwrite", "partitionBy": partition_by, "predicate": str(where)})
        return count

    def _append(self, rows: StagedRows, schema: Struct, *, merge_schema: bool) -> int:
        """Add files with new rows to the draft, with the schema and the identity values that come with them; returns
        their number.
        """
        plan = self._plan(schema, merge_schema=merge_schema, casts=Casts.KEPT)
        files = rows.files(plan)
        self._draft.on_discard(rows.discard)
        adds = [plan.add(file) for file in files]
        self._draft.adds += adds
        self._configuration = replace(
            self._configuration, protocol=plan.protocol, metadata=with_minted(plan.metadata, files)
        )
        size_bytes = sum(add.size_bytes for add in adds)
        parameters = {"mode": "Append", "partitionBy": list(plan.partition_columns)}
        self._did("WRITE", parameters, numOutputRows=rows.num_rows, numFiles=len(adds), numOutputBytes=size_bytes)
        return len(adds)

    @takes(paths=NAMES)
    def remove(self, paths: Iterable[str]) -> None:
        """Remove whole files of the table, by their paths as `Scan.listing` shows them, relative or absolute.

        Raises:
            InvalidOptionError: the table has no such file.
            AppendOnlyTableError: the table is append-only.
        """
        self._check_removes_data()
        wanted = list(paths)
        found = self._files(wanted)
        self._draft.remove(found.values())
        self._did("REMOVE", {"paths": wanted})

    @takes(path=TEXT, rows=POSITIONS)
    def mark_deleted(self, path: str, rows: Iterable[int]) -> int:
        """Delete rows of one file by their row indexes.

        Returns:
            the number of rows that were not deleted before.

        Raises:
            InvalidOptionError: the table has no such file, or the file no such row.
            AppendOnlyTableError: the table is append-only.
        """
        self._check_removes_data()
        ((key, add),) = self._files([path]).items()
        wanted, total = sorted(rows), self._num_records(add)
        if wanted and not 0 <= wanted[0] <= wanted[-1] < total:
            raise self._invalid(
                "rows", wanted[-1] if wanted[0] >= 0 else wanted[0], f"{path} has rows 0 to {total - 1}"
            )
        count = self._delete({key: (add, BitMap64(wanted))})
        self._did("DELETE", {"path": path}, numDeletedRows=count)
        return count

    @takes(where=FILTER)
    def delete(self, where: Filter | None = None) -> int:
        """Delete the rows for which a condition is true; all rows if None.

        Rows that the transaction appends, or has updated before, are not among them.

        A file all of whose rows the condition deletes by their partition values alone is removed without a look at it,
        so that it may be missing or damaged. Of other files, with `delta.enableDeletionVectors` the rows are deleted
        through deletion vectors, otherwise by rewriting the other rows.

        Returns:
            the number of deleted rows; -1 if a file was removed of which neither its statistics nor its footer tells
            it.

        Raises:
            InvalidPredicateError, ColumnNotFoundError: the condition cannot be evaluated without Spark.
            AppendOnlyTableError: the table is append-only.
        """
        self._check_removes_data()
        read = self._read(where)
        if has_unknown(read.predicate):
            raise InvalidPredicateError(
                table=self.table.url, predicate=str(read.predicate), detail="a part of it cannot be evaluated"
            )
        scan = read.snapshot.scan(read.predicate)
        decided = decided_by_partition(read.snapshot, read.predicate, scan.partition).to_pylist()
        files = list(zip(scan.adds(), decided, strict=True))
        found = {
            self._canonical(add.path): (add, self._rows.matching(read.snapshot, add, read.predicate))
            for add, is_decided in files
            if is_decided is None
        }
        in_whole_files = self._remove([add for add, is_decided in files if is_decided])
        count = self._delete(found)
        total = None if in_whole_files is None else in_whole_files + count
        self._reads.append(read)
        self._did("DELETE", {"predicate": [] if where is None else [str(read)]}, numDeletedRows=total)
        return -1 if total is None else total

    def _remove(self, adds: Iterable[Add]) -> int | None:
        """Remove whole files. Returns how many of their rows were not deleted before; None if neither statistics nor a
        footer tells it.
        """
        files = {key: add for add in adds if (key := self._canonical(add.path)) not in self._draft.removed}
        told = [alive_records(add) for add in files.values()]
        footers = in_threads(
            self._alive_by_footer, [add for add, count in zip(files.values(), told, strict=True) if count is None]
        )
        counts = [next(footers) if count is None else count for count in told]
        known = self._draft.deleted
        before = sum(len(known[key].rows) for key in files if key in known)
        self._draft.remove(files.values())
        return None if None in counts else sum(count for count in counts if count is not None) - before

    def _alive_by_footer(self, add: Add) -> int | None:
        try:
            stored = self._num_records(add)
        except (DataFileMissingError, InvalidDataFileError):
            return None
        return stored - (add.deletion_vector.cardinality if add.deletion_vector else 0)

    def _delete(self, wanted: Mapping[str, tuple[Add, BitMap64]]) -> int:
        """Mark rows as deleted. Returns how many of them were not deleted before."""
        new = {key: (add, rows & self._left(add)) for key, (add, rows) in wanted.items()}
        known = self._draft.deleted
        self._draft.delete_rows(
            RowDeletion(file=add, rows=rows | known[key].rows if key in known else rows)
            for key, (add, rows) in new.items()
            if rows
        )
        return sum(len(rows) for _, rows in new.values())

    def _files(self, paths: Iterable[str]) -> dict[str, Add]:
        """Live files by their canonical paths, for paths in any spelling."""
        self._check_open()
        paths_by_key = {self._canonical(path): path for path in paths}
        as_written = pc.indices_nonzero(
            pc.is_in(self.snapshot.live.column("path"), value_set=pa.array(paths_by_key.values(), pa.string()))
        )
        adds = {self._canonical(add.path): add for add in Scan(self.snapshot, None, as_written).adds()}
        if len(adds) < len(paths_by_key):
            adds |= {
                key: add for add in self.snapshot.full_scan.adds() if (key := self._canonical(add.path)) in paths_by_key
            }
        for key, path in paths_by_key.items():
            if key not in adds:
                raise self._invalid("path", path, f"version {self.snapshot.version} has no such file")
        return adds

    def _check_removes_data(self) -> None:
        self._check_open()
        check_writable(
            self._configuration.protocol, self._configuration.metadata, table=self.table.url, removes_data=True
        )

    # --- commit

    def _finish(self) -> None:
        rest: dict[str, BitMap64] = {}
        if not self._draft.deletes_by_vector:
            rest = {key: rows for key, deletion in self._draft.deleted.items() if (rows := self._left(deletion.file))}
        if (rest or self._draft.change_files) and self._is_on(ENABLE_CHANGE_DATA_FEED):
            self._write_changes()
        for key, rows in rest.items():  # without vectors, the other rows of these files are written again
            self._copy(self._draft.deleted[key].file, rows)
        super()._finish()

    def _copy(self, file: Add, positions: BitMap64) -> None:
        """Write the rows at some positions of a file into new files. With row tracking they keep their ids and
        versions.
        """
        current = self._current
        tracking = current.row_tracking if self.snapshot.tracks_rows else None
        kept = () if tracking is None else (tracking.row_id_column, tracking.row_commit_version_column)
        plan, names = self._plan(current.schema), current.schema.names

        def copied() -> Iterator[pa.Table]:
            for _, rows in self._rows.at(current, file, positions, with_row_ids=tracking is not None):
                hidden = {
                    name: column
                    for name, column in zip(kept, rows.columns[len(names) :], strict=True)
                    if name is not None
                }
                self._copied_rows += rows.num_rows
                yield append_hidden_columns(rows.select(names), hidden)

        self._draft.adds += self._wrote(plan, write_again(plan, copied()))

    def _write_changes(self) -> None:
        """Write all deleted and inserted rows that are not recorded yet as change data files: readers of a commit that
        has such files use nothing else.
        """
        current, draft = self._current, self._draft
        removed = [(add, self._alive(add)) for add in draft.removed.values()]
        marked = [(deletion.file, deletion.rows) for key, deletion in draft.deleted.items() if key not in draft.removed]
        recorded, no_rows = self._recorded_rows, BitMap64()
        deletes = [(add, rows - recorded.get(self._canonical(add.path), no_rows)) for add, rows in [*removed, *marked]]
        inserts = [
            (add, self._alive(add)) for add in draft.adds if add.data_change and add.path not in self._recorded_adds
        ]
        kinds = [
            (kind, *file) for kind, files in (("delete", deletes), ("insert", inserts)) for file in files if file[1]
        ]
        if not kinds:
            return
        plan = self._plan(current.schema)
        tables = ((rows, kind) for kind, add, positions in kinds for _, rows in self._rows.at(current, add, positions))
        written = write_change_files(plan, tables)
        draft.on_discard(lambda: delete_files(plan, written))
        draft.change_files += [
            Cdc(path=encode_path(file.key), partition_values=file.partition_values, size_bytes=file.size_bytes)
            for file in written
        ]

    def _plan(self, schema: Struct, *, merge_schema: bool = False, casts: Casts = Casts.ANY) -> WritePlan:
        """The plan of an append to the table as it is after the changes so far."""
        request = WriteRequest(mode="append", schema=schema, merge_schema=merge_schema, casts=casts)
        return plan_existing(self.table, request, self._current)

    def _wrote(self, plan: WritePlan, files: Sequence[WrittenFile]) -> list[Add]:
        """The add actions of files that were written for this transaction."""
        self._draft.on_discard(lambda: delete_files(plan, files))
        return [plan.add(file) for file in files]
