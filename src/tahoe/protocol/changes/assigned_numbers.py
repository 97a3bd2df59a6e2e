"""The numbers that a table has assigned, carried from version to version: none of them is ever assigned to anything
else.

Protocol: "Writer Requirements for Column Mapping", "Identity Columns", "Writer Requirements for Row Tracking". A column
id stays in the protocol's property. A row id stays in the domain of row tracking, and an identity value in the column's
metadata, as long as the table has them; then they are kept in a property of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tahoe.errors import InvalidIdentityColumnError
from tahoe.protocol.changes.column_values import Identity, identity_columns, is_same_column, with_high_water_marks
from tahoe.protocol.configuration.column_mapping import MAX_COLUMN_ID, highest_id, physical_name
from tahoe.protocol.configuration.kept_marks import NO_IDS, KeptMarks
from tahoe.protocol.configuration.properties import KEPT_MARKS
from tahoe.protocol.configuration.row_tracking import high_water_mark
from tahoe.protocol.log.actions import DomainMetadata, Metadata
from tahoe.protocol.types.schema import Field, Struct


def assigned_row_ids(
    domain: DomainMetadata | None, configuration: Mapping[str, str], *, table: str = "the table"
) -> int:
    """The highest row id that a table has ever assigned."""
    return max(high_water_mark(domain), KEPT_MARKS.get(configuration, table=table).row_id)


def with_numbers_of(before: Metadata, after: Metadata, *, table: str) -> Metadata:
    """The metadata of a version with the numbers that the version before it has used, whatever the commit does: the
    highest column id, and the kept marks, with those of identity columns that are gone or begin anew.
    """
    highest = max(highest_id(metadata.configuration, table=table) for metadata in (before, after))
    marks_before, marks_after = (KEPT_MARKS.get(metadata.configuration, table=table) for metadata in (before, after))
    identity_marks = _kept_identity(before.schema, after.schema, [*_pairs(marks_before), *_pairs(marks_after)])
    marks = KeptMarks(row_id=max(marks_before.row_id, marks_after.row_id), identity=identity_marks)
    configuration = {
        name: value for name, value in after.configuration.items() if name not in (MAX_COLUMN_ID, KEPT_MARKS.name)
    }
    if highest or MAX_COLUMN_ID in after.configuration:
        configuration[MAX_COLUMN_ID] = str(highest)
    if marks != KeptMarks():
        configuration[KEPT_MARKS.name] = marks.encode()
    return after if configuration == after.configuration else after.replace(configuration=configuration)


def with_row_ids_kept(metadata: Metadata, domain: DomainMetadata | None, *, table: str) -> Metadata:
    """The metadata of a table that loses the domain of its row ids."""
    highest = assigned_row_ids(domain, metadata.configuration, table=table)
    if highest == NO_IDS:
        return metadata
    kept = KeptMarks(row_id=highest, identity=KEPT_MARKS.get(metadata.configuration, table=table).identity)
    return metadata.replace(configuration={**metadata.configuration, KEPT_MARKS.name: kept.encode()})


def with_identity_marks_of(newest: Metadata, schema: Struct, *, table: str) -> Struct:
    """The schema of an adopted version with the high-water marks of identity columns raised to those that the newest
    version has for the same columns, or keeps of them.
    """
    kept, there = KEPT_MARKS.get(newest.configuration, table=table).identity, list(_identity(newest.schema))
    for name, identity in identity_columns(schema, table=table):
        column = schema.find(name)
        assert column is not None
        marks = [now.high_water_mark for other, now in there if is_same_column(column, other)]
        for mark in [*marks, *kept.get(physical_name(column).lower(), ())]:
            if mark is not None and not identity.is_before_start(mark):
                schema = with_high_water_marks(schema, {name: mark})
    return schema


def _kept_identity(before: Struct, after: Struct, kept: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """The marks to keep: those that are kept already, and those of the columns before, unless a column has reached them
    now.
    """
    identities = list(_identity(after))
    marks: dict[str, list[int]] = {}
    for name, mark in kept:
        if not any(
            physical_name(column).lower() == name and identity.has_passed(mark) for column, identity in identities
        ):
            marks.setdefault(name, []).append(mark)
    for column, identity in _identity(before):
        last = identity.high_water_mark
        if last is not None and not any(
            is_same_column(column, other) and now.has_passed(last) for other, now in identities
        ):
            marks.setdefault(physical_name(column).lower(), []).append(last)
    return {name: tuple(sorted({min(values), max(values)})) for name, values in marks.items()}


def _identity(schema: Struct) -> Iterator[tuple[Field, Identity]]:
    """The identity columns of a schema; none if another writer has left one incomplete, which no number follows
    from.
    """
    try:
        found = dict(identity_columns(schema))
    except InvalidIdentityColumnError:
        return
    yield from ((column, found[column.name]) for column in schema if column.name in found)


def _pairs(kept: KeptMarks) -> Iterator[tuple[str, int]]:
    return ((name, mark) for name, marks in kept.identity.items() for mark in marks)
