"""Writes Arrow data without Spark: the writer behind `Table.append`.

Rows are completed and checked (`arrow_values`), and written as they come (`open_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from tahoe._progress import showing
from tahoe.errors import (
    DeltaConcurrentModificationException,
    MetadataChangedException,
    NoColumnsError,
    ReplaceWhereMismatchError,
    UnsupportedDataTypeError,
)
from tahoe.protocol.configuration.change_feed import CHANGE_DATA_FOLDER, CHANGE_TYPE
from tahoe.protocol.configuration.properties import CONFLICT_RETRIES
from tahoe.protocol.types.predicate import Predicate
from tahoe.protocol.types.schema import Struct, types_in, walk_fields
from tahoe.table.arrow.row_stream import Rows
from tahoe.table.arrow.types import delta_schema
from tahoe.table.commit.rerun import run_again
from tahoe.table.log.vacuum_starts import vacuum_cutoff_ms
from tahoe.table.reading.constraints import row_text
from tahoe.table.reading.evaluation import evaluate
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.arrow_values import NewRows
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.open_files import OpenFiles
from tahoe.table.writing.planning import plan_existing, plan_write
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WriteRequest, WrittenFile


def write_arrow(
    table: TableReader, data: pa.Table | Rows, request: WriteRequest, must: Must | None = None
) -> int | None:
    """Write rows as a request says, in one commit.

    Args:
        must: what all rows must satisfy.

    Returns:
        the version that was committed; None if there was nothing to do.

    Raises:
        DeltaAnalysisError: the data does not fit the table; nothing was written.
        DeltaConcurrentModificationException: a winner conflicts; the written files were deleted.
    """
    request = replace(request, casts=Casts.KEPT)
    plan = plan_write(table, request)
    if plan is None:
        return None
    first = plan

    def attempt(retries: int) -> int | None:
        current = plan_existing(table, request, table.snapshot()) if retries else first
        with staged.attempt():
            return commit_files(current, staged.files(current), staged.num_rows, staged.discard)

    with StagedRows(data if isinstance(data, Rows) else Rows.of(data), must) as staged:
        return run_again(
            table.env,
            attempt,
            read_retries_max=lambda: CONFLICT_RETRIES.get(first.metadata.configuration, table=first.url),
            read_newest_version=lambda: table.snapshot().version,
        )


class StagedRows:
    """New rows as data files that wait for their commit. They are written once, for whatever number of attempts to
    commit them; and again if the table's configuration has changed, or a VACUUM may have deleted them.

    As a context manager it deletes the files behind the last attempt, unless that attempt has or may have committed
    them. Otherwise a failed attempt deletes them.
    """

    def __init__(self, rows: Rows, must: Must | None = None) -> None:
        self._rows, self._must = rows, must
        self._plan: WritePlan | None = None
        self._files: list[WrittenFile] = []
        self._is_kept = self._is_free = self._is_lost = False

    def __enter__(self) -> Self:
        self._is_kept = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_kept = False
        if self._is_free:
            self.discard()

    @property
    def num_rows(self) -> int:
        return self._rows.num_rows

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """An attempt to commit the files. If a conflict says that a VACUUM may have deleted them, the next attempt
        writes them again; rows that can be read only once then allow no further attempt.
        """
        try:
            yield
        except DeltaConcurrentModificationException as error:
            self._is_lost = error.loses_files
            error.may_rerun &= not error.loses_files or self._rows.are_in_memory
            raise

    def files(self, plan: WritePlan) -> list[WrittenFile]:
        """The files, for an attempt to commit them by a plan.

        Raises:
            DeltaAnalysisError: a row does not fit the table.
            MetadataChangedException: the plan of an earlier attempt, by which they were written, was for another schema
                or protocol, and the rows cannot be read again.
        """
        self._is_free = False
        if self._plan is not None and not self._is_lost and self._fit(self._plan, plan):
            return self._files
        if self._plan is not None:
            delete_files(self._plan, self._files)
            self._files = []
        if self._plan is None or self._rows.are_in_memory:
            self._plan = plan
            self._files = write_files(plan, self._rows, self._must)
        else:
            winner = "the table has another schema or other properties by now, or a VACUUM has begun"
            detail = "the rows, a stream that can be read once, were written before"
            raise MetadataChangedException(table=plan.url, winner=winner, detail=detail)
        return self._files

    def _fit(self, old: WritePlan, plan: WritePlan) -> bool:
        """Whether the files, which were written by an old plan, are there, and are right for a new one."""
        if (plan.protocol, plan.metadata) != (old.protocol, old.metadata):
            return False
        if plan.snapshot is None or old.snapshot is None:
            return plan.snapshot is old.snapshot
        cutoff_ms = vacuum_cutoff_ms(plan.snapshot.log, old.snapshot.version, plan.snapshot.version)
        return cutoff_ms is None or all(file.modification_time_ms >= cutoff_ms for file in self._files)

    def discard(self) -> None:
        """An attempt has certainly not committed the files."""
        self._is_free = self._is_kept
        if not self._is_kept and self._plan is not None:
            delete_files(self._plan, self._files)


def schema_of_rows(data: pa.Table | Rows, *, table: str) -> Struct:
    """The Delta schema of rows to write.

    Raises:
        NoColumnsError: they have no columns.
        UnsupportedDataTypeError: a type that Delta does not have, with the column.
    """
    if not len(data.schema):
        raise NoColumnsError(table=table)
    return delta_schema(data.schema, table=table)


@dataclass(frozen=True, slots=True)
class Must:
    """A condition that every new row must satisfy, and its text."""

    predicate: Predicate
    text: str

    def check(self, rows: pa.Table, *, table: str) -> None:
        """
        Raises:
            ReplaceWhereMismatchError: with the values of a row.
        """
        broken = rows.filter(pc.invert(pc.fill_null(evaluate(self.predicate, rows, table=table), False))).slice(0, 1)
        if broken.num_rows:
            detail = f"for example {row_text(broken.to_pylist()[0])}"
            raise ReplaceWhereMismatchError(table=table, predicate=self.text, detail=detail)


def write_files(plan: WritePlan, data: pa.Table | Rows, must: Must | None = None) -> list[WrittenFile]:
    """Write new rows as the data files of a plan, with statistics. If that fails, all files are deleted.

    Rows are written as they come: memory is bounded, whatever their number.

    Raises:
        DeltaAnalysisError: the data does not fit the table, or lacks values that only Spark can compute.
    """
    plan.check_writes_files()
    _check_structs(plan)
    rows = data if isinstance(data, Rows) else Rows.of(data)
    new = NewRows(plan, rows.schema.names)
    with OpenFiles(plan, minted=new.minted) as files, showing("writing", "rows") as show_progress:
        for piece in rows.pieces():
            stored = new.assigned(piece)
            if must is not None:
                must.check(stored, table=plan.url)
            files.write(stored)
            show_progress(rows.num_rows, 0)
        if not rows.num_rows:
            new.assigned(rows.schema.empty_table())  # what does not fit is refused, even without rows
        return files.close()


def _check_structs(plan: WritePlan) -> None:
    """Refuse structs without fields, which Parquet cannot represent."""
    for path, column in walk_fields(plan.schema):
        if Struct(()) in types_in(column.type):
            raise UnsupportedDataTypeError(
                table=plan.url,
                column=".".join(path),
                type=f"{column.type}, which is or contains a struct without fields",
            )


def write_again(plan: WritePlan, rows: Iterable[pa.Table]) -> list[WrittenFile]:
    """Write existing rows of the table to other files, unchanged.

    Args:
        rows: in pieces; behind the columns of the schema they may have those that only files have: row ids and row
            commit versions.
    """
    plan.check_writes_files()
    with OpenFiles(plan) as files:
        for piece in rows:
            files.write(piece)
        return files.close()


def write_change_files(plan: WritePlan, rows: Iterable[tuple[pa.Table, str]]) -> list[WrittenFile]:
    """Write change data files. Protocol: "Change Data Files".

    Args:
        rows: of the table, in pieces, each with their change type: `insert` or `delete`.
    """
    with OpenFiles(plan, folder=CHANGE_DATA_FOLDER) as files:
        for piece, kind in rows:
            files.write(
                append_hidden_columns(piece, {CHANGE_TYPE: pa.chunked_array([pa.repeat(kind, piece.num_rows)])})
            )
        return files.close()


def append_hidden_columns(rows: pa.Table, hidden: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    """Rows with additional columns."""
    for name, column in hidden.items():
        rows = rows.append_column(name, column)
    return rows


def commit_files(
    plan: WritePlan, files: Sequence[WrittenFile], rows: int, discard: Callable[[], None] | None = None
) -> int | None:
    """Commit the files that were written; see `WritePlan.commit`.

    Args:
        discard: what is done with the files if they were certainly not committed; they are deleted by default.
    """
    metrics = {"numFiles": len(files), "numOutputRows": rows, "numOutputBytes": sum(f.size_bytes for f in files)}
    return plan.commit(files, metrics, discard=discard or (lambda: delete_files(plan, files)))


def delete_files(plan: WritePlan, files: Sequence[WrittenFile]) -> None:
    """Delete files that are not committed, unless a CONVERT TO DELTA has taken them for those of the table
    meanwhile.
    """
    if plan.snapshot is not None or not plan.table.log.was_converted():
        plan.table.env.discard(file.key for file in files)
