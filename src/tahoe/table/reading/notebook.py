"""How a version of a table shows itself in a notebook: a short HTML table, from the log alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Any

import pyarrow.compute as pc

from tahoe.protocol.types.moments import moment_of
from tahoe.protocol.types.names import quoted
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot_state import SnapshotState

_COMMITS = 5

# Of a table with more files than this, the rows are not counted: their statistics would have to be read.
_COUNTED_FILES_MAX = 10_000

_COLUMNS_MAX = 30


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


def _lines(text: str) -> str:
    return "<br>".join(escape(line) for line in text.split("\n"))


def _moment(timestamp_ms: Any) -> str:
    return "" if not isinstance(timestamp_ms, int) else f"{moment_of(timestamp_ms):%Y-%m-%d %H:%M:%S} UTC"
