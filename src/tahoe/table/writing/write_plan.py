"""A planned write: the table after the write, the files that it replaces, and its commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tahoe.errors import ReplaceWhereMismatchError, UnsupportedDataTypeError
from tahoe.protocol.changes.column_values import ColumnValues, column_values, with_high_water_marks
from tahoe.protocol.changes.conflict import EVERYTHING, FilesRead
from tahoe.protocol.configuration.bloom_filter_columns import filtered_columns
from tahoe.protocol.configuration.bloom_filters import BloomFilter
from tahoe.protocol.configuration.column_mapping import mapping_mode, physical_schema, stored_name
from tahoe.protocol.configuration.features import keeps_partitions_in_files
from tahoe.protocol.configuration.properties import BLOOM_FILTERS
from tahoe.protocol.log.actions import Add, DomainMetadata, Metadata, Protocol, Remove
from tahoe.protocol.log.cubes import PROVIDER
from tahoe.protocol.log.file_paths import encode_path
from tahoe.protocol.statistics import clustering
from tahoe.protocol.statistics.clustering import clustering_columns
from tahoe.protocol.types.partitions import parse_partition_value
from tahoe.protocol.types.predicate import Predicate, columns_of, evaluate, has_computed, has_unknown, is_nan
from tahoe.protocol.types.schema import VOID, Array, Map, Struct, types_in, walk_fields
from tahoe.table.commit.draft import Draft, OperationInfo
from tahoe.table.reading.constraints import row_text
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.write_request import STREAMING_UPDATE, TRUNCATE, WRITE, Mode, WriteRequest, WrittenFile

_MODE_NAMES: Mapping[Mode, str] = {
    "append": "Append",
    "overwrite": "Overwrite",
    "error": "ErrorIfExists",
    "ignore": "Ignore",
}


@dataclass(frozen=True, kw_only=True)
class WritePlan:
    """A write that passed all checks.

    Attributes:
        schema: the table's schema after the write; the data must be cast to it.
        physical_schema: the same schema as data files have it.
        replace_where: the parsed predicate, which every row must satisfy.
        clustering: the domain with the clustering columns; None if the table is not clustered.
        domains: other domains that the commit sets, by name.
    """

    table: TableReader
    request: WriteRequest
    snapshot: Snapshot | None
    protocol: Protocol
    metadata: Metadata
    replace_where: Predicate | None
    clustering: DomainMetadata | None = None
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table.env.watch.begin(self.url)

    @property
    def url(self) -> str:
        return self.table.url

    @property
    def replaces_rows(self) -> bool:
        """Whether the write replaces single rows instead of whole files. `commit` does not support this."""
        if self.snapshot is None:
            return False
        if self.request.matching is not None:
            return True
        return self.replace_where is not None and not is_about(self.replace_where, self.partition_columns)

    @property
    def keeps_partitions_in_files(self) -> bool:
        """Whether data files contain the partition columns too."""
        return bool(self.partition_columns) and keeps_partitions_in_files(self.protocol, self.metadata)

    @property
    def schema(self) -> Struct:
        return self.metadata.schema

    @property
    def column_values(self) -> ColumnValues:
        """The generated, default and identity columns of the table after the write."""
        return column_values(self.protocol, self.schema, table=self.url)

    @property
    def column_mapping_mode(self) -> str:
        return mapping_mode(self.protocol, self.metadata.configuration)

    @property
    def physical_schema(self) -> Struct:
        return physical_schema(self.schema, self.column_mapping_mode)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def clustering_columns(self) -> tuple[tuple[str, ...], ...]:
        return clustering_columns(self.clustering, self.schema, self.column_mapping_mode)

    @property
    def filtered_columns(self) -> Mapping[str, BloomFilter]:
        """The columns for which data files get Bloom filters, by their dotted names in files."""
        definitions = BLOOM_FILTERS.get(self.metadata.configuration, table=self.url)
        return filtered_columns(definitions, self.schema, self.partition_columns, self.column_mapping_mode)

    @property
    def physical_partition_columns(self) -> tuple[str, ...]:
        fields = [self.schema.find(name) for name in self.partition_columns]
        return tuple(stored_name(f, self.column_mapping_mode) for f in fields if f is not None)

    def check_writes_files(self) -> None:
        """Refuse to write data files if the schema has a void type that files cannot contain. Protocol: "Void Type".

        Raises:
            UnsupportedDataTypeError: the schema has such a type.
        """
        check_void(self.schema, table=self.url)

    def commit(
        self,
        files: Sequence[WrittenFile],
        metrics: Mapping[str, int] | None = None,
        discard: Callable[[], None] = lambda: None,
    ) -> int | None:
        """Commit the files that were written, and remove the files that the mode replaces.

        Args:
            metrics: counts for the history; those of removed files are added here.
            discard: deletes the files; called if it is certain that they were not committed.

        Returns:
            the version that was committed; None if another writer has already recorded this write's `txn`.
        """
        with self.draft() as draft:
            draft.on_discard(discard)
            self._fill(draft, files)
            removed = draft.removed_files.values()
            info = OperationInfo(
                operation=self.request.operation,
                parameters=self._parameters(),
                metrics=self._metrics(metrics or {}, removed),
                user_metadata=self.request.user_metadata,
                engine=self.request.engine,
            )
            return draft.commit(info)

    def _metrics(self, written: Mapping[str, int], removed: Collection[Add]) -> dict[str, int]:
        """The metrics of the operation, under the reference's names."""
        if self.request.operation == STREAMING_UPDATE:
            counts = {name: count for name, count in written.items() if name != "numFiles"}
            return {**counts, "numAddedFiles": written.get("numFiles", 0), "numRemovedFiles": len(removed)}
        counted = {"numRemovedFiles": len(removed), "numRemovedBytes": sum(file.size_bytes for file in removed)}
        return {**written, **(counted if self.request.mode == "overwrite" else {})}

    def draft(self) -> Draft:
        """A draft with the plan's protocol, metadata and domains, without any files yet."""
        return Draft(
            log=self.table.log,
            base=self.snapshot,
            protocol=self.protocol,
            metadata=self.metadata,
            domains=self._changed_domains(),
            txn=self.request.txn,
            data_change=self.request.data_change,
            reads=EVERYTHING if self.request.reads_target else None,
        )

    def _fill(self, draft: Draft, files: Sequence[WrittenFile]) -> None:
        draft.metadata = with_minted(self.metadata, files)
        draft.adds += [self.add(file) for file in files]
        if self.snapshot is not None and self.request.mode == "overwrite":
            replaced = self._replacement_test(draft.adds)
            draft.remove(add for add in self.snapshot.live.adds() if replaced(add))
            draft.reads = draft.reads or FilesRead(
                self._or_unplaced(replaced), self.request.replace_where or "what it replaces"
            )

    def _changed_domains(self) -> dict[str, DomainMetadata]:
        """The domains that the write changes; among them the clustering domain, if it does.

        A new table may be clustered. A replaced schema may lack the clustering columns, or have them under other
        physical names.
        """
        before = None if self.snapshot is None else self.snapshot.domains.get(clustering.DOMAIN)
        after = self.clustering if self.clustering is not None or before is None else before.replace(removed=True)
        return {**self.domains, **({} if after is None or after == before else {clustering.DOMAIN: after})}

    def add(self, file: WrittenFile) -> Add:
        """The add action for a file that was written."""
        return Add(
            path=encode_path(file.key),
            partition_values=file.partition_values,
            size_bytes=file.size_bytes,
            modification_time_ms=file.modification_time_ms,
            data_change=self.request.data_change,
            stats=file.statistics,
            tags=dict(file.tags) or None,
            clustering_provider=PROVIDER if file.tags else None,
        )

    def _parameters(self) -> dict[str, Any]:
        """The history parameters of the operation, under the reference's names."""
        request = self.request
        if request.parameters is not None:
            return dict(request.parameters)
        asked = {
            "predicate": request.replace_where,
            "isDynamicPartitionOverwrite": request.dynamic_partitions or None,
            "canOverwriteSchema": (request.overwrite_schema and request.operation == WRITE) or None,
            "canMergeSchema": request.merge_schema or None,
        }
        return {**self._kind(), **{name: value for name, value in asked.items() if value is not None}}

    def _kind(self) -> dict[str, Any]:
        """The history parameters of the kind of operation, under the reference's names: of a write, a TRUNCATE, or a
        new table.
        """
        if self.request.operation == WRITE:
            return {"mode": _MODE_NAMES[self.request.mode], "partitionBy": list(self.partition_columns)}
        if self.request.operation == TRUNCATE:
            return {}
        described = {} if self.metadata.description is None else {"description": self.metadata.description}
        return {
            "isManaged": self.request.is_managed,
            **described,
            "partitionBy": list(self.partition_columns),
            "clusterBy": [".".join(path) for path in self.clustering_columns],
            "properties": dict(self.metadata.configuration),
        }

    # --- what an overwrite replaces

    def check_replaced(self, partition_values: Mapping[str, str | None]) -> None:
        """Refuse a file whose partition does not satisfy `replace_where`.

        A predicate over other columns is left to the engine, which checks rows.

        Args:
            partition_values: serialised, by physical name.

        Raises:
            ReplaceWhereMismatchError: with the values.
        """
        if self.replace_where is None or not is_about(self.replace_where, self.partition_columns):
            return
        row = self._typed_partition_values(partition_values)
        if evaluate(self.replace_where, row) is not True:
            text = self.request.replace_where or ""
            raise ReplaceWhereMismatchError(table=self.url, predicate=text, detail=f"for example {row_text(row)}")

    def _replacement_test(self, adds: Sequence[Add]) -> Callable[[Add | Remove], bool]:
        """A test for the live files to replace: all, those of the written partitions, or those that satisfy
        `replace_where`.
        """
        if self.request.dynamic_partitions and self.partition_columns:
            written = {self._partition_key(add) for add in adds}
            return lambda file: self._partition_key(file) in written
        if self.replace_where is not None:
            predicate = self.replace_where
            return lambda file: evaluate(predicate, self._partition_row(file)) is True
        return lambda _: True

    def _or_unplaced(self, test: Callable[[Add | Remove], bool]) -> Callable[[Add | Remove], bool]:
        """A test that is also true of a remove without partition values, whose partition is unknown."""
        return lambda file: (file.partition_values is None and bool(self.partition_columns)) or test(file)

    def _partition_key(self, file: Add | Remove) -> tuple[Any, ...]:
        return tuple("NaN" if is_nan(value) else value for value in self._partition_row(file).values())

    def _partition_row(self, file: Add | Remove) -> dict[str, Any]:
        """Typed values by logical name, so that different spellings of one value are one partition."""
        return self._typed_partition_values(file.partition_values or {})

    def _typed_partition_values(self, values: Mapping[str, str | None]) -> dict[str, Any]:
        fields = [f for f in (self.schema.find(name) for name in self.partition_columns) if f is not None]
        mode = self.column_mapping_mode
        return {
            f.name: parse_partition_value(values.get(stored_name(f, mode)), f.type, zone=self.table.log.zone)
            for f in fields
        }


def with_minted(metadata: Metadata, files: Iterable[WrittenFile]) -> Metadata:
    """The metadata with the high-water marks of identity columns moved to the values in the files."""
    schema = metadata.schema
    for file in files:
        schema = with_high_water_marks(schema, file.minted)
    return metadata if schema == metadata.schema else metadata.replace(schema_string=schema.to_json())


def is_about(predicate: Predicate, columns: Iterable[str]) -> bool:
    """Whether a predicate has no unknown or computed part and names no other columns."""
    names = {name.lower() for name in columns}
    return not (has_unknown(predicate) or has_computed(predicate)) and all(
        c.path[0].lower() in names for c in columns_of(predicate)
    )


def check_void(schema: Struct, *, table: str) -> None:
    """Check for void types that data files cannot contain. Protocol: "Void Type"."""
    for path, column in walk_fields(schema):
        _check_void_inside(path, column.type, table)
    if len(schema) and all(f.type == VOID for f in schema):
        raise UnsupportedDataTypeError(
            table=table, column=", ".join(schema.names), type="void, the type of every column"
        )


def _check_void_inside(path: tuple[str, ...], data_type: Any, table: str) -> None:
    match data_type:
        case Array() | Map() if any(t == VOID for t in types_in(data_type)):
            raise UnsupportedDataTypeError(table=table, column=".".join(path), type=f"{data_type}, which contains void")
        case Struct(fields) if fields and all(f.type == VOID for f in fields):
            raise UnsupportedDataTypeError(
                table=table, column=".".join(path), type=f"{data_type}, which contains only void"
            )
        case _:
            pass
