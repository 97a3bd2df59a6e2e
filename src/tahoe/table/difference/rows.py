"""The rows that differ between two versions: only files that both do not share are read, and of a file whose deletion
vector changed only the rows that this deleted or restored.

Rows are compared in units of bounded size, which wait in temporary files: equal rows are in the same unit. All that
remains once equal rows of both versions are taken away is a difference; rows with the same key are an update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tahoe.errors import ColumnNotFoundError, InvalidArgumentError
from tahoe.protocol.configuration.column_mapping import MODE, stored_name
from tahoe.protocol.configuration.row_tracking import METADATA, ROW_ID
from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.types.schema import Field, Struct
from tahoe.storage.threads import CORES, in_threads
from tahoe.table.arrow.canonical import canonical_table
from tahoe.table.arrow.chunks import reordered_table, taken_table
from tahoe.table.arrow.spool import Pages, Spool
from tahoe.table.arrow.types import arrow_schema
from tahoe.table.difference.columns import ComparedColumns, compared_columns
from tahoe.table.difference.equal_rows import Codes, column_codes, combined, row_units
from tahoe.table.difference.files import FileDifference
from tahoe.table.log.deletion_vectors import load_bitmap
from tahoe.table.log.live_files import LiveFiles
from tahoe.table.reading.rows import data_files, file_reader
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.file_tables import table_of

MatchedBy = Literal["keys", "row ids", "whole rows"]

# Under this name the ids of rows are read.
_ID = f"{METADATA}.{ROW_ID}"

# The files of a unit have about so many bytes. Their rows take up to some ten times as much.
_UNIT_FILE_BYTES = 16 << 20
_UNITS_MAX = 2048

# More rows than this wait in a temporary file.
_MEMORY_BYTES = 128 << 20
_PAGE_BYTES = 16 << 20

_BEFORE, _AFTER = 0, 1


@dataclass(kw_only=True)
class RowDifference:
    """The rows that differ, with their exact numbers.

    Attributes:
        schema: the columns in which rows are compared.
        matched_by: what makes a row of one version the same row in the other.
        keys: the columns given as keys.
        updated_columns: in how many updated rows each column differs.
    """

    schema: pa.Schema
    matched_by: MatchedBy
    keys: tuple[str, ...]
    inserted: Pages = field(default_factory=lambda: Pages(_PAGE_BYTES))
    deleted: Pages = field(default_factory=lambda: Pages(_PAGE_BYTES))
    updated: Pages = field(default_factory=lambda: Pages(_PAGE_BYTES))
    counts: Counter[str] = field(default_factory=Counter)
    updated_columns: Counter[str] = field(default_factory=Counter)

    @property
    def updated_schema(self) -> pa.Schema:
        """Each row before and after, as structs."""
        row = pa.struct(list(self.schema))
        return pa.schema([pa.field("before", row), pa.field("after", row)])


def row_difference(before: Snapshot, after: Snapshot, files: FileDifference, keys: Sequence[str]) -> RowDifference:
    """
    Raises:
        ColumnNotFoundError, InvalidArgumentError: a key is not a column of both versions.
        DeltaDataError: a file is not what the log says, or is gone.
    """
    modes = (before.column_mapping_mode, after.column_mapping_mode)
    columns = compared_columns(before.schema, after.schema, modes, replaced=not files.shared)
    named = tuple(_key(name, columns, before, after) for name in keys)
    by_ids = not named and _has_ids(before, columns) and _has_ids(after, columns)
    found = RowDifference(
        schema=arrow_schema(columns.columns),
        matched_by="keys" if named else "row ids" if by_ids else "whole rows",
        keys=named,
    )
    if not len(columns.columns):
        return found
    units = min(max(files.changed_bytes // _UNIT_FILE_BYTES, 1), _UNITS_MAX)
    keyed = named or ((_ID,) if by_ids else ())
    with Spool(units, _MEMORY_BYTES) as old, Spool(units, _MEMORY_BYTES) as new:
        for side in _sides(before, after, files, columns, by_ids=by_ids):
            side.read_into(new if side.is_after else old, units, keyed)
        for unit in range(units):
            _compare(old.take(unit), new.take(unit), keyed, found)
    return found


def _key(name: str, columns: ComparedColumns, before: Snapshot, after: Snapshot) -> str:
    found = columns.columns.find(name)
    if found is not None and found.name in columns.before:
        return found.name
    both = ", ".join(columns.before)
    if found is None and before.schema.find(name) is None:
        raise ColumnNotFoundError(table=after.url, column=name, columns=", ".join(after.schema.names))
    raise InvalidArgumentError(
        argument="keys",
        table=after.url,
        found=name,
        expected=f"a column that both versions have, with types that can be compared: {both or 'there is none'}",
        remedy="Name such columns, or none: then rows are compared as a whole.",
    )


def _has_ids(version: Snapshot, columns: ComparedColumns) -> bool:
    """Whether rows have ids that can be read beside the columns."""
    return version.tracks_rows and all(field.name.lower() not in (METADATA, _ID) for field in columns.columns)


# --- reading


@dataclass(frozen=True, kw_only=True)
class _Side:
    """Rows of one version that are read: files as a table of their own.

    Attributes:
        fields: what is read, by the names under which rows are compared.
        marked: whether the rows are those that the files' vectors mark.
    """

    files: Snapshot
    fields: Mapping[str, Field]
    schema: pa.Schema
    is_after: bool
    marked: bool

    def read_into(self, spool: Spool, units: int, keys: Sequence[str]) -> None:
        """Read the rows, sorted into units."""
        scan = self.files.scan()
        names = {name: read.name for name, read in self.fields.items()}
        if _ID in self.schema.names:
            names[_ID] = _ID
        read = file_reader(scan, list(names.values()), marked=self.marked, by_group=True)

        def load(file: object) -> None:
            for piece in read(file):  # type: ignore[arg-type]  # one of `data_files`
                if piece.num_rows:
                    _spooled(self._complete(piece.rename_columns(list(names))), spool, units, keys)

        for _ in in_threads(load, data_files(scan), CORES):
            pass

    def _complete(self, rows: pa.Table) -> pa.Table:
        """The rows with all columns, in the order of the schema."""
        columns = [
            rows.column(f.name) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type) for f in self.schema
        ]
        return pa.table(columns, schema=self.schema)


def _spooled(rows: pa.Table, spool: Spool, units: int, keys: Sequence[str]) -> None:
    if units == 1:
        spool.add(rows, [0, rows.num_rows])
        return
    of_row = row_units(canonical_table(rows.select(list(keys)) if keys else rows), units)
    order = np.argsort(of_row, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=units))])
    spool.add(rows.take(pa.array(order)), starts.tolist())


def _sides(
    before: Snapshot, after: Snapshot, files: FileDifference, columns: ComparedColumns, *, by_ids: bool
) -> Iterator[_Side]:
    kept = [(old, new) for old, new in files.changed_vectors if not by_ids or old.base_row_id == new.base_row_id]
    moved = [pair for pair in files.changed_vectors if pair not in kept]
    whole = ([*files.removed, *(old for old, _ in moved)], [*files.added, *(new for _, new in moved)])
    marked = ([_marked(before, old, new) for old, new in kept], [_marked(after, new, old) for old, new in kept])
    schema = arrow_schema(columns.columns)
    if by_ids:
        schema = schema.append(pa.field(_ID, pa.int64()))
    versions, fields = (before, after), (columns.before, columns.after)
    for at in (_BEFORE, _AFTER):
        for group, is_marked in ((whole[at], False), (marked[at], True)):
            adds = [add for add in group if add is not None]
            if adds:
                like = _read_as(versions[at], versions[1 - at], fields[at], kept=bool(files.shared))
                yield _Side(
                    files=table_of(adds, like, like.version, like.metadata),
                    fields=fields[at],
                    schema=schema,
                    is_after=at == _AFTER,
                    marked=is_marked,
                )


def _marked(version: Snapshot, here: Add, there: Add) -> Add | None:
    """A file with a vector of the rows that only this version has; None if there are none."""
    if there.deletion_vector is None:
        return None
    rows = load_bitmap(version.log, there.deletion_vector, there.path)
    if here.deletion_vector is not None:
        rows = rows - load_bitmap(version.log, here.deletion_vector, here.path)
    return here.replace(deletion_vector=inline_descriptor(rows)) if rows else None


def _read_as(version: Snapshot, other: Snapshot, fields: Mapping[str, Field], *, kept: bool) -> Snapshot:
    """A version with the columns that are read of it. If only the other one has physical names, it is read by them."""
    configuration, protocol, mode = dict(version.properties), version.protocol, version.column_mapping_mode
    if kept and mode == "none" != other.column_mapping_mode:
        configuration[MODE], protocol, mode = other.properties[MODE], other.protocol, other.column_mapping_mode
    partitioned = {
        stored_name(field, version.column_mapping_mode)
        for field in version.schema
        if field.name in version.partition_columns
    }
    metadata = version.metadata.replace(
        id=f"{version.metadata.id}/difference/{version.version}",
        schema_string=Struct(tuple(fields.values())).to_json(),
        partition_columns=tuple(field.name for field in fields.values() if stored_name(field, mode) in partitioned),
        configuration=configuration,
    )
    return replace(version, protocol=protocol, metadata=metadata, live=LiveFiles(()))


# --- comparing


def _compare(old: pa.Table | None, new: pa.Table | None, keys: Sequence[str], found: RowDifference) -> None:
    """Compare the rows of one unit, and add what differs."""
    if old is None or new is None:
        for rows, pages, kind in ((old, found.deleted, "deleted"), (new, found.inserted, "inserted")):
            if rows is not None:
                _add(rows, pages, kind, found)
        return
    rows = canonical_table(pa.concat_tables([old, new]))
    is_new = np.arange(rows.num_rows) >= old.num_rows
    codes = {name: column_codes(rows.column(name)) for name in rows.column_names}
    differ = np.flatnonzero(~_has_partner(combined(list(codes.values())), is_new))
    if not keys:
        pairs = np.empty((0, 2), np.int64)
    else:
        pairs = differ[_pairs(combined([codes[name] for name in keys])[differ], is_new[differ])]
    alone = np.setdiff1d(differ, pairs.ravel(), assume_unique=True)
    _add(taken_table(rows, alone[~is_new[alone]]), found.deleted, "deleted", found)
    _add(taken_table(rows, alone[is_new[alone]]), found.inserted, "inserted", found)
    if len(pairs):
        shown = rows.select(found.schema.names)
        structs = [reordered_table(shown, side).to_struct_array() for side in pairs.T]
        found.updated.add(pa.table(structs, schema=found.updated_schema))
        found.counts["updated"] += len(pairs)
        for name in found.schema.names:
            found.updated_columns[name] += int((codes[name][pairs[:, 0]] != codes[name][pairs[:, 1]]).sum())


def _add(rows: pa.Table, pages: Pages, kind: str, found: RowDifference) -> None:
    if rows.num_rows:
        pages.add(rows.select(found.schema.names))
        found.counts[kind] += rows.num_rows


def _numbered(codes: Codes, is_new: npt.NDArray[np.bool_]) -> Codes:
    """A number for each row, the same for the first row of both sides with a code, for the second ones, and so on."""
    side = codes * 2 + is_new
    order = np.argsort(side, kind="stable")
    ordered = side[order]
    firsts = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]
    within = np.arange(len(order)) - np.maximum.accumulate(np.where(firsts, np.arange(len(order)), 0))
    occurrence = np.empty(len(order), np.int64)
    occurrence[order] = within
    return combined([codes, occurrence])


def _has_partner(codes: Codes, is_new: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether a row equals one of the other side, each of which is a partner once."""
    numbers = _numbered(codes, is_new)
    partners: npt.NDArray[np.bool_] = np.bincount(numbers)[numbers] == len((_BEFORE, _AFTER))
    return partners


def _pairs(codes: Codes, is_new: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The positions of rows of both sides with the same code: before and after."""
    if not len(codes):
        return np.empty((0, 2), np.int64)
    numbers = _numbered(codes, is_new)
    paired = np.bincount(numbers)[numbers] == len((_BEFORE, _AFTER))
    order = np.lexsort((is_new, numbers))
    found: npt.NDArray[np.int64] = order[paired[order]].reshape(-1, 2)
    return found
