"""Compares Iceberg's metadata with its version of the table: schema, files, rows, partitions, bounds, row ids and
deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ctypes import c_float
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType
from pyroaring import BitMap64

from tahoe.errors import UnsupportedOperationError
from tahoe.iceberg.conversion import told
from tahoe.iceberg.data_files import DataFiles, NewFile
from tahoe.iceberg.manifest_files import field_of, read_entries
from tahoe.iceberg.manifests import manifests_of
from tahoe.iceberg.metadata_folder import MetadataFolder
from tahoe.iceberg.puffin import read_vector
from tahoe.iceberg.schemas import iceberg_schema
from tahoe.table.log.deletion_vectors import deleted_rows_of
from tahoe.table.reading.snapshot import Snapshot, load_snapshot

# So many files are named of each kind of difference.
_NAMED_MAX = 5

# Bounds of files that were written before their column became wider.
_NARROW = {LongType: (4, IntegerType()), DoubleType: (4, FloatType())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a comparison found.

    Attributes:
        version: the version of the table that was compared.
        newest: its newest version.
        files, rows: of Iceberg's newest snapshot.
        differences: sentences; none if both sides agree.
    """

    version: int
    newest: int
    files: int
    rows: int
    differences: tuple[str, ...]


def verify(snapshot: Snapshot) -> Verification:
    """Compare the newest metadata file with its version of the table. No data file is opened.

    Raises:
        UnsupportedOperationError: the table has no metadata of Iceberg that tahoe wrote in this folder.
    """
    folder = MetadataFolder(snapshot.log)
    known = folder.newest()
    is_there = known is not None and known.version is not None
    if known is None or not is_there or known.metadata.location != folder.location:
        raise UnsupportedOperationError(
            operation="Verifying Iceberg's metadata",
            table=snapshot.url,
            detail=f"its metadata is that of {known.metadata.location}" if known and is_there else "the table has none",
            remedy="Write it with tahoe iceberg PATH sync.",
        )
    version, _ = told(known)
    state = load_snapshot(snapshot.log, version)
    found = _Found.of(folder, known.metadata)
    return Verification(
        version=version,
        newest=snapshot.version,
        files=len(found.files),
        rows=sum(file.file.record_count for file in found.files.values())
        - sum(vector.record_count for vector in found.vectors.values()),
        differences=tuple(_differences(state, known.metadata, found)),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What the newest snapshot has, by the locations of data files."""

    folder: MetadataFolder
    files: Mapping[str, NewFile]
    vectors: Mapping[str, DataFile]

    @classmethod
    def of(cls, folder: MetadataFolder, metadata: TableMetadata) -> _Found:
        newest, files, vectors = metadata.current_snapshot(), dict[str, NewFile](), dict[str, DataFile]()
        for manifest in [] if newest is None else manifests_of(folder, newest):
            for entry in read_entries(manifest, folder.input(folder.key(manifest.manifest_path))):
                if manifest.content == ManifestContent.DATA:
                    files[entry.data_file.file_path] = NewFile(entry.data_file, entry.sequence_number)
                else:
                    vectors[field_of(entry.data_file, "referenced_data_file")] = entry.data_file
        return cls(folder, files, vectors)

    def deleted_rows(self, location: str) -> BitMap64 | None:
        """The rows that a vector deletes; None if its file is not as its entry says."""
        vector = self.vectors.get(location)
        try:
            return BitMap64() if vector is None else read_vector(self.folder, vector)
        except (ValueError, OSError):
            return None


def _differences(state: Snapshot, metadata: TableMetadata, found: _Found) -> Iterator[str]:
    schema = metadata.schema()
    wanted = iceberg_schema(state.schema, schema.schema_id, version=metadata.format_version, table=state.url)
    if schema.as_struct() != wanted.as_struct():
        yield f"the schema is {schema.as_struct()}, but that of version {state.version} is {wanted.as_struct()}"
        return
    files = DataFiles(state, schema, metadata.format_version)
    adds = list(state.full_scan.adds())
    expected = {new.file.file_path: new for new in map(files.new, adds)}
    yield from _named("files of the table that are missing", sorted(expected.keys() - found.files.keys()))
    yield from _named("files that the table does not have", sorted(found.files.keys() - expected.keys()))
    common = sorted(expected.keys() & found.files.keys())
    both = [(path, expected[path].file, found.files[path].file) for path in common]
    for what, differs in (
        ("of another size", lambda a, b: a.file_size_in_bytes != b.file_size_in_bytes),
        ("with another number of rows", lambda a, b: a.record_count != b.record_count),
        ("of another partition", lambda a, b: _partition(a.partition) != _partition(b.partition)),
        ("with bounds or null counts that their rows contradict", lambda a, b: _excludes(a, b, schema)),
    ):
        yield from _named(f"files {what}", [path for path, mine, theirs in both if differs(mine, theirs)])
    lineage = [path for path in common if _lineage(expected[path]) not in (None, _lineage(found.files[path]))]
    yield from _named("files whose rows have other ids or versions", lineage)
    yield from _named("vectors of files that the table does not have", sorted(found.vectors.keys() - expected.keys()))
    paths = ((files.path(add.path), add) for add in adds)
    marked = [(path, add) for path, add in paths if add.deletion_vector is not None or path in found.vectors]
    deleted = zip(marked, deleted_rows_of(state.log, [add for _, add in marked]), strict=True)
    other = [path for (path, _), rows in deleted if found.deleted_rows(path) != rows]
    yield from _named("files of which other rows are deleted", sorted(other))


def _lineage(file: NewFile) -> tuple[int, int] | None:
    """The first row id of a file, and the version of its rows; None without row lineage."""
    first = field_of(file.file, "first_row_id")
    return None if first is None or file.sequence_number is None else (first, file.sequence_number)


def _partition(record: Record) -> str:
    """Values to compare: PyIceberg's compiled decoder reads doubles as floats."""
    return repr([c_float(value).value if isinstance(value, float) else value for value in record])


def _named(what: str, paths: list[str]) -> Iterator[str]:
    if paths:
        more = f", and {len(paths) - _NAMED_MAX:,} more" if len(paths) > _NAMED_MAX else ""
        yield f"{what} ({len(paths):,}): {', '.join(paths[:_NAMED_MAX])}{more}"


def _excludes(mine: DataFile, theirs: DataFile, schema: Schema) -> bool:
    """Whether bounds or null counts in Iceberg's metadata are narrower than those in the log, which may have become
    better meanwhile.
    """
    for number, low in (theirs.lower_bounds or {}).items():
        known = (mine.lower_bounds or {}).get(number)
        if known is not None and _value(schema, number, low) > _value(schema, number, known):
            return True
    for number, high in (theirs.upper_bounds or {}).items():
        known = (mine.upper_bounds or {}).get(number)
        if known is not None and _value(schema, number, high) < _value(schema, number, known):
            return True
    nulls = mine.null_value_counts or {}
    return any(nulls.get(number, count) != count for number, count in (theirs.null_value_counts or {}).items())


def _value(schema: Schema, number: int, bound: bytes) -> Any:
    kind = schema.find_type(number)
    length, narrow = _NARROW.get(type(kind), (None, None))
    return from_bytes(narrow if len(bound) == length else kind, bound)
