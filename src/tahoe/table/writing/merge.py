"""MERGE without Spark: updates, deletes and inserts rows of a table according to the rows of an Arrow table.

The source is in memory; the target is read file by file, and only the files that may have a row of the source's keys.
Of these, the columns of the condition are read first, and all columns only where a row matches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from tahoe._cached import cached_property
from tahoe.errors import (
    DuplicateDataColumnsError,
    InvalidMergeError,
    MultipleSourceRowsError,
    UnresolvedMergeColumnError,
)
from tahoe.protocol.changes.column_values import check_assigned
from tahoe.protocol.changes.evolution import check_fields
from tahoe.protocol.log.actions import Add
from tahoe.protocol.types.assigned_paths import Path
from tahoe.protocol.types.expressions import Expression, references
from tahoe.protocol.types.merge_clauses import Outline, check_clauses, outlined
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.predicate import TRUE
from tahoe.protocol.types.schema import BOOLEAN, Field, Struct, check_unique_names
from tahoe.table.arrow import row_stream
from tahoe.table.arrow.chunks import one_array, reordered_table, taken_table, with_columns
from tahoe.table.arrow.row_stream import parts
from tahoe.table.arrow.types import arrow_schema, delta_schema
from tahoe.table.log.deletion_vectors import row_indexes
from tahoe.table.reading.physical_rows import PhysicalRows
from tahoe.table.reading.read_set import RowsRead
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.writing.arrow_assignment import assign_arrow
from tahoe.table.writing.arrow_values import NewRows, given_by_update
from tahoe.table.writing.assignments import (
    Assignment,
    Scope,
    completed,
    parse_assignments,
    taken_over,
    with_assigned,
)
from tahoe.table.writing.merge_keys import Matcher, Rows, chosen_clauses, predicate_of_keys, split
from tahoe.table.writing.row_changes import RowChanges
from tahoe.table.writing.write_plan import WritePlan

Kind: TypeAlias = Literal["update", "delete", "insert"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One WHEN ... THEN. `set`: values by column; None for all columns of the source."""

    kind: Kind
    condition: str | None = None
    set: Mapping[str, Any] | None = None

    @property
    def outline(self) -> Outline:
        return Outline(kind=self.kind, is_conditional=self.condition is not None, takes_all=self.set is None)


@dataclass(frozen=True, kw_only=True)
class MergeRequest:
    """A MERGE as the user asks for it.

    Attributes:
        on: an SQL condition, or the names of the columns that must be equal.
        target_alias, source_alias: the names of both sides in conditions and values.
    """

    table: str
    source: pa.Table
    on: str | Sequence[str]
    target_alias: str
    source_alias: str
    merge_schema: bool = False
    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()

    @cached_property
    def schema(self) -> Struct:
        return delta_schema(self.source.schema, table=self.table)

    @property
    def clauses(self) -> tuple[Clause, ...]:
        return (*self.matched, *self.not_matched, *self.not_matched_by_source)

    @property
    def outline(self) -> list[str]:
        groups = (self.matched, self.not_matched, self.not_matched_by_source)
        return list(outlined([[clause.outline for clause in group] for group in groups]))

    @property
    def only_inserts(self) -> bool:
        return all(clause.kind == "insert" for clause in self.clauses)

    @property
    def takes_all(self) -> bool:
        return any(clause.kind != "delete" and clause.set is None for clause in (*self.matched, *self.not_matched))

    @property
    def condition(self) -> str:
        if isinstance(self.on, str):
            return self.on
        sides = [quoted(self.target_alias), quoted(self.source_alias)]
        return " AND ".join(f"{sides[0]}.{quoted(name)} = {sides[1]}.{quoted(name)}" for name in self.on)

    @property
    def parameters(self) -> dict[str, Any]:
        """For the history, under the reference's names."""
        groups = {
            "matchedPredicates": self.matched,
            "notMatchedPredicates": self.not_matched,
            "notMatchedBySourcePredicates": self.not_matched_by_source,
        }
        told = {name: json.dumps([_history_entry(clause) for clause in clauses]) for name, clauses in groups.items()}
        return {"predicate": json.dumps([self.condition]), **told}


def _history_entry(clause: Clause) -> dict[str, str]:
    return {"actionType": clause.kind, **({} if clause.condition is None else {"predicate": clause.condition})}


class _Ready:
    """A clause whose texts are parsed."""

    def __init__(self, clause: Clause, request: MergeRequest, scope: Scope, own: Struct) -> None:
        self.kind, self.text = clause.kind, clause.condition or "true"
        self.condition: Expression | None = None if clause.condition is None else scope.parse(clause.condition, BOOLEAN)
        self.takes_all = clause.kind != "delete" and clause.set is None
        self.set: dict[Path, Assignment] = parse_assignments(
            clause.set or {},
            own,
            scope,
            request.target_alias,
            may_lack=request.merge_schema,
            missing=UnresolvedMergeColumnError,
        )

    @property
    def columns(self) -> set[str]:
        return {path[0] for path in self.set}


class Merging:
    """One MERGE at work on one version.

    Args:
        rows: reads the table's files.
        left: the rows of a file that are not deleted.

    Raises:
        InvalidMergeError, InvalidPredicateError, ColumnNotFoundError: the request does not fit the table; nothing was
            read.
    """

    def __init__(
        self,
        request: MergeRequest,
        snapshot: Snapshot,
        plan: WritePlan,
        rows: PhysicalRows,
        left: Callable[[Add], BitMap64],
    ) -> None:
        """Resolves all names and conditions before a row of the target is read, and computes the keys of the source,
        which is in memory.
        """
        self.request, self.snapshot, self.plan, self._rows, self._left = request, snapshot, plan, rows, left
        groups = (request.matched, request.not_matched, request.not_matched_by_source)
        check_clauses(*([clause.condition for clause in group] for group in groups), table=snapshot.url)
        own, other, zone = snapshot.schema, request.schema, snapshot.log.zone
        check_unique_names(other, table=f"the source of the MERGE into {snapshot.url}", error=DuplicateDataColumnsError)
        sides = request.target_alias, request.source_alias
        if sides[0].lower() == sides[1].lower():
            raise InvalidMergeError(table=snapshot.url, detail=f"target and source are both named {sides[0]}")
        target, source = Field(name=sides[0], type=own), Field(name=sides[1], type=other)

        def scope(*fields: Field) -> Scope:
            return Scope(schema=Struct(fields), sides=tuple(f.name for f in fields), zone=zone, table=snapshot.url)

        self._pair_scope, self._target_scope, self._source_scope = scope(target, source), scope(target), scope(source)
        self._keys, self._other_condition = split(self._pair_scope.parse(request.condition, BOOLEAN), *sides)
        self._matched = [_Ready(clause, request, self._pair_scope, own) for clause in request.matched]
        self._not_matched = [_Ready(clause, request, self._source_scope, own) for clause in request.not_matched]
        self._not_matched_by_source = [
            _Ready(clause, request, self._target_scope, own) for clause in request.not_matched_by_source
        ]
        self._check_columns()
        in_types = assign_arrow(request.source, other, zone=zone, table=snapshot.url)  # those that expressions have
        self._source = pa.table([_struct(in_types)], names=[sides[1]])
        self._key_values = [
            self._source_scope.computed(key.source, self._source, request.condition) for key in self._keys
        ]
        self._is_matched = np.zeros(request.source.num_rows, bool)

    def _check_columns(self) -> None:
        """Refuse clauses for all columns if the source lacks one, or fields of one, and assignments to identity
        columns.
        """
        own, other = self.snapshot.schema, self.request.schema
        missing = [name for name in own.names if other.find(name) is None and not self.plan.column_values.has(name)]
        if missing and self.request.takes_all and not self.request.merge_schema:
            where = f"the source of the MERGE into {self.plan.url}"
            raise UnresolvedMergeColumnError(table=where, column=missing[0], columns=", ".join(other.names))
        for field in own if self.request.takes_all else ():
            given = other.find(field.name)
            if given is not None:
                check_fields(
                    given.type, field.type, (field.name,), may_lack=self.request.merge_schema, table=self.plan.url
                )
        for clause in (*self._matched, *self._not_matched_by_source):
            columns = clause.columns | (
                {name for name in own.names if other.find(name) is not None} if clause.takes_all else set()
            )
            check_assigned(self.plan.column_values, {name.lower() for name in columns}, table=self.plan.url)

    @property
    def updates(self) -> bool:
        return any(clause.kind == "update" for clause in self.request.clauses)

    @cached_property
    def minted(self) -> list[str]:
        """The identity columns for which new rows may get values."""
        return list(self.plan.column_values.identity) if self._not_matched else []

    @cached_property
    def read(self) -> RowsRead:
        """The rows of the target that the MERGE reads."""
        predicate = TRUE if self._not_matched_by_source else predicate_of_keys(self._keys, self._key_values)
        return RowsRead(self.snapshot, predicate, self.request.condition)

    # --- rows

    def run(self, changes: RowChanges) -> None:
        """Find and write all changed rows.

        Raises:
            MultipleSourceRowsError: several rows of the source would change one row of the target.
        """
        matcher = Matcher(self._key_values, [key.is_null_safe for key in self._keys], self.request.source.num_rows)
        for add in self.snapshot.scan(self.read.predicate).adds():
            self._file(add, matcher, changes)
        if self._not_matched:
            self._insert(changes)

    def _file(self, add: Add, matcher: Matcher, changes: RowChanges) -> None:
        places = row_indexes(self._left(add))
        for start, rows in self._rows.pieces(self.snapshot, add, self._condition_columns):
            low, high = np.searchsorted(places, (start, start + rows.num_rows))
            if high > low:
                self._piece(add, places[low:high], taken_table(rows, places[low:high] - start), matcher, changes)

    @cached_property
    def _condition_columns(self) -> list[Field]:
        """The columns of the target that the condition names; any, if it names none."""
        expressions = [
            *(key.target for key in self._keys),
            *([] if self._other_condition is None else [self._other_condition]),
        ]
        found = [reference.path for expression in expressions for reference in references(expression)]
        named = {path[1] for path in found if path[0] == self.request.target_alias}
        return [field for field in self.snapshot.schema if field.name in named] or list(self.snapshot.schema)[:1]

    def _piece(self, add: Add, places: Rows, rows: pa.Table, matcher: Matcher, changes: RowChanges) -> None:
        """Change some rows of a file, of which the columns of the condition are known."""
        target, source = self._pairs(rows, matcher)
        self._is_matched[source] = True
        if self._matched:
            numbers = np.flatnonzero(np.bincount(target))
            for first in range(0, len(numbers), self._rows_at_once):
                for positions, before in self._read(add, places[numbers[first : first + self._rows_at_once]]):
                    pairs = np.flatnonzero(np.isin(places[target], positions, kind="sort"))
                    self._change_matched(add, positions, before, places[target[pairs]], source[pairs], changes)
        if self._not_matched_by_source:
            for positions, before in self._read(add, np.delete(places, target)):
                self._change_alone(add, positions, before, changes)

    @cached_property
    def _rows_at_once(self) -> int:
        """With so many rows of the target the matching ones of the source are in memory as well."""
        return max(1, int(row_stream.GROUP_BYTES * self._source.num_rows // max(1, self._source.nbytes)))

    def _pairs(self, rows: pa.Table, matcher: Matcher) -> tuple[Rows, Rows]:
        """The matching rows: their numbers among these rows, and their numbers in the source."""
        target_rows = self._as_target(rows)
        keys = [self._target_scope.computed(key.target, target_rows, self.request.condition) for key in self._keys]
        pairs = [self._where_rest_holds(*pair, target_rows) for pair in matcher.pairs(keys, rows.num_rows)]
        nothing = np.zeros(0, np.int64)  # `concatenate` needs at least one array
        return np.concatenate([nothing, *(pair[0] for pair in pairs)]), np.concatenate(
            [nothing, *(pair[1] for pair in pairs)]
        )

    def _where_rest_holds(self, target: Rows, source: Rows, target_rows: pa.Table) -> tuple[Rows, Rows]:
        """The pairs for which the part of the condition that is not keys is true too."""
        if self._other_condition is None or not len(target):
            return target, source
        holds = self._pair_scope.computed(
            self._other_condition, self._join_rows(target_rows, target, source), self.request.condition
        )
        mask = np.asarray(holds.fill_null(False))
        return target[mask], source[mask]

    def _as_target(self, rows: pa.Table) -> pa.Table:
        """Rows of the target as expressions see them: one struct column, named by its alias."""
        return pa.table([_struct(rows)], names=[self.request.target_alias])

    def _join_rows(self, target_rows: pa.Table, target: Rows, source: Rows) -> pa.Table:
        source_rows = reordered_table(self._source, source)
        return reordered_table(target_rows, target).append_column(self.request.source_alias, source_rows.column(0))

    def _read(self, add: Add, positions: Rows) -> Iterator[tuple[Rows, pa.Table]]:
        return self._rows.at(self.snapshot, add, positions, with_row_ids=self.snapshot.tracks_rows)

    def _change_matched(
        self, add: Add, positions: Rows, before: pa.Table, target: Rows, source: Rows, changes: RowChanges
    ) -> None:
        """Change rows of a file, of which each matches at least one row of the source.

        Args:
            target, source: the pairs, as row indexes of the file and numbers in the source.
        """
        place = np.searchsorted(positions, target)
        joined = self._join_rows(self._as_target(before.select(self.snapshot.schema.names)), place, source)
        chosen = self._choose(self._matched, self._pair_scope, joined)
        self._check_repeated(place[chosen >= 0], before)
        for number, clause in enumerate(self._matched):
            pairs = np.flatnonzero(chosen == number)
            rows, first = np.unique(place[pairs], return_index=True)  # a DELETE may match a row more than once
            old, places = before.take(pa.array(rows)), positions[rows]
            if clause.kind == "delete":
                changes.delete(add, places, old)
            else:
                self._update(add, places, old, clause, joined.take(pa.array(pairs[first])), self._pair_scope, changes)

    def _change_alone(self, add: Add, positions: Rows, before: pa.Table, changes: RowChanges) -> None:
        """Change rows of a file that match no row of the source."""
        target_rows = self._as_target(before.select(self.snapshot.schema.names))
        chosen = self._choose(self._not_matched_by_source, self._target_scope, target_rows)
        for number, clause in enumerate(self._not_matched_by_source):
            rows = pa.array(np.flatnonzero(chosen == number))
            if clause.kind == "delete":
                changes.delete(add, positions[chosen == number], before.take(rows))
            else:
                self._update(
                    add,
                    positions[chosen == number],
                    before.take(rows),
                    clause,
                    target_rows.take(rows),
                    self._target_scope,
                    changes,
                )

    def _choose(self, clauses: Sequence[_Ready], scope: Scope, rows: pa.Table) -> Rows:
        masks = [
            pa.repeat(pa.scalar(True), rows.num_rows)
            if c.condition is None
            else scope.computed(c.condition, rows, c.text)
            for c in clauses
        ]
        return chosen_clauses(masks, rows.num_rows)

    def _check_repeated(self, place: Rows, before: pa.Table) -> None:
        if len(self._matched) == 1 and self._matched[0].kind == "delete" and self._matched[0].condition is None:
            return
        rows, counts = np.unique(place, return_counts=True)
        if (counts > 1).any():
            names = [r.path[1] for key in self._keys for r in references(key.target)] or self.snapshot.schema.names[:1]
            row = before.take(pa.array(rows[counts > 1][:1])).to_pylist()[0]
            shown = ", ".join(f"{name} = {row[name]}" for name in dict.fromkeys(names))
            raise MultipleSourceRowsError(table=self.plan.url, keys=shown, condition=self.request.condition)

    def _update(
        self,
        add: Add,
        positions: Rows,
        before: pa.Table,
        clause: _Ready,
        rows: pa.Table,
        scope: Scope,
        changes: RowChanges,
    ) -> None:
        """Update some rows by a clause. `UPDATE SET *` assigns the columns that the source has; struct fields that the
        source lacks keep their values.
        """
        own = before.select(self.snapshot.schema.names)
        columns = clause.columns
        if clause.takes_all:
            source_values = taken_over(_flat(rows, self.request.source_alias), self.snapshot.schema)
            columns = set(source_values.column_names)
            names = source_values.column_names
            own = with_columns(
                own, {n: completed(one_array(source_values.column(n)), one_array(own.column(n))) for n in names}
            )
        after = with_assigned(own, clause.set, rows, scope)
        supplied = given_by_update(self.plan.column_values, self.plan.schema, columns)
        changes.update(add, positions, before, after.select(supplied), NewRows(self.plan, supplied, updates=True))

    def _insert(self, changes: RowChanges) -> None:
        for rows in parts(self._source.filter(pa.array(~self._is_matched))):
            chosen = self._choose(self._not_matched, self._source_scope, rows)
            for number, clause in enumerate(self._not_matched):
                part = taken_table(rows, np.flatnonzero(chosen == number))
                if clause.takes_all:
                    new = taken_over(_flat(part, self.request.source_alias), self.snapshot.schema)
                else:
                    new = self._assigned_new(clause, part)
                if part.num_rows:
                    changes.insert(new, self._rules(new))

    def _assigned_new(self, clause: _Ready, rows: pa.Table) -> pa.Table:
        """New rows with the assigned columns; fields of structs that are not assigned are null."""
        names = [name for name in self.snapshot.schema.names if name in clause.columns]
        fields = [pa.field(f.name, f.type) for f in arrow_schema(self.plan.schema) if f.name in names]
        empty = pa.table([pa.nulls(rows.num_rows, f.type) for f in fields], schema=pa.schema(fields))
        return with_assigned(empty, clause.set, rows, self._source_scope)

    def _rules(self, rows: pa.Table) -> NewRows:
        """The rules for new rows; identity values go on from clause to clause."""
        known = self._by_columns.get(tuple(rows.column_names))
        if known is None:
            known = self._by_columns[tuple(rows.column_names)] = NewRows(self.plan, rows.column_names)
        return known

    @cached_property
    def _by_columns(self) -> dict[tuple[str, ...], NewRows]:
        return {}


def _struct(rows: pa.Table) -> pa.ChunkedArray | pa.Array:
    """All columns as one struct column."""
    return rows.to_struct_array() if rows.num_columns else pa.array([{}] * rows.num_rows, pa.struct([]))


def _flat(rows: pa.Table, name: str) -> pa.Table:
    """The fields of a struct column as a table."""
    values = rows.column(name)
    return pa.table(values.flatten(), names=[field.name for field in values.type])
