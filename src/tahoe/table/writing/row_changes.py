"""The rows that an operation of a transaction replaces, deletes and inserts: data files, change data files and row
deletions.

Protocol: "Writer Requirements for Deletion Vectors", "Change Data Files", "Writer Requirements for Row Tracking". An
updated row keeps its row id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from tahoe.protocol.configuration.change_feed import CHANGE_DATA_FOLDER, CHANGE_TYPE
from tahoe.protocol.configuration.row_tracking import RowTracking
from tahoe.protocol.log.actions import Add
from tahoe.table.writing.arrow_values import NewRows
from tahoe.table.writing.arrow_writer import append_hidden_columns
from tahoe.table.writing.open_files import OpenFiles
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WrittenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """How many rows an operation has changed.

    Attributes:
        deleted: -1 if whole files were removed of which nothing tells how many rows they had.
        version: that was committed; None inside of a transaction, and if there was nothing to commit.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    version: int | None = None


class RowChanges:
    """Collects the changes of one operation. As a context manager it deletes the files that it has written if the block
    fails.

    Args:
        plan: the plan of an append to the table as it is after the operation.
        tracking: the columns of files for row ids; None if the table tracks no rows.
        records: write the changes to change data files.

    Attributes:
        deleted: the rows to delete, by the path of their file.
        updated, removed, inserted: how many rows were changed so.
    """

    def __init__(
        self, plan: WritePlan, tracking: RowTracking | None, *, records: bool, minted: Sequence[str] = ()
    ) -> None:
        self.plan, self.records = plan, records
        self._hidden = () if tracking is None else (tracking.row_id_column, tracking.row_commit_version_column)
        self._files = OpenFiles(plan, minted=minted)
        self._changes = OpenFiles(plan, folder=CHANGE_DATA_FOLDER)
        self.deleted: dict[str, tuple[Add, BitMap64]] = {}
        self.updated = self.removed = self.inserted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for files in (self._files, self._changes):
            files.__exit__(kind, error, traceback)

    def update(
        self, file: Add, positions: npt.NDArray[np.int64], before: pa.Table, after: pa.Table, rules: NewRows
    ) -> None:
        """Replace rows of a file.

        Args:
            before: the rows, with the row tracking columns of `PhysicalRows.at` behind those of the table.
            after: the same rows with their new values, without columns that are computed anew.
        """
        if not len(positions):
            return
        own = before.select(self.plan.schema.names)
        stored_rows = rules.assigned(after)
        tracked = before.columns[len(self.plan.schema) :]
        tracking_columns = [tracked[0], pa.chunked_array([pa.nulls(before.num_rows, pa.int64())])] if tracked else []
        self._files.write(self._with_row_tracking(stored_rows, tracking_columns))
        self._delete(file, positions)
        self._record(own, "update_preimage")
        self._record(stored_rows, "update_postimage")
        self.updated += len(positions)

    def delete(self, file: Add, positions: npt.NDArray[np.int64], before: pa.Table) -> None:
        """Delete rows of a file."""
        if not len(positions):
            return
        self._delete(file, positions)
        self._record(before.select(self.plan.schema.names), "delete")
        self.removed += len(positions)

    def insert(self, rows: pa.Table, rules: NewRows) -> None:
        """Add new rows."""
        stored = rules.assigned(rows)
        nothing = pa.chunked_array([pa.nulls(rows.num_rows, pa.int64())])
        self._files.write(self._with_row_tracking(stored, [nothing] * len(self._hidden)))
        self._record(stored, "insert")
        self.inserted += rows.num_rows

    def close(self) -> tuple[list[WrittenFile], list[WrittenFile]]:
        """The data files and the change data files."""
        return self._files.close(), self._changes.close()

    def _with_row_tracking(self, rows: pa.Table, kept: Sequence[pa.ChunkedArray]) -> pa.Table:
        return append_hidden_columns(
            rows, {name: column for name, column in zip(self._hidden, kept, strict=True) if name is not None}
        )

    def _delete(self, file: Add, positions: npt.NDArray[np.int64]) -> None:
        _, known = self.deleted.get(file.path, (file, BitMap64()))
        self.deleted[file.path] = file, known | BitMap64(positions)

    def _record(self, rows: pa.Table, kind: str) -> None:
        if self.records and rows.num_rows:
            self._changes.write(
                append_hidden_columns(rows, {CHANGE_TYPE: pa.chunked_array([pa.repeat(kind, rows.num_rows)])})
            )
