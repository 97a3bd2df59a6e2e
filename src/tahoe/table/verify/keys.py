"""Looks for rows that violate the keys that a table declares: `Table.check_keys`, and `tahoe check --keys`.

No writer enforces these keys. As in SQL, a null equals nothing: rows with a null in a key violate only a primary key.
NaN equals NaN, and 0.0 equals -0.0. The different values of a key are in memory; Spark has no such limit
(`tahoe.spark.maintenance.keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import DeltaError
from tahoe.protocol.configuration.declared_keys import FOREIGN, PRIMARY, Key, keys_of
from tahoe.protocol.statistics.skipping import is_collated
from tahoe.protocol.types.names import counted, dotted, literal
from tahoe.table.arrow.chunks import reordered_table
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.verify.findings import Finding, Kind, finding
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.merge_keys import comparable

EXAMPLES_MAX = 5

# Groups are combined once so many have gathered, beside those that are combined already.
_GROUPS_MAX = 1 << 20

_COUNT = "\0rows"

Example: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReport:
    """What a check found of one key.

    Attributes:
        key: the key, with its name, kind and columns.
        violations: rows that violate it: those beyond the first of their values, those with a null in a primary key, or
            those to which no row of the referenced table belongs. None if the key could not be checked.
        nulls: how many of them have a null in a primary key.
        examples: some of the values, by column.
        reason: why the key could not be checked; None if it was.
    """

    key: Key
    violations: int | None = None
    nulls: int = 0
    examples: tuple[Example, ...] = ()
    reason: str | None = None

    @property
    def is_kept(self) -> bool | None:
        """Whether the rows satisfy the key; None if it could not be checked."""
        return None if self.violations is None else self.violations == 0

    def __str__(self) -> str:
        if self.violations is None:
            return f"{self.key.name} {self.key} was not checked: {self.reason}"
        if not self.violations:
            return f"{self.key.name} {self.key}: no row violates it"
        rows = counted(self.violations, "row")
        return f"{self.key.name} {self.key}: violated by {rows}, for example {'; '.join(self.shown_examples)}"

    @property
    def shown_examples(self) -> list[str]:
        """The examples as texts: `id = 1, day = 'a'`."""
        return [", ".join(f"{dotted((n,))} = {_shown(v)}" for n, v in each.items()) for each in self.examples]


def _shown(value: Any) -> str:
    return "NULL" if value is None else literal(value) if isinstance(value, str) else str(value)


def check_keys(
    table: TableReader, version: int | str | None = None, storage_options: Mapping[str, str] | None = None
) -> list[KeyReport]:
    """Check the keys of a version, of the newest one if None.

    Args:
        storage_options: of the tables to which foreign keys refer.

    Raises:
        InvalidPropertyError: a key cannot be read.
        DeltaError: the table cannot be read.
    """
    snapshot = table.snapshot(version)

    def opened(location: str) -> TableReader:
        return table if location == table.url else TableReader(location, storage_options)

    return [_checked(key, snapshot, opened) for key in keys_of(snapshot.properties, table=table.url)]


def key_findings(reports: Iterable[KeyReport]) -> Iterator[Finding]:
    """The keys that rows violate, and those that could not be checked, as findings of `tahoe check`."""
    for report in reports:
        if not report.is_kept:
            kind = Kind.UNCHECKED_KEY if report.violations is None else Kind.VIOLATED_KEY
            yield finding(kind, file=None, version=None, detail=str(report))


def _checked(key: Key, snapshot: Snapshot, opened: Callable[[str], TableReader]) -> KeyReport:
    try:
        columns = spelled_columns(key.columns, snapshot)
        _check_comparable(columns, snapshot)
        if key.kind == FOREIGN:
            return _checked_foreign(key, _groups(snapshot, columns), opened)
    except LookupError as error:
        return KeyReport(key=key, reason=str(error.args[0]))
    groups = _groups(snapshot, columns)
    has_null = _any([pc.is_null(groups[name]) for name in columns])
    repeated = groups.filter(pc.and_(pc.invert(has_null), pc.greater(groups[_COUNT], 1)))
    nulls = groups.filter(has_null) if key.kind == PRIMARY else groups.slice(0, 0)
    null_rows = _sum(nulls)
    return KeyReport(
        key=key,
        violations=null_rows + _sum(repeated) - len(repeated),
        nulls=null_rows,
        examples=_examples(pa.concat_tables([nulls, repeated])),
    )


def _checked_foreign(key: Key, groups: pa.Table, opened: Callable[[str], TableReader]) -> KeyReport:
    """
    Raises:
        LookupError: the other table cannot be found or read, or lacks the columns.
    """
    if key.location is None:
        raise LookupError(f"only Spark knows the table {'.'.join(key.references)} of its catalog")
    columns = [name for name in groups.column_names if name != _COUNT]
    try:
        other = opened(key.location).snapshot()
        referenced = referenced_columns(key, other)
        _check_comparable(referenced, other)
        known = _groups(other, referenced)
    except DeltaError as error:
        raise LookupError(error.what.format(**error.parameters)) from error
    given = groups.filter(_any([pc.is_null(groups[name]) for name in columns], negated=True))
    try:
        lacking = _without(given, known.drop_columns([_COUNT]).rename_columns(columns), columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise LookupError(f"its values cannot be compared with those of {other.url}: {error}") from error
    return KeyReport(key=key, violations=_sum(lacking), examples=_examples(lacking))


def _without(given: pa.Table, known: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The groups whose values no row of the other table has. Types that differ are cast to the wider one."""
    wide = pa.unify_schemas([given.select(columns).schema, known.schema], promote_options="permissive")
    count = given.schema.field(_COUNT)
    return given.cast(pa.schema([*wide, count])).join(known.cast(wide), list(columns), join_type="left anti")


def spelled_columns(columns: Sequence[str], snapshot: Snapshot) -> tuple[str, ...]:
    """The columns as a table spells them.

    Raises:
        LookupError: some are not there, because another writer has renamed or dropped them.
    """
    found = [(name, snapshot.schema.find(name)) for name in columns]
    lacking = [name for name, column in found if column is None]
    if lacking:
        raise LookupError(f"{snapshot.url} has no column {', '.join(lacking)}")
    return tuple(column.name for _, column in found if column is not None)


def _check_comparable(columns: Sequence[str], snapshot: Snapshot) -> None:
    """
    Raises:
        LookupError: equal texts are not equal bytes here.
    """
    collated = [name for name in columns if is_collated(snapshot.schema, (name,))]
    if collated:
        what = f"the collation of {', '.join(collated)} in {snapshot.url}"
        raise LookupError(f"only Spark compares texts by {what}; DeltaTable.checkKeys() checks the key")


def referenced_columns(key: Key, other: Snapshot) -> tuple[str, ...]:
    """The columns of another table to which a foreign key refers: the ones that it names, else the primary key.

    Raises:
        LookupError: the table has no such columns or no such primary key; the text says which.
    """
    columns = key.referenced_columns
    if not columns:
        keys = keys_of(other.properties, table=other.url)
        columns = next((found.columns for found in keys if found.kind == PRIMARY), ())
        if len(columns) != len(key.columns):
            raise LookupError(f"{other.url} has no primary key of {counted(len(key.columns), 'column')}")
    return spelled_columns(columns, other)


# --- rows


def _groups(snapshot: Snapshot, columns: Sequence[str]) -> pa.Table:
    """The different values of some columns, each with the number of its rows."""
    gathered: list[pa.Table] = []
    waiting, combined = 0, 0
    for batch in snapshot.to_batches(list(columns)):
        values = {name: comparable(batch.column(name)) for name in columns}
        part = pa.table({**values, _COUNT: pa.repeat(1, batch.num_rows)})
        gathered.append(_combined([part], columns))
        waiting += len(gathered[-1])
        if waiting > combined + _GROUPS_MAX:
            gathered = [_combined(gathered, columns)]
            waiting, combined = 0, len(gathered[0])
    if not gathered:
        empty = snapshot.to_batches(list(columns)).schema
        return pa.table({**{name: pa.array([], empty.field(name).type) for name in columns}, _COUNT: pa.repeat(1, 0)})
    return _combined(gathered, columns)


def _combined(parts: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    grouped = pa.concat_tables(parts).group_by(list(columns)).aggregate([(_COUNT, "sum")])
    return grouped.select([*columns, f"{_COUNT}_sum"]).rename_columns([*columns, _COUNT])


def _any(masks: Sequence[pa.ChunkedArray], *, negated: bool = False) -> pa.ChunkedArray:
    found = masks[0]
    for mask in masks[1:]:
        found = pc.or_(found, mask)
    return pc.invert(found) if negated else found


def _sum(groups: pa.Table) -> int:
    return int(pc.sum(groups[_COUNT]).as_py() or 0)


def _examples(groups: pa.Table) -> tuple[Example, ...]:
    """The values of which there are most rows."""
    columns = [name for name in groups.column_names if name != _COUNT]
    order: list[tuple[str, Any]] = [(_COUNT, "descending"), *((name, "ascending") for name in columns)]
    first = pc.sort_indices(groups, sort_keys=order).slice(0, EXAMPLES_MAX)
    return tuple(reordered_table(groups.select(columns), first).to_pylist())
