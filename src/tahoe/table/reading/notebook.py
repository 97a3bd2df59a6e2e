"""How a version of a table, and rows about it, show themselves in a notebook: short HTML tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.protocol.types.moments import moment_of
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.value_texts import cell
from tahoe.table.reading.plain_values import row_values
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot_state import SnapshotState

_COMMITS = 5

# Of a table with more files than this, the rows are not counted: their statistics would have to be read.
_COUNTED_FILES_MAX = 10_000

_COLUMNS_MAX = 30

# Of a longer list, so many rows are shown.
_ROWS_MAX = 100

# Of a longer value, so many characters are shown: a notebook keeps what its cells have shown.
_TEXT_MAX = 1000


class ShownRows(list[dict[str, Any]]):
    """Rows that a notebook shows as a table. A row need not have every column."""

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(name for row in self for name in row))
        return _as_html(names, ([row.get(name) for name in names] for row in self), len(self))


def arrow_as_html(table: pa.Table) -> str:
    """An Arrow table as HTML. Columns without a value are left out, if there are rows."""
    shown = table.select([at for at, column in enumerate(table.columns) if column.null_count < (len(column) or 1)])
    return _as_html(shown.column_names, row_values(shown.slice(0, _ROWS_MAX)), table.num_rows)


def _as_html(names: Sequence[str], rows: Iterable[Sequence[Any]], count: int) -> str:
    head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in islice(rows, _ROWS_MAX))
    more = f"<div>… {count - _ROWS_MAX:,} more</div>" if count > _ROWS_MAX else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def html_or_reason(url: str, make: Callable[[], str]) -> str:
    """The HTML of a table or a version. One that cannot be read is shown with the reason, so that a cell of a notebook
    never fails.
    """
    try:
        return make()
    except Exception as error:  # also what the storage or a Spark session that has ended raises
        return f"<div><b>{escape(url)}</b>: {escape((str(error) or type(error).__name__).split(chr(10))[0])}</div>"


def html_of(snapshot: SnapshotState, scan: Scan, name: str | None = None) -> str:
    """A version as HTML: location, name, version, rows, files, size, columns, and the last commits.

    Args:
        scan: of all files of the snapshot.
        name: of the table in a catalog; the one that the log has if None.
    """
    totals = snapshot.live.totals
    name = name or snapshot.metadata.name
    facts = [
        *([("name", name)] if name else []),
        ("version", f"{snapshot.version}"),
        ("rows", _rows(scan)),
        ("files", f"{totals.files:,}"),
        ("size", f"{totals.size_bytes:,} bytes"),
        *([("partitioned by", ", ".join(snapshot.partition_columns))] if snapshot.partition_columns else []),
        ("columns", _columns(snapshot)),
    ]
    rows = [*facts, ("last commits", "\n".join(_commits(snapshot)))]
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td>{_lines(value)}</td></tr>" for name, value in rows
    )
    return f"<div><b>{escape(snapshot.url)}</b><table>{cells}</table></div>"


def _commits(snapshot: SnapshotState) -> Iterator[str]:
    """The last commits, newest first, as far as the log still has them."""
    for version in range(snapshot.version, max(-1, snapshot.version - _COMMITS), -1):
        info = snapshot.log.commit_info(version)
        if info is not None:
            fields = info.fields
            yield " · ".join([str(version), _moment(fields.get("timestamp")), str(fields.get("operation", ""))])


def _rows(scan: Scan) -> str:
    if scan.total_files > _COUNTED_FILES_MAX or scan.num_records.null_count:
        return "not counted"
    return f"{int(pc.sum(scan.num_records).as_py() or 0) - int(pc.sum(scan.deleted_records).as_py() or 0):,}"


def _columns(snapshot: SnapshotState) -> str:
    fields = list(snapshot.schema)
    told = [f"{quoted(f.name)} {f.type}{'' if f.nullable else ' NOT NULL'}" for f in fields[:_COLUMNS_MAX]]
    return "\n".join([*told, *([f"… {len(fields) - _COLUMNS_MAX} more"] if len(fields) > _COLUMNS_MAX else [])])


def _cell(value: Any) -> str:
    text = "" if value is None else cell(value)
    shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]} …"
    return f"<td style='text-align:left'>{_lines(shown)}</td>"


def _lines(text: str) -> str:
    return "<br>".join(escape(line) for line in text.split("\n"))


def _moment(timestamp_ms: Any) -> str:
    return "" if not isinstance(timestamp_ms, int) else f"{moment_of(timestamp_ms):%Y-%m-%d %H:%M:%S} UTC"
