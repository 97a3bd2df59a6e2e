"""Random small tables and random statements on them, all from one seed.

Values come from small pools, so that rows meet: NULLs, NaN, -0.0, the empty string, numbers that no double can hold,
dates far apart. Numbers are small where they are computed with: in ANSI mode an overflow is an error, and errors are
not what is looked for here.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.dml.expressions import SOURCE, TARGET, Column, Expression, Literal, Values, apply
from tests.dml.model import Clause, ColumnDef, Delete, Group, Merge, Row, Schema, Source, Statement, Update

KEYS = [*range(10), None, 2**53 + 1, -7]
POOLS: Mapping[str, Sequence[Any]] = {
    "int": [0, 1, 2, 3, 5, 8, -1, -20, 100, None],
    "bigint": KEYS,
    "double": [0.0, -0.0, 1.0, 1.5, -2.25, 1e300, float("nan"), float("inf"), float("-inf"), None],
    "string": ["", "a", "b", "ab", "A", "ä", "it's", "back\\slash", "\U0001f600", "a" * 40, None],
    "date": [dt.date(2024, 2, 29), dt.date(2024, 3, 1), dt.date(1969, 12, 31), dt.date(2525, 1, 1), None],
}
# As a partition value, the empty string is NULL. Protocol: "Partition Value Serialization".
PARTITIONS: Mapping[str, Sequence[Any]] = {
    "int": [1, 2, -3, None],
    "string": ["x", "a b", "ü/%=", None],
    "date": [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None],
}
# No zero is asked for: Spark looks it up in Parquet's statistics and dictionaries with its sign, and misses 0.0 by
# -0.0, in any table.
ASKED: Mapping[str, Sequence[Any]] = {**POOLS, "double": [number for number in POOLS["double"] if number != 0]}
PARTITION = "p"
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
ROWS_MAX = 9
NEW_COLUMNS_MAX = 2


@dataclass(frozen=True)
class Shape:
    """What a table is made of: its columns, and the rows of each of its files."""

    schema: Schema
    partition_by: tuple[str, ...]
    files: tuple[tuple[Values, ...], ...]


class Generator:
    """Makes tables and statements. The same seed gives the same ones, whatever an engine answers."""

    def __init__(self, seed: str) -> None:
        self.dice = random.Random(seed)

    # --- tables

    def shape(self, *, partitioned: bool) -> Shape:
        kinds = {"k": "bigint", "i": "int", "s": "string", "d": "double", "t": "date", "n": "struct"}
        kinds[PARTITION] = self.dice.choice(list(PARTITIONS))
        names = list(kinds)
        self.dice.shuffle(names)
        schema = tuple(ColumnDef(name, kinds[name]) for name in names)
        files = tuple(tuple(self._rows(schema, self.dice.randint(1, ROWS_MAX))) for _ in range(self.dice.randint(1, 4)))
        return Shape(schema, (PARTITION,) if partitioned else (), files)

    def _rows(self, schema: Schema, count: int) -> list[Values]:
        return [{column.name: self._value(column) for column in schema} for _ in range(count)]

    def _value(self, column: ColumnDef) -> Any:
        return self.dice.choice(_pool(column)) if column.kind != "struct" else self._struct()

    def _struct(self) -> dict[str, Any] | None:
        if self._once_in(5):
            return None
        return {"a": self.dice.choice(POOLS["int"]), "b": self.dice.choice(POOLS["string"])}

    def _once_in(self, times: int) -> bool:
        return self.dice.randrange(times) == 0

    # --- statements

    def statement(self, schema: Schema, versions: Mapping[int, Sequence[Row]]) -> Statement:
        """A statement on a table of which these are the rows at its versions, with the schema of the newest."""
        chance = self.dice.random()
        if chance < 0.22:
            return self._delete(schema)
        return self._update(schema) if chance < 0.45 else self._merge(schema, versions)

    def _delete(self, schema: Schema) -> Delete:
        return Delete(None if self._once_in(25) else self._here(schema).condition())

    def _update(self, schema: Schema) -> Update:
        here = self._here(schema)
        return Update(None if self._once_in(6) else here.condition(), here.assignments(schema))

    def _here(self, schema: Schema) -> _Maker:
        return _Maker(self.dice, [(TARGET, "", schema)])

    def _merge(self, schema: Schema, versions: Mapping[int, Sequence[Row]]) -> Merge:
        source = self._itself(schema, versions) if self._once_in(8) else self._source(schema)
        condition, keys = self._matching(schema, source.schema)
        if source.kind != "target" and keys and not self._once_in(5):
            source = Source(source.kind, source.schema, _distinct(source.rows, keys))
        evolves = self._once_in(6)
        given, known = ({column.name for column in columns} for columns in (source.schema, schema))
        chance = 0.1 if known - given and not evolves else 1.0 if given - known and evolves else 0.4
        clauses = self._clauses(schema, source.schema, all_columns=self.dice.random() < chance)
        return Merge(source, condition, clauses, evolves)

    def _itself(self, schema: Schema, versions: Mapping[int, Sequence[Row]]) -> Source:
        """The target, now or as it was; versions from before a column was added are left out."""
        alike = [
            v for v, rows in versions.items() if all(row.values.keys() == {c.name for c in schema} for row in rows)
        ]
        version = max(versions) if self._once_in(2) else self.dice.choice(alike or [max(versions)])
        return Source("target", schema, [row.values for row in versions[version]], version)

    def _source(self, target: Schema) -> Source:
        columns = [ColumnDef(column.name, column.kind) for column in target]
        if self._once_in(5):  # one column is missing, and so no clause may ask for all of them
            columns.remove(self.dice.choice([column for column in columns if column.name not in ("k", PARTITION)]))
        new = f"x{sum(column.name.startswith('x') for column in target)}"
        if self._once_in(5) and new != f"x{NEW_COLUMNS_MAX}":
            columns.append(ColumnDef(new, "int"))
        self.dice.shuffle(columns)
        rows = self._rows(tuple(columns), self.dice.choice([0, 1, 2, 3, 5, 8, 12]))
        return Source(self.dice.choice(["memory", "memory", "parquet"]), tuple(columns), rows)

    def _matching(self, target: Schema, source: Schema) -> tuple[Expression, tuple[str, ...]]:
        """The condition of MERGE, with the columns of the source by which it finds rows."""
        there = _Maker(self.dice, [(TARGET, TARGET, target), (SOURCE, SOURCE, source)])
        known = {column.name for column in source}

        def pair(operator: str, name: str, other: str | None = None) -> Expression:
            return apply(operator, there.column(TARGET, name), there.column(SOURCE, other or name))

        chance = self.dice.random()
        by_key, by_place = pair("=", "k"), pair("=", PARTITION)
        if chance < 0.35:
            return by_key, ("k",)
        if chance < 0.42:
            return pair("<=>", "k"), ("k",)
        if chance < 0.50:
            return apply("and", by_key, by_place), ("k", PARTITION)
        if chance < 0.58:
            return apply("and", by_key, there.condition(side=TARGET)), ("k",)
        if chance < 0.64:
            return apply("and", there.condition(side=SOURCE), by_key), ("k",)
        for limit, name in ((0.70, "s"), (0.76, "d"), (0.80, "t"), (0.84, "i")):
            if chance < limit and name in known:
                return pair("=", name), (name,)
        if chance < 0.88:
            moved = apply("+", there.column(SOURCE, "k"), Literal("int", 1))
            return apply("=", there.column(TARGET, "k"), moved), ("k",)
        if chance < 0.91 and "n" in known:
            return apply("=", there.column(TARGET, "n", "a"), there.column(SOURCE, "n", "a")), ()
        if chance < 0.94:
            return apply("or", by_key, apply("and", by_place, there.condition(side=SOURCE))), ("k",)
        if chance < 0.97:
            return pair("<", "k"), ("k",)
        return (Literal("boolean", False) if self._once_in(2) else there.condition()), ("k",)

    def _clauses(self, target: Schema, source: Schema, *, all_columns: bool) -> tuple[Clause, ...]:
        both = _Maker(self.dice, [(TARGET, TARGET, target), (SOURCE, SOURCE, source)])
        theirs = _Maker(self.dice, [(SOURCE, SOURCE, source)])
        ours = _Maker(self.dice, [(TARGET, TARGET, target)])

        def matched(condition: Expression | None) -> Clause:
            if self._once_in(3):
                return Clause("matched", "delete", condition)
            if all_columns:
                return Clause("matched", "update all", condition)
            return Clause("matched", "update", condition, both.assignments(target))

        def not_matched(condition: Expression | None) -> Clause:
            if all_columns:
                return Clause("not matched", "insert all", condition)
            return Clause("not matched", "insert", condition, theirs.assignments(target, whole=True))

        def not_matched_by_source(condition: Expression | None) -> Clause:
            if self._once_in(2):
                return Clause("not matched by source", "delete", condition)
            return Clause("not matched by source", "update", condition, ours.assignments(target))

        counts: dict[Group, int] = {
            "matched": self.dice.choice([0, 1, 1, 1, 2, 3]),
            "not matched": self.dice.choice([0, 1, 1, 2]),
            "not matched by source": self.dice.choice([0, 0, 0, 1, 2]),
        }
        if not any(counts.values()):
            counts[self.dice.choice(list(counts))] = 1
        makers: list[tuple[Group, _Maker, Callable[[Expression | None], Clause]]] = [
            ("matched", both, matched),
            ("not matched", theirs, not_matched),
            ("not matched by source", ours, not_matched_by_source),
        ]
        found = [
            make(maker.condition() if i + 1 < counts[g] or self._once_in(3) else None)
            for g, maker, make in makers
            for i in range(counts[g])
        ]
        return tuple(found)


def _pool(column: ColumnDef) -> Sequence[Any]:
    return (PARTITIONS if column.name == PARTITION else POOLS)[column.kind]


def _distinct(rows: Sequence[Values], keys: Sequence[str]) -> list[Values]:
    """The first row of each key. NaN and 0.0 are keys as in a comparison."""
    found: dict[Any, Values] = {}
    for row in rows:
        found.setdefault(tuple("nan" if row[key] != row[key] else row[key] for key in keys), row)
    return list(found.values())


class _Maker:
    """Makes expressions over the columns that are in sight.

    Args:
        sides: for each row in sight its name in the model, its alias in the text, and its columns.
    """

    def __init__(self, dice: random.Random, sides: Sequence[tuple[str, str, Schema]]) -> None:
        self.dice = dice
        self.sides = {side: (alias, schema) for side, alias, schema in sides}

    # --- columns

    def column(self, side: str, name: str, part: str | None = None) -> Column:
        alias, _ = self.sides[side]
        path = (name,) if part is None else (name, part)
        written = ".".join([alias, *path] if alias else path)
        return Column(side, path, written.upper() if self.dice.randrange(8) == 0 else written)

    def _columns(self, kind: str, side: str | None = None) -> list[Column]:
        found = []
        for name in [side] if side else self.sides:
            for column in self.sides[name][1]:
                if column.kind == kind:
                    found.append(self.column(name, column.name))
                if column.kind == "struct" and kind in ("int", "string"):
                    found.append(self.column(name, column.name, "a" if kind == "int" else "b"))
        return found

    # --- conditions

    def condition(self, depth: int = 2, side: str | None = None) -> Expression:
        chance = self.dice.random()
        if depth and chance < 0.30:
            return apply(
                self.dice.choice(["and", "or"]), self.condition(depth - 1, side), self.condition(depth - 1, side)
            )
        if depth and chance < 0.38:
            return apply("not", self.condition(depth - 1, side))
        if chance < 0.46:
            return self._null_test(side)
        if chance < 0.49:
            return Literal("boolean", self.dice.choice([True, False, None]))
        return self._comparison(side)

    def _null_test(self, side: str | None) -> Expression:
        kinds = [kind for kind in ("int", "bigint", "string", "double", "date", "struct") if self._columns(kind, side)]
        column = self.dice.choice(self._columns(self.dice.choice(kinds), side))
        return apply(self.dice.choice(["is null", "is not null"]), column)

    def _comparison(self, side: str | None) -> Expression:
        kind = self.dice.choice([kind for kind in POOLS if self._columns(kind, side)])
        left = self._simple(kind, side)
        chance = self.dice.random()
        if kind == "double" and chance < 0.15:
            return apply("isnan", left)
        if kind == "string" and chance < 0.12:
            return apply("starts with", left, Literal("string", self.dice.choice(["a", "ä", ""])))
        if chance < 0.22:
            return apply("in 2", left, self._literal(kind), self._literal(kind))
        if chance < 0.30:
            return apply("not in 3", left, self._literal(kind), self._literal(kind), self._literal(kind))
        if chance < 0.38:
            return apply("between", left, self._literal(kind), self._literal(kind))
        right = self._simple(kind, side) if self.dice.random() < 0.3 else self._literal(kind)
        return apply(self.dice.choice(COMPARISONS), left, right)

    def _simple(self, kind: str, side: str | None) -> Expression:
        """A column, at times with something done to it."""
        column = self.dice.choice(self._columns(kind, side))
        chance = self.dice.random()
        if chance < 0.75:
            return column
        match kind:
            case "int":
                texts = self._columns("string", side)
                return (
                    apply("length", self.dice.choice(texts))
                    if chance < 0.85 and texts
                    else apply("%", column, Literal("int", 3))
                )
            case "bigint":
                return apply("%", column, Literal("bigint", 4))
            case "string":
                return apply("substring", column)
            case "double":
                return apply("+", column, Literal("double", 1.0))
            case _:
                return apply("date_add", column, Literal("int", 1))

    def _literal(self, kind: str) -> Literal:
        return Literal(kind, self.dice.choice(ASKED[kind]))

    # --- values

    def assignments(self, target: Schema, *, whole: bool = False) -> dict[str, Expression]:
        """New values for some columns, or fields of the struct; with `whole` for most columns, as a row needs them that
        is new.
        """
        chosen = [column for column in target if self.dice.random() < (0.85 if whole else 0.3)] or [
            self.dice.choice(target)
        ]
        found: dict[str, Expression] = {}
        for column in chosen:
            if column.kind == "struct" and not whole and self.dice.random() < 0.6:
                parts = {"a": "int", "b": "string"}
                for part in [p for p in parts if self.dice.random() < 0.6] or ["a"]:
                    found[f"{column.name}.{part}"] = self.value(ColumnDef(part, parts[part]))
            else:
                found[column.name] = self.value(column)
        return found

    def value(self, column: ColumnDef) -> Expression:
        """An expression for a column, of its type or of one that fits into it."""
        own = [c for c in self._columns(column.kind) if column.name != PARTITION or c.path == (PARTITION,)]
        chance = self.dice.random()
        if column.name == PARTITION:
            return (
                self.dice.choice(own)
                if own and chance < 0.6
                else Literal(column.kind, self.dice.choice(PARTITIONS[column.kind]))
            )
        if column.kind == "struct":
            return self._struct(own, chance)
        if chance < 0.2 or not own:
            return self._any_literal(column.kind)
        if chance < 0.5:
            return self.dice.choice(own)
        if chance < 0.6:
            return apply("coalesce", self.dice.choice(own), self._any_literal(column.kind))
        if chance < 0.7:
            return apply("case", self.condition(1), self.dice.choice(own), self._any_literal(column.kind))
        return self._computed(column.kind, self.dice.choice(own), self.dice.choice(own))

    def _any_literal(self, kind: str) -> Literal:
        return Literal(kind, self.dice.choice(POOLS[kind]))

    def _struct(self, own: Sequence[Column], chance: float) -> Expression:
        if own and chance < 0.4:
            return self.dice.choice(own)
        if chance < 0.5:
            return Literal("struct", None)
        return apply("struct", self.value(ColumnDef("a", "int")), self.value(ColumnDef("b", "string")))

    def _computed(self, kind: str, one: Expression, other: Expression) -> Expression:
        match kind:
            case "int":
                keys = self._columns("bigint")
                if keys and self.dice.random() < 0.4:
                    return apply("as int", apply("%", self.dice.choice(keys), Literal("bigint", 100)))
                return apply("+", apply("%", one, Literal("int", 50)), Literal("int", self.dice.randint(-3, 3)))
            case "bigint":
                numbers = self._columns("int")
                return (
                    self.dice.choice(numbers)
                    if numbers and self.dice.random() < 0.4
                    else apply("+", one, Literal("int", 1))
                )
            case "string":
                return apply("concat", apply("substring", one), other)
            case "double":
                numbers = self._columns("int")
                if numbers and self.dice.random() < 0.3:
                    return self.dice.choice(numbers)
                return (
                    apply(self.dice.choice(["+", "-"]), one, other)
                    if self.dice.random() < 0.7
                    else apply("negative", one)
                )
            case _:
                return apply("date_add", one, Literal("int", self.dice.randint(-2, 2)))
