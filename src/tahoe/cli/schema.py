"""`tahoe schema`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tahoe.cli.app import AsJson, Location, Options, Timestamp, Version, errors_as_messages, open_snapshot
from tahoe.cli.output import print_json, print_table
from tahoe.protocol.types.schema import Struct


def schema(
    path: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """List the columns. --json prints the schema as it is in the log."""
    with errors_as_messages():
        snapshot = open_snapshot(path, option, version, timestamp)
    if as_json:
        print_json(json.loads(snapshot.metadata.schema_string))
        return
    print_table(
        ["column", "type", "nullable", "partition", "comment"],
        _schema_rows(snapshot.schema, snapshot.partition_columns),
    )


def _schema_rows(schema: Struct, partition_columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for field in schema:
        comment = field.metadata.get("comment")
        yield (
            field.name,
            str(field.type),
            "" if field.nullable else "not null",
            "yes" if field.name in partition_columns else "",
            str(comment or ""),
        )
