"""`tahoe show`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow.compute as pc
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, Timestamp, Version, errors_as_messages, open_snapshot
from tahoe.cli.output import fact_grid, open_console, print_json, printable
from tahoe.protocol.types.moments import moment_of
from tahoe.protocol.types.names import dotted
from tahoe.protocol.types.value_texts import moment
from tahoe.table.reading.snapshot import Snapshot


def show(
    path: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Show a table's location, version, size, protocol, features and properties.

    Writers are the applications that number their writes, such as streaming queries, with the last number of each.
    """
    with errors_as_messages():
        facts = _facts(open_snapshot(path, option, version, timestamp))
    if as_json:
        print_json(facts)
        return
    grid = fact_grid()
    for name, value in facts.items():
        if value not in (None, [], {}):
            grid.add_row(name.replace("_", " "), printable(_fact_text(name, value), lines=True))
    open_console().print(grid)


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    """What is shown of a version, by the names of `--json`."""
    listing = snapshot.files()
    protocol = snapshot.protocol
    num_records, deleted = listing.column("num_records"), listing.column("deleted_records")
    rows = None if num_records.null_count else (pc.sum(num_records).as_py() or 0) - (pc.sum(deleted).as_py() or 0)
    return {
        "location": snapshot.url,
        "version": snapshot.version,
        "timestamp": moment_of(snapshot.timestamp_ms),
        "name": snapshot.metadata.name,
        "description": snapshot.metadata.description,
        "id": snapshot.metadata.id,
        "files": listing.num_rows,
        "size_bytes": snapshot.live.size_bytes,
        "rows": rows,
        "columns": len(snapshot.schema),
        "partition_columns": list(snapshot.partition_columns),
        "clustering_columns": [dotted(path) for path in snapshot.clustering_columns],
        "column_mapping": snapshot.column_mapping_mode,
        "protocol": {"reader": protocol.reader_version, "writer": protocol.writer_version},
        "features": sorted((protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())),
        "properties": dict(snapshot.properties),
        "writers": {txn.app_id: txn.version for txn in sorted(snapshot.txns.values(), key=lambda txn: txn.app_id)},
    }


def _fact_text(name: str, value: Any) -> str:
    """A fact as people read it: times in words, maps and lists over lines, sizes with their unit."""
    match value:
        case datetime():
            return moment(value)
        case dict():
            return "\n".join(f"{key} = {text}" for key, text in value.items())
        case list():
            return ", ".join(value)
        case _:
            return (
                f"{size_text(value)} ({value:,})"
                if name == "size_bytes"
                else f"{value:,}"
                if isinstance(value, int)
                else str(value)
            )
