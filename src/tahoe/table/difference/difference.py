"""`Table.diff` and `tahoe diff`: what differs between two versions, and its page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tahoe.table.difference.compared import ROWS_SHOWN, ComparedVersions
from tahoe.table.difference.page import notebook, page
from tahoe.table.versions.table_reader import TableReader


@dataclass(frozen=True, kw_only=True)
class TableDifference(ComparedVersions):
    """What differs between two versions of a table. Rows are read when they are asked for. A notebook shows it."""

    def __repr__(self) -> str:
        return f"TableDifference({self.after.url!r}, {self.before.version} to {self.after.version})"

    def html(self, limit: int = ROWS_SHOWN) -> str:
        """A page: one HTML document without scripts, which asks for nothing from a network."""
        return page(self, limit)

    def save(self, path: str | os.PathLike[str], limit: int = ROWS_SHOWN) -> None:
        """Write the page to a local file, replacing an existing one.

        Raises:
            OSError: the file cannot be written.
        """
        Path(path).write_text(self.html(limit), encoding="utf-8")

    def _repr_html_(self) -> str:
        return notebook(self)


def difference(
    table: TableReader, from_version: int | str, to_version: int | str | None, keys: Sequence[str]
) -> TableDifference:
    """The difference of two versions. See `Table.diff` for errors."""
    after = table.snapshot(to_version)
    return TableDifference(before=table.snapshot(from_version), after=after, keys=tuple(keys))
