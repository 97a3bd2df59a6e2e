"""An Iceberg table as the source of CLONE: its newest snapshot, with Iceberg's field ids as column mapping.

Protocol: "Column Mapping", "Partition Value Serialization", "Per-file Statistics". Only what Delta readers read from
the same files is taken: Parquet files with field ids, without delete files, partitioned by columns as they are.
pyiceberg, an extra of the package, reads Iceberg's metadata; the bytes come from the table's own storage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from typing import Any, NoReturn

import pyarrow as pa

from tahoe._cached import cached_property
from tahoe.errors import (
    CloneFilesMissingError,
    CloneIncompatibleSourceError,
    CloneUnsupportedSourceError,
    DeltaError,
    PackageMissingError,
    UnsupportedOperationError,
)
from tahoe.protocol.configuration.column_mapping import MAX_COLUMN_ID, MODE, column_id
from tahoe.protocol.configuration.feature_upgrade import protocol_for_new_table
from tahoe.protocol.configuration.properties import STRING_PREFIX_LENGTH
from tahoe.protocol.log.actions import Add, Metadata
from tahoe.protocol.log.file_paths import encode_path, encode_url
from tahoe.protocol.statistics.stats import encode_statistics
from tahoe.protocol.types.partitions import format_partition_value
from tahoe.protocol.types.schema import (
    BINARY,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Map,
    Struct,
    check_unique_names,
)
from tahoe.storage.locations import normalise
from tahoe.storage.threads import in_threads
from tahoe.table.adoption.foreign_sources import ForeignSource
from tahoe.table.adoption.iceberg_schema import delta_struct
from tahoe.table.arrow.file_columns import FIELD_ID
from tahoe.table.arrow.parquet import UNREADABLE, open_parquet
from tahoe.table.arrow.types import arrow_type
from tahoe.table.layout.file_statistics import exact_statistics, footer_layout, has_statistics, has_values_of
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.footers import IndexedColumn, indexed_columns

_METADATA = "metadata"
METADATA_FILE = re.compile(r"v?(?P<number>\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, kw_only=True)
class IcebergSource(ForeignSource):
    """An Iceberg table.

    Attributes:
        place: the url of its folder, of which the newest metadata file counts, or of a metadata file.
    """

    place: str

    @classmethod
    def at(cls, place: TableReader, name: str) -> IcebergSource:
        """The table whose folder or metadata file is at a place."""
        folder, _, file = place.url.rpartition("/")
        if not METADATA_FILE.fullmatch(file):
            return cls(table=place, name=name, place=place.url)
        home = folder.removesuffix(f"/{_METADATA}")
        return cls(
            table=TableReader(home, env=replace(place.env, store=place.env.store_at(home))), name=name, place=place.url
        )

    def snapshot(self) -> Snapshot:
        """Raises: PackageMissingError, CloneUnsupportedSourceError: without pyiceberg; there is no metadata."""
        found = self._metadata()
        schema = delta_struct(json.loads(found.schema().model_dump_json()), table=self.name)
        check_unique_names(schema, table=self.name)
        entries = self._entries(found)
        numbers = {entry.data_file.spec_id for entry in entries} or {found.default_spec_id}
        used = {self._partitioned_by(spec, schema) for spec in found.partition_specs if spec.spec_id in numbers}
        if len(used) > 1:
            self._refuse(
                "its files are partitioned in different ways",
                "Rewrite its files by the newest partitioning in Iceberg first.",
            )
        columns = next(iter(used))
        configuration = {n: v for n, v in found.properties.items() if not n.lower().startswith("delta.")}
        configuration |= {MODE: "id", MAX_COLUMN_ID: str(found.last_column_id)}
        metadata = Metadata(
            id=self.table.env.new_id(),
            schema_string=schema.to_json(),
            partition_columns=tuple(name for _, name in columns),
            configuration=configuration,
            created_time_ms=self.table.env.clock_ms(),
        )
        adds = _Files(self, schema, metadata, columns).adds([entry.data_file for entry in entries])
        return self.version_of(protocol_for_new_table(schema, configuration, table=self.name), metadata, adds)

    def _refuse(self, detail: str, remedy: str) -> NoReturn:
        raise CloneIncompatibleSourceError(table=self.name, detail=detail, remedy=remedy)

    # --- Iceberg's metadata

    def _metadata(self) -> Any:
        """Iceberg's `TableMetadata`."""
        try:
            from pyiceberg.serializers import FromInputFile  # noqa: PLC0415 - an extra of the package
        except ImportError as error:
            what = "CLONE of an Iceberg table"
            raise PackageMissingError(table=self.name, what=what, package="pyiceberg") from error
        url = self._newest_metadata() if self.place == self.url else self.place
        file: Any = StoredInput(self.table.log, url)
        try:
            return FromInputFile.table_metadata(file)
        except FileNotFoundError:
            raise self._no_table() from None
        except DeltaError:
            raise
        except Exception as error:  # whatever pyiceberg raises for bytes that are not what they should be
            self._refuse(f"its metadata file {url} cannot be read: {error}", "Give another metadata file of the table.")

    def _no_table(self) -> CloneUnsupportedSourceError:
        return CloneUnsupportedSourceError(table=self.name, format="a place without Iceberg metadata")

    def _newest_metadata(self) -> str:
        """The url of the metadata file with the highest number."""
        store = self.table.env.store
        listed = [info.key.rpartition("/")[2] for info in store.list_from(_METADATA, "")]
        numbered = [(int(match["number"]), name) for name in listed if (match := METADATA_FILE.fullmatch(name))]
        if not numbered:
            raise self._no_table()
        newest = max(number for number, _ in numbered)
        names = sorted(name for number, name in numbered if number == newest)
        if len(names) > 1:
            detail = f"it has several metadata files of the same number: {', '.join(names)}"
            self._refuse(detail, f"Give the one that its catalog names: iceberg.`{store.url}/{_METADATA}/{names[0]}`.")
        return f"{store.url}/{_METADATA}/{names[0]}"

    def _entries(self, metadata: Any) -> list[Any]:
        """The `ManifestEntry`s of the newest snapshot's files."""
        newest, io = metadata.current_snapshot(), StoredInput(self.table.log)
        try:
            manifests = [] if newest is None else newest.manifests(io)
            entries = [
                (manifest.content, entry) for manifest in manifests for entry in manifest.fetch_manifest_entry(io)
            ]
        except FileNotFoundError as error:
            self._refuse(
                f"a file of its metadata is gone: {error}",
                "Clone a newer snapshot, or bring the file back from a backup.",
            )
        except DeltaError:
            raise
        except Exception as error:
            self._refuse(f"its metadata cannot be read: {error}", "Check the table with Iceberg.")
        if any(int(content) for content, _ in entries):
            self._refuse(
                "it has delete files",
                "Rewrite its data files in Iceberg first, so that no rows are deleted by delete files.",
            )
        for _, entry in entries:
            if str(entry.data_file.file_format.value).upper() != "PARQUET":
                file, kind = entry.data_file.file_path, entry.data_file.file_format.value
                self._refuse(
                    f"{file} is a file of the format {kind}, not Parquet",
                    "Rewrite its data files as Parquet in Iceberg first.",
                )
        return [entry for _, entry in entries]

    def _partitioned_by(self, spec: Any, schema: Struct) -> tuple[tuple[int, str], ...]:
        """The partition columns of a partition spec: their places in it, and their names. Those that were dropped do
        not count.
        """
        by_id = {column_id(column): column.name for column in schema}
        found = []
        for place, field in enumerate(spec.fields):
            transform = str(field.transform)
            if transform == "void":
                continue
            if transform != "identity" or field.source_id not in by_id:
                detail = (
                    f"it is partitioned by {field.name}, which is {transform} of the column with the id "
                    f"{field.source_id}"
                )
                self._refuse(
                    detail,
                    "Only top-level columns as they are can be partition columns: use CREATE TABLE ... AS SELECT.",
                )
            found.append((place, by_id[field.source_id]))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class StoredInput:
    """What pyiceberg calls an input file, of the table's storage; that of no location opens the others."""

    log: Log
    location: str = ""

    def new_input(self, location: str) -> StoredInput:
        return StoredInput(self.log, location)

    def open(self, seekable: bool = True) -> BytesIO:  # noqa: ARG002  pyiceberg's signature
        store, key = self.log.locate(normalise(self.location))
        return BytesIO(store.get(key))


# --- data files


@dataclass(frozen=True)
class _Files:
    """The data files of an Iceberg table, as entries of a log.

    Attributes:
        partitioned_by: the places of partition values in Iceberg's records, and the names of their columns.
    """

    source: IcebergSource
    schema: Struct
    metadata: Metadata
    partitioned_by: Sequence[tuple[int, str]]

    def adds(self, files: Sequence[Any]) -> list[Add]:
        """Read the footers of the files.

        Raises:
            CloneFilesMissingError, CloneIncompatibleSourceError
        """
        found = list(in_threads(self._add, files))
        missing = [file.file_path for file, add in zip(files, found, strict=True) if add is None]
        if missing:
            shown = ", ".join(missing[:3])
            raise CloneFilesMissingError(
                table=self.source.name, version="the newest snapshot", count=len(missing), files=shown
            )
        return [add for add in found if add is not None]

    @cached_property
    def _columns(self) -> list[IndexedColumn]:
        return [column for column in indexed_columns(self.metadata, "id") if has_statistics(column)]

    def _add(self, file: Any) -> Add | None:
        """The entry of a file; None if it does not exist."""
        table, url = self.source.table, normalise(file.file_path)
        store, key = table.log.locate(url)
        try:
            known = store.head(key)
            if known is None:
                return None
            with open_parquet(store, key) as parquet:
                footer = parquet.metadata
        except DeltaError:
            raise
        except UNREADABLE as error:
            self.source._refuse(f"{url} cannot be read as a Parquet file: {error}", "Check the table with Iceberg.")
        unfit = _unfit(pa.struct(list(footer.schema.to_arrow_schema())), self.schema)
        if unfit is not None:
            self.source._refuse(
                f"in {url} {unfit}", "Rewrite its data files in Iceberg first, or use CREATE TABLE ... AS SELECT."
            )
        statistics = exact_statistics(footer, footer_layout(footer, self._columns, "id"))
        prefix_length = STRING_PREFIX_LENGTH.get(self.metadata.configuration, table=self.source.name)
        inside = url.startswith(f"{table.url}/")
        return Add(
            path=encode_path(url.removeprefix(f"{table.url}/")) if inside else encode_url(url),
            partition_values=self._partition_values(file.partition),
            size_bytes=known.size_bytes,
            modification_time_ms=known.modified_ms,
            data_change=True,
            stats=encode_statistics(statistics, self.schema, prefix_length=prefix_length),
        )

    def _partition_values(self, record: Any) -> dict[str, str | None]:
        """The entries of `partitionValues` from a record of a manifest. An empty text is refused, because it would be
        null there, and so are bytes that are not UTF-8.
        """
        found = {}
        for place, name in self.partitioned_by:
            column = self.schema.find(name)
            assert column is not None  # `_partitioned_by` has found it
            if record[place] in ("", b""):
                self._refuse_value(name, "''", "NULL in a Delta table")
            try:
                found[name] = format_partition_value(
                    _value(record[place], column.type), column.type, table=self.source.name
                )
            except UnsupportedOperationError:  # bytes that are no text
                self._refuse_value(
                    name, f"X'{record[place].hex()}'", "not UTF-8, so the log of a Delta table cannot have it"
                )
        return found

    def _refuse_value(self, name: str, value: str, reason: str) -> NoReturn:
        detail = f"a file has the partition value {name} = {value}, which is {reason}"
        self.source._refuse(detail, "Use CREATE TABLE ... AS SELECT without this partition column.")


def _value(value: Any, kind: DataType) -> Any:
    """A partition value of a record in Iceberg's metadata, where days and microseconds are numbers."""
    if not isinstance(value, int):
        return value
    if kind == DATE:
        return date(1970, 1, 1) + timedelta(days=value)
    moment = _EPOCH + timedelta(microseconds=value) if kind in (TIMESTAMP, TIMESTAMP_NTZ) else None
    return value if moment is None else moment.replace(tzinfo=UTC) if kind == TIMESTAMP else moment


def _unfit(kind: pa.DataType, wanted: DataType, path: tuple[str, ...] = ()) -> str | None:
    """Why the columns of a file cannot be read as those of the table by their ids; None if they can. The file may lack
    columns.
    """
    name = ".".join(path)
    match wanted:
        case Struct() if pa.types.is_struct(kind):
            by_id = {(field.metadata or {}).get(FIELD_ID): field.type for field in kind}
            if None in by_id:
                return f"columns{f' of {name}' if name else ''} have no field ids"
            pairs = ((field, by_id.get(str(column_id(field)).encode())) for field in wanted)
            reasons = (
                _unfit(file_type, field.type, (*path, field.name))
                for field, file_type in pairs
                if file_type is not None
            )
            return next((reason for reason in reasons if reason is not None), None)
        case Array() if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return _unfit(kind.value_type, wanted.element, (*path, "element"))
        case Map() if pa.types.is_map(kind):
            return _unfit(kind.key_type, wanted.key, (*path, "key")) or _unfit(
                kind.item_type, wanted.value, (*path, "value")
            )
        case Struct() | Array() | Map():
            return f"the column {name} is {kind}, not {wanted}"
    if has_values_of(kind, arrow_type(wanted)) or (wanted == BINARY and pa.types.is_fixed_size_binary(kind)):
        return None
    return f"the column {name} is {kind}, from before its type became {wanted}"
