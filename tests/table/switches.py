"""Changes of a table's configuration, and whether a log follows the rules of its configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tahoe


def set_to(**properties: str) -> Callable[[tahoe.Table], object]:
    def change(table: tahoe.Table) -> None:
        with table.transaction() as changes:
            changes.set_properties({name.replace("__", "."): value for name, value in properties.items()})

    return change


def again(table: tahoe.Table) -> tahoe.Table:
    """The same table, as another process sees it."""
    return tahoe.Table(table.url, env=table.env)


def content(table: tahoe.Table) -> list[dict[str, Any]]:
    return sorted(again(table).to_arrow().to_pylist(), key=repr)


def check_values(table: tahoe.Table) -> None:
    """In-commit timestamps rise, no row id is given twice, and the change feed leads from its first version to the
    last.
    """
    snapshot = again(table).snapshot()
    if snapshot.properties.get("delta.enableInCommitTimestamps") == "true":
        first = int(snapshot.properties["delta.inCommitTimestampEnablementVersion"])
        stamps = [
            table.log.commit_info(version).in_commit_timestamp_ms for version in range(first, snapshot.version + 1)
        ]
        assert stamps == sorted(set(stamps)), stamps
    if "rowTracking" in (snapshot.protocol.writer_features or ()):
        files = list(snapshot.live.adds())
        ids = [(file.base_row_id, file.default_row_commit_version) for file in files]
        assert None not in [value for pair in ids for value in pair], ids
        assert len({first for first, _ in ids}) == len(files), ids
    if snapshot.properties.get("delta.enableChangeDataFeed") == "true":
        check_feed(table, snapshot.version)


def check_feed(table: tahoe.Table, newest: int) -> None:
    versions = [again(table).snapshot(version) for version in range(newest + 1)]
    first = next(s.version for s in versions if s.properties.get("delta.enableChangeDataFeed") == "true")
    kept = [repr(row) for row in versions[first].to_arrow().to_pylist()]
    for change in again(table).changes(start_version=first).to_pylist():
        row = repr({name: value for name, value in change.items() if not name.startswith("_")})
        if change["_commit_version"] > first:
            kept.append(row) if change["_change_type"] in ("insert", "update_postimage") else kept.remove(row)
    assert sorted(kept) == sorted(map(repr, content(table)))
