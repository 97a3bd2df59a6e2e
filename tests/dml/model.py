"""What DELETE, UPDATE and MERGE do to a list of rows.

The model knows no files. A row carries what row tracking says of it, so that what must stay with a row can be looked
at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeAlias

from tests.dml.expressions import SOURCE, TARGET, Expression, Scope, Values, holds

# --- tables


@dataclass(frozen=True)
class ColumnDef:
    name: str
    kind: str


Schema: TypeAlias = tuple[ColumnDef, ...]


@dataclass(frozen=True)
class Row:
    """A row of the target. Its id and the version that last changed it are None where nobody tracks rows."""

    values: Values
    row_id: int | None = None
    version: int | None = None


def frozen(value: Any) -> Any:
    """A value that can be counted: NaN is itself, -0.0 is not 0.0, a struct is what its fields are."""
    if isinstance(value, Mapping):
        return tuple((name, frozen(part)) for name, part in value.items())
    return f"double {value!r}" if isinstance(value, float) else value


def counted(rows: Iterable[Values], schema: Schema) -> Counter[tuple[Any, ...]]:
    """Rows as a multiset, by the columns of a schema."""
    return Counter(tuple(frozen(row[column.name]) for column in schema) for row in rows)


# --- statements

Group: TypeAlias = Literal["matched", "not matched", "not matched by source"]
Action: TypeAlias = Literal["update", "update all", "delete", "insert", "insert all"]
Assignments: TypeAlias = Mapping[str, Expression]


@dataclass(frozen=True)
class Delete:
    condition: Expression | None


@dataclass(frozen=True)
class Update:
    condition: Expression | None
    assignments: Assignments


@dataclass(frozen=True)
class Clause:
    """WHEN group AND condition THEN action. Assignments are by column, or by `column.field`."""

    group: Group
    action: Action
    condition: Expression | None = None
    assignments: Assignments = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """The rows that are merged, and how they reach the engine: in memory, from Parquet, or as the target itself at a
    version.
    """

    kind: Literal["memory", "parquet", "target"]
    schema: Schema
    rows: Sequence[Values]
    version: int | None = None


@dataclass(frozen=True)
class Merge:
    source: Source
    condition: Expression
    clauses: tuple[Clause, ...]
    evolves: bool = False


Statement: TypeAlias = Delete | Update | Merge

# --- what a statement does


class Verb(Enum):
    KEPT = "kept"
    UPDATED = "updated"
    DELETED = "deleted"
    INSERTED = "inserted"


@dataclass(frozen=True)
class Effect:
    """What becomes of one row. `group` is that of the clause; None outside of MERGE."""

    verb: Verb
    before: Row | None
    after: Values | None
    group: Group | None = None


class Refusal(Enum):
    """Why a statement must fail, with the parts of names that errors have for it."""

    AMBIGUOUS = ("MULTIPLE_SOURCE_ROW",)
    UNRESOLVED = ("UNRESOLVED", "COLUMN_NOT_FOUND")


@dataclass(frozen=True)
class Outcome:
    """What a statement does.

    Attributes:
        refusal: it must fail, and change nothing.
        may_refuse: it need not fail, as at most one source row changes each target row; but several match one, and an
            engine that looks at the condition of MERGE alone refuses that.
        schema: of the table afterwards.
    """

    effects: tuple[Effect, ...] = ()
    schema: Schema = ()
    refusal: Refusal | None = None
    may_refuse: bool = False

    def rows(self) -> list[Values]:
        return [effect.after for effect in self.effects if effect.after is not None]

    def count(self, verb: Verb, group: Group | None = None) -> int:
        return sum(effect.verb is verb and group in (None, effect.group) for effect in self.effects)

    def changes(self) -> list[tuple[str, Values]]:
        """The rows of the change feed, each with its `_change_type`."""
        found: list[tuple[str, Values]] = []
        for effect in self.effects:
            match effect.verb:
                case Verb.DELETED:
                    found.append(("delete", _values(effect)))
                case Verb.INSERTED:
                    found.append(("insert", effect.after or {}))
                case Verb.UPDATED:
                    found += [("update_preimage", _values(effect)), ("update_postimage", effect.after or {})]
        return found


def _values(effect: Effect) -> Values:
    assert effect.before is not None
    return effect.before.values


def run(statement: Statement, rows: Sequence[Row], schema: Schema) -> Outcome:
    match statement:
        case Delete(condition):
            return Outcome(
                tuple(_delete(row) if holds(condition, _target(row)) else _keep(row) for row in rows), schema
            )
        case Update(condition, assignments):
            changed = (
                _update(row, assignments, _target(row), schema) if holds(condition, _target(row)) else _keep(row)
                for row in rows
            )
            return Outcome(tuple(changed), schema)
        case Merge():
            return _Merging(statement, rows, schema).outcome()


# --- MERGE


class _Merging:
    """One MERGE. Every target row is looked at once, with the source rows for which the condition is true."""

    def __init__(self, merge: Merge, rows: Sequence[Row], schema: Schema) -> None:
        self.merge, self.rows = merge, rows
        self.before = schema
        self.schema = self._evolved(schema)
        self.may_refuse = False

    def outcome(self) -> Outcome:
        if not self._is_resolved():
            return Outcome(schema=self.before, refusal=Refusal.UNRESOLVED)
        sources = self.merge.source.rows
        effects: list[Effect] = []
        with_match: set[int] = set()
        for row in self.rows:
            matching = [
                i
                for i, source in enumerate(sources)
                if holds(self.merge.condition, {TARGET: row.values, SOURCE: source})
            ]
            with_match.update(matching)
            effect = self._of_target(row, [sources[i] for i in matching])
            if effect is None:
                return Outcome(schema=self.before, refusal=Refusal.AMBIGUOUS)
            effects.append(effect)
        for i, source in enumerate(sources):
            if i not in with_match:
                effects += self._of_source(source)
        return Outcome(tuple(effects), self.schema, may_refuse=self.may_refuse)

    def _of_target(self, row: Row, matching: Sequence[Values]) -> Effect | None:
        """What becomes of a target row; None where more than one source row would change it."""
        if not matching:
            clause = self._first("not matched by source", _target(row))
            return self._keep(row) if clause is None else self._change(row, clause, _target(row))
        scopes = [{TARGET: row.values, SOURCE: source} for source in matching]
        chosen = [(clause, scope) for scope in scopes if (clause := self._first("matched", scope)) is not None]
        if len(matching) > 1 and not self._deletes_whatever_matches() and not self._only_inserts():
            self.may_refuse = True
            if len(chosen) > 1:
                return None
        return self._change(row, *chosen[0]) if chosen else self._keep(row)

    def _of_source(self, source: Values) -> list[Effect]:
        clause = self._first("not matched", {SOURCE: source})
        if clause is None:
            return []
        if clause.action == "insert all":
            after = {column.name: source.get(column.name) for column in self.schema}
        else:
            empty = {column.name: None for column in self.schema}
            after = assigned(empty, clause.assignments, {SOURCE: source}, self.schema)
        return [Effect(Verb.INSERTED, None, after, clause.group)]

    def _change(self, row: Row, clause: Clause, scope: Scope) -> Effect:
        if clause.action == "delete":
            return Effect(Verb.DELETED, row, None, clause.group)
        if clause.action == "update all":
            after = {
                **self._widened(row.values),
                **{c.name: scope[SOURCE][c.name] for c in self.schema if c.name in scope[SOURCE]},
            }
        else:
            after = assigned(self._widened(row.values), clause.assignments, scope, self.schema)
        return Effect(Verb.UPDATED, row, after, clause.group)

    def _keep(self, row: Row) -> Effect:
        return Effect(Verb.KEPT, row, self._widened(row.values))

    def _widened(self, values: Values) -> dict[str, Any]:
        return {column.name: values.get(column.name) for column in self.schema}

    def _clauses(self, group: Group) -> list[Clause]:
        return [clause for clause in self.merge.clauses if clause.group == group]

    def _first(self, group: Group, scope: Scope) -> Clause | None:
        return next((clause for clause in self._clauses(group) if holds(clause.condition, scope)), None)

    def _deletes_whatever_matches(self) -> bool:
        """The one case in which it does not matter how many source rows match."""
        match self._clauses("matched"):
            case [Clause(action="delete", condition=None)]:
                return True
            case _:
                return False

    def _only_inserts(self) -> bool:
        return all(clause.group == "not matched" for clause in self.merge.clauses)

    def _takes_all(self) -> bool:
        return any(clause.action in ("update all", "insert all") for clause in self.merge.clauses)

    def _evolved(self, schema: Schema) -> Schema:
        """Where the schema may grow, all columns of the source are the table's, the new ones last."""
        if not self.merge.evolves or not self._takes_all():
            return schema
        known = {column.name for column in schema}
        return (*schema, *(column for column in self.merge.source.schema if column.name not in known))

    def _is_resolved(self) -> bool:
        """Without evolution, a clause for all columns needs every column in the source."""
        known = {column.name for column in self.merge.source.schema}
        return self.merge.evolves or not self._takes_all() or all(column.name in known for column in self.before)


# --- rows


def _target(row: Row) -> Scope:
    return {TARGET: row.values}


def _keep(row: Row) -> Effect:
    return Effect(Verb.KEPT, row, row.values)


def _delete(row: Row) -> Effect:
    return Effect(Verb.DELETED, row, None)


def _update(row: Row, assignments: Assignments, scope: Scope, schema: Schema) -> Effect:
    return Effect(Verb.UPDATED, row, assigned(row.values, assignments, scope, schema))


def assigned(values: Values, assignments: Assignments, scope: Scope, schema: Schema) -> dict[str, Any]:
    """Values with some of them, or fields of them, set to what expressions are of the old ones.

    A field that is set makes a struct of what was NULL.
    """
    kinds = {column.name: column.kind for column in schema}
    after = dict(values)
    for name, expression in assignments.items():
        column, _, part = name.partition(".")
        value = expression.value(scope)
        if part:
            after[column] = {**(after[column] or {"a": None, "b": None}), part: value}
        else:
            after[column] = float(value) if kinds[column] == "double" and value is not None else value
    return after
