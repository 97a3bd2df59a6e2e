"""Compares Iceberg's metadata with its version of the table: schema, files, rows, partitions and bounds."""

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

from tahoe.errors import UnsupportedOperationError
from tahoe.iceberg.conversion import told
from tahoe.iceberg.data_files import DataFiles, NewFile
from tahoe.iceberg.manifest_files import field_of, read_entries
from tahoe.iceberg.manifests import manifests_of
from tahoe.iceberg.metadata_folder import MetadataFolder
from tahoe.iceberg.schemas import iceberg_schema
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
    found = _data_files(folder, known.metadata)
    return Verification(
        version=version,
        newest=snapshot.version,
        files=len(found),
        rows=sum(file.file.record_count for file in found.values()),
        differences=tuple(_differences(state, known.metadata, found)),
    )


def _data_files(folder: MetadataFolder, metadata: TableMetadata) -> Mapping[str, NewFile]:
    newest, files = metadata.current_snapshot(), dict[str, NewFile]()
    for manifest in [] if newest is None else manifests_of(folder, newest):
        assert manifest.content == ManifestContent.DATA  # tahoe writes no others
        for entry in read_entries(manifest, folder.input(folder.key(manifest.manifest_path))):
            files[entry.data_file.file_path] = NewFile(entry.data_file, entry.sequence_number)
    return files


def _differences(state: Snapshot, metadata: TableMetadata, found: Mapping[str, NewFile]) -> Iterator[str]:
    schema = metadata.schema()
    wanted = iceberg_schema(state.schema, schema.schema_id, table=state.url)
    if schema.as_struct() != wanted.as_struct():
        yield f"the schema is {schema.as_struct()}, but that of version {state.version} is {wanted.as_struct()}"
        return
    files = DataFiles(state, schema, metadata.default_spec_id)
    expected = {new.file.file_path: new for new in map(files.new, state.full_scan.adds())}
    yield from _named("files of the table that are missing", sorted(expected.keys() - found.keys()))
    yield from _named("files that the table does not have", sorted(found.keys() - expected.keys()))
    common = sorted(expected.keys() & found.keys())
    both = [(path, expected[path].file, found[path].file) for path in common]
    for what, differs in (
        ("of another size", lambda a, b: a.file_size_in_bytes != b.file_size_in_bytes),
        ("with another number of rows", lambda a, b: a.record_count != b.record_count),
        ("of another partition", lambda a, b: _partition(a.partition) != _partition(b.partition)),
        ("with bounds or null counts that their rows contradict", lambda a, b: _excludes(a, b, schema)),
    ):
        yield from _named(f"files {what}", [path for path, mine, theirs in both if differs(mine, theirs)])
    lineage = [path for path in common if _lineage(expected[path]) not in (None, _lineage(found[path]))]
    yield from _named("files whose rows have other ids or versions", lineage)


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
