"""What differs between two versions, as values and Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from tahoe._cached import cached_property
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.types.names import dotted
from tahoe.protocol.types.value_texts import json_value
from tahoe.table.arrow.spool import Pages
from tahoe.table.difference.columns import ColumnDifference, column_differences
from tahoe.table.difference.files import FileDifference, file_difference
from tahoe.table.difference.rows import MatchedBy, RowDifference, row_difference
from tahoe.table.reading.plain_values import first_rows
from tahoe.table.reading.snapshot import Snapshot

ROWS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting of the table that differs. None: the version does not have it."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """How many rows differ. An updated row counts once. Without keys and ids of rows, none is an update."""

    inserted: int
    deleted: int
    updated: int


@dataclass(frozen=True, kw_only=True)
class ComparedVersions:
    """What differs between two versions of a table. Rows are read when they are asked for.

    Attributes:
        before, after: the versions.
        keys: the columns by which rows are matched, as they were given.
    """

    before: Snapshot
    after: Snapshot
    keys: Sequence[str] = field(default=())

    # --- from the log

    @cached_property
    def files(self) -> FileDifference:
        """Files added, removed, with another deletion vector, and shared."""
        return file_difference(self.before, self.after)

    @cached_property
    def schema(self) -> Sequence[ColumnDifference]:
        """Columns and fields added, dropped, renamed, and those whose type, nullability or comment changed."""
        modes = (self.before.column_mapping_mode, self.after.column_mapping_mode)
        return column_differences(self.before.schema, self.after.schema, modes)

    @cached_property
    def properties(self) -> Sequence[Change]:
        """Table properties that were set, changed or unset."""
        return _changes(self.before.properties, self.after.properties)

    @cached_property
    def protocol(self) -> Sequence[Change]:
        """Reader and writer versions, and table features."""
        return _changes(*(_protocol(version) for version in (self.before, self.after)))

    @cached_property
    def layout(self) -> Sequence[Change]:
        """Name, description, partitioning and clustering."""
        return _changes(*(_layout(version) for version in (self.before, self.after)))

    # --- rows

    @cached_property
    def _rows(self) -> RowDifference:
        return row_difference(self.before, self.after, self.files, self.keys)

    @property
    def matched_by(self) -> MatchedBy:
        """`keys` if they are given, `row ids` if both versions have them, or else `whole rows`."""
        return self._rows.matched_by

    @property
    def counts(self) -> RowCounts:
        """The exact numbers of rows that differ."""
        return RowCounts(**{kind: self._rows.counts[kind] for kind in ("inserted", "deleted", "updated")})

    @property
    def updated_columns(self) -> Mapping[str, int]:
        """In how many updated rows each column differs, of the columns that do."""
        found = self._rows.updated_columns
        return {name: found[name] for name in self._rows.schema.names if found[name]}

    @property
    def inserted(self) -> pa.Table:
        """The rows that only the later version has."""
        return self.inserted_batches().read_all()

    @property
    def deleted(self) -> pa.Table:
        """The rows that only the earlier version has, in the columns of the later one."""
        return self.deleted_batches().read_all()

    @property
    def updated(self) -> pa.Table:
        """Each updated row: the structs `before` and `after`."""
        return self.updated_batches().read_all()

    def inserted_batches(self) -> pa.RecordBatchReader:
        """`inserted` as a stream, in bounded memory."""
        return _reader(self._rows.inserted, self._rows.schema)

    def deleted_batches(self) -> pa.RecordBatchReader:
        """`deleted` as a stream, in bounded memory."""
        return _reader(self._rows.deleted, self._rows.schema)

    def updated_batches(self) -> pa.RecordBatchReader:
        """`updated` as a stream, in bounded memory."""
        return _reader(self._rows.updated, self._rows.updated_schema)

    # --- as a whole

    @property
    def is_empty(self) -> bool:
        """Whether both versions have the same rows, columns, properties and protocol. Files may differ."""
        settings = (self.schema, self.properties, self.protocol, self.layout)
        return not any(settings) and not self._rows.counts.total()

    def to_dict(self, limit: int = ROWS_SHOWN) -> dict[str, Any]:
        """All of it as values that JSON can represent, with at most so many rows of each kind."""
        files = self.files
        rows = {
            kind: json_value(first_rows(reader, limit))
            for kind, reader in (
                ("inserted", self.inserted_batches()),
                ("deleted", self.deleted_batches()),
                ("updated", self.updated_batches()),
            )
        }
        return {
            "table": self.after.url,
            "from_version": self.before.version,
            "to_version": self.after.version,
            "rows": {
                "matched_by": self.matched_by,
                "keys": list(self._rows.keys),
                "counts": asdict(self.counts),
                "updated_columns": dict(self.updated_columns),
                **rows,
            },
            "schema": [asdict(found) for found in self.schema],
            "properties": [asdict(found) for found in self.properties],
            "protocol": [asdict(found) for found in self.protocol],
            "layout": [asdict(found) for found in self.layout],
            "files": {
                "added": len(files.added),
                "added_bytes": files.added_bytes,
                "removed": len(files.removed),
                "removed_bytes": files.removed_bytes,
                "changed_deletion_vectors": len(files.changed_vectors),
                "shared": files.shared,
            },
        }


def _reader(pages: Pages, schema: pa.Schema) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for rows in pages:
            yield from rows.cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    return [
        Change(name=name, before=before.get(name), after=after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _protocol(version: Snapshot) -> dict[str, str]:
    features = {f"feature {name}": "supported" for name in supported_features(version.protocol)}
    protocol = version.protocol
    return {
        "reader version": str(protocol.reader_version),
        "writer version": str(protocol.writer_version),
        **features,
    }


def _layout(version: Snapshot) -> dict[str, str]:
    found = {
        "name": version.metadata.name,
        "description": version.metadata.description,
        "partitioned by": ", ".join(dotted((name,)) for name in version.partition_columns),
        "clustered by": ", ".join(map(dotted, version.clustering_columns)),
    }
    return {name: text for name, text in found.items() if text}
