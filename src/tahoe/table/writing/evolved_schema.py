"""The schema of a table after a write: schema enforcement, and schema evolution where the write asks for it.

`tahoe.table.writing.casts` says which data of another type than its column's a write refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from tahoe.errors import (
    ConstraintTypeMismatchError,
    FieldsNotMergedError,
    GeneratedColumnTypeMismatchError,
    SchemaMismatchError,
)
from tahoe.errors.root import nearest
from tahoe.protocol.changes.column_values import column_values
from tahoe.protocol.changes.constraints import constraints_of
from tahoe.protocol.changes.evolution import (
    Changed,
    Widens,
    is_stored_alike,
    merge_schemas,
    mismatches,
    new_columns,
    retyped_columns,
    widening_of,
)
from tahoe.protocol.types.schema import Struct
from tahoe.sql.predicates import columns_named
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.writing.casts import Casts
from tahoe.table.writing.write_request import WriteRequest


def evolved_schema(request: WriteRequest, snapshot: Snapshot) -> Struct:
    """The table's schema after a write: with new columns and wider types, if the write may evolve it.

    Raises:
        FieldsNotMergedError: the data has a column of another type than the table's, which the write does not cast.
        ConstraintTypeMismatchError, GeneratedColumnTypeMismatchError: the same of a column on which such an expression
            depends.
        SchemaMismatchError: the data has new columns or wider types, and the write does not evolve the schema.
    """
    feature = widening_of(snapshot.protocol, snapshot.metadata, table=snapshot.url)
    widens = _also_stored_alike(feature) if request.casts is Casts.NONE else feature if request.merge_schema else None
    dependents = _Dependents.of(snapshot)
    merged = merge_schemas(snapshot.schema, request.schema, widens, dependents.all, records=feature is not None)
    _check_types(request, snapshot, merged, dependents)
    if not request.merge_schema:
        _check_unchanged(request, snapshot, merged)
    return merged


def _also_stored_alike(widens: Widens | None) -> Widens:
    return lambda known, given: is_stored_alike(known, given) or (widens is not None and widens(known, given))


@dataclass(frozen=True, slots=True)
class _Dependents:
    """The columns, in lower case, whose types must not change, by what depends on them; generated and identity columns
    themselves.
    """

    constraints: frozenset[str]
    generated: frozenset[str]
    own: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Dependents:
        values = column_values(snapshot.protocol, snapshot.schema, table=snapshot.url)
        constraints = [constraint.expression for constraint in constraints_of(snapshot.metadata, table=snapshot.url)]
        return cls(
            frozenset(chain.from_iterable(map(columns_named, constraints))),
            frozenset(chain.from_iterable(map(columns_named, values.generated.values()))),
            frozenset(name.lower() for name in [*values.generated, *values.identity]),
        )

    @property
    def all(self) -> frozenset[str]:
        return self.constraints | self.generated | self.own

    def error(self, column: str) -> type[SchemaMismatchError]:
        """The error for data of another type."""
        if column.lower() in self.constraints:
            return ConstraintTypeMismatchError
        return GeneratedColumnTypeMismatchError if column.lower() in self.generated else FieldsNotMergedError


def _check_types(request: WriteRequest, snapshot: Snapshot, merged: Struct, dependents: _Dependents) -> None:
    """Refuse data of other types than the table's columns."""
    unlike = [change for change in mismatches(merged, request.schema) if not request.casts.allows(change[2], change[1])]
    if unlike:
        error = dependents.error(unlike[0][0][0])
        raise error(table=snapshot.url, detail="; ".join(_difference_texts(unlike)), remedy=_remedy(request))


def _difference_texts(columns: list[Changed]) -> Iterator[str]:
    return (f"column {'.'.join(path)} is {known}, but {given} in the data" for path, known, given in columns)


def _remedy(request: WriteRequest) -> str:
    if request.mode == "overwrite":
        replacing = _spelled(request, "overwriteSchema", "overwrite_schema=True")
        return f"Cast the column in the data, or replace the table's schema: {replacing}."
    by_name = "; a write by the table's name, as saveAsTable or INSERT, casts by spark.sql.storeAssignmentPolicy"
    return f"Cast the column in the data{'' if request.engine is None else by_name}."


def _check_unchanged(request: WriteRequest, snapshot: Snapshot, merged: Struct) -> None:
    """Refuse data with columns that the table does not have, or with wider types."""
    new = [".".join(path) for path, _ in new_columns(snapshot.schema, request.schema)]
    wider = list(retyped_columns(snapshot.schema, merged))
    if not new and not wider:
        return
    details = [f"the table has no column {', '.join(new)} (it has {', '.join(snapshot.schema.names)})"] if new else []
    details.extend(_difference_texts(wider))
    evolve = (
        f"{'add it to the table' if new else 'widen the table'}: "
        f"{_spelled(request, 'mergeSchema', 'merge_schema=True')}"
    )
    if request.mode == "overwrite" and request.replace_where is None and not request.dynamic_partitions:
        evolve = f"replace the table's schema: {_spelled(request, 'overwriteSchema', 'overwrite_schema=True')}"
    change = "Drop the column from the data" if new else "Cast the column in the data"
    error = SchemaMismatchError(table=snapshot.url, detail="; ".join(details), remedy=f"{change}, or {evolve}.")
    raise error.suggesting(_misspelt(new, snapshot.schema, request.schema))


def _misspelt(new: Sequence[str], schema: Struct, given: Struct) -> str | None:
    """A hint, if columns that the table does not have are spelled like some that the data lacks."""
    absent_names = [".".join(path) for path, _ in new_columns(given, schema)]
    near = [f"{meant} instead of {name}" for name in new if (meant := nearest(name, absent_names)) is not None]
    return f"Did you mean {', '.join(near)}?" if near else None


def _spelled(request: WriteRequest, option: str, argument: str) -> str:
    """Advice in the spelling of whoever writes: an option in Spark, an argument in Python."""
    return argument if request.engine is None else f"option {option}=true"
