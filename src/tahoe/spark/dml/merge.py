"""MERGE: rows of a source update, delete and add rows of a table.

The target is read once. What the source itself says of its keys leaves out files and then rows, in generated code (`keys`); only what
passes is joined. The joined rows are computed once and used twice: to find the positions of what goes, and to write what comes. Rows that
no clause changes are never written where the table has deletion vectors.

Paper §4.2; protocol "Deletion Vectors", "Change Data Files".
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name

from tahoe.errors import InvalidMergeError, MultipleSourceRowsError
from tahoe.protocol.change_feed import CHANGE_TYPE
from tahoe.protocol.column_values import check_assigned
from tahoe.protocol.conflict import EVERYTHING, Reads
from tahoe.protocol.evolution import taken_in, widening_of
from tahoe.protocol.predicate import TRUE, Or, Predicate
from tahoe.protocol.schema import STRING, Field, Struct
from tahoe.spark.dml.join_keys import Keys, keys_of
from tahoe.spark.dml.row_changes import PLACE, RowChange, Target, Touched, columns_of, given_by_update
from tahoe.spark.dml.set_clauses import Assignment, column_not_found, completed, first_parts, new_values, paths_in, resolved
from tahoe.spark.dml.touched_rows import checked_condition, predicate_read
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.reading.positions import LISTED_ROWS_MAX, MATCHES, Positions, are_few, gathered, gathered_from
from tahoe.spark.writing.column_rules import Completed
from tahoe.spark.writing.store_assignment import fit, spark_type, without_void
from tahoe.spark.writing.write_inputs import reads_table, table_schema
from tahoe.table.reading.read_set import RowsRead
from tahoe.table.reading.snapshot import Snapshot

MERGE = "MERGE"

Kind: TypeAlias = Literal["update", "delete", "insert"]

# Columns beside those of target and source, while the command works: the number of the clause that a row is for.
_ACTION = "__tahoe_action"
_INSERT = "__tahoe_insert"

# How many keys an error shows.
_SHOWN_KEYS_MAX = 3

# A source of more bytes is read again rather than kept, where it is the same each time.
_KEPT_SOURCE_BYTES_MAX = 1 << 30
_UNCHANGING = frozenset({"LogicalRelation", "Project", "Filter", "Join", "Union", "SubqueryAlias"})

# What a change data feed calls a row before and after.
_CHANGE_TYPES: Mapping[Kind, tuple[str, str]] = {
    "update": ("update_preimage", "update_postimage"),
    "delete": ("delete", ""),
    "insert": ("", "insert"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clause:
    """One WHEN ... THEN of a MERGE.

    Attributes:
        assignments: values by column; None for UPDATE SET * and INSERT *, which take the source's columns by their names.
    """

    kind: Kind
    condition: Column | None = None
    assignments: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """MERGE INTO target USING source ON condition, with its clauses in three groups; of each group the first that holds is taken.

    Attributes:
        evolves: WITH SCHEMA EVOLUTION: the table takes in columns of the source that clauses assign.
    """

    target: Target
    source: DataFrame
    condition: Column
    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()
    evolves: bool = False

    @property
    def clauses(self) -> tuple[Clause, ...]:
        return (*self.matched, *self.not_matched, *self.not_matched_by_source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """How many rows a MERGE has changed."""

    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    @property
    def affected(self) -> int:
        return self.updated + self.deleted + self.inserted


def merge(command: Merge) -> Merged:
    """Update, delete and insert rows, in one version.

    Raises:
        AnalysisException, DeltaAnalysisError: before any work, where a condition, a value or the table does not allow it.
        MultipleSourceRowsError: several rows of the source would change one row of the target.
        DeltaConcurrentModificationException: another writer was first, and it matters.
    """
    _check_clauses(command)
    only_inserts = all(clause.kind == "insert" for clause in command.clauses)
    with RowChange(command.target, removes_data=not only_inserts, grown=partial(_grown, command)) as change:
        analysed = _Analysed(command, change)
        if change.is_recorded:
            return Merged()
        return _insert_only(analysed) if only_inserts else _change(analysed)


def _check_clauses(command: Merge) -> None:
    table = command.target.table.url
    if not command.clauses:
        raise InvalidMergeError(table=table, detail="it has no WHEN clause, and so nothing to do")
    for name, group in (
        ("WHEN MATCHED", command.matched),
        ("WHEN NOT MATCHED", command.not_matched),
        ("WHEN NOT MATCHED BY SOURCE", command.not_matched_by_source),
    ):
        if any(clause.condition is None for clause in group[:-1]):
            raise InvalidMergeError(
                table=table, detail=f"of its {name} clauses one without a condition stands before others, which never hold"
            )


def _grown(command: Merge, snapshot: Snapshot, evolves: bool) -> Struct:
    """What the table takes in: where it may, the source's columns, and fields of its structs, that a clause assigns."""
    if not (evolves or command.evolves):
        return snapshot.schema
    table, clauses = command.target.table.url, (*command.matched, *command.not_matched)
    source = table_schema(command.source, table=table)
    if any(clause.kind != "delete" and clause.assignments is None for clause in clauses):
        return source
    meant = [_meant(given.path, snapshot.schema, source, command.target.name) for clause in clauses for given in clause.assignments or ()]
    widens = widening_of(snapshot.protocol, snapshot.metadata, table=table)
    return taken_in(snapshot.schema, source, [path for path in meant if path], widens)


def _meant(written: tuple[str, ...], own: Struct, source: Struct, name: Sequence[str]) -> tuple[str, ...] | None:
    """The path that a written one stands for: in the table, or else in what it may take in from the source."""
    paths = list(paths_in(written, name))
    return next((path for schema in (own, source) for path in paths if schema.find(path[0])), None)


# --- analysis


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A column of one side, whatever names the other side has. `number` is Spark's identity of it."""

    number: int
    name: str
    column: Column


def _attributes(gateway: Gateway, frame: DataFrame) -> list[_Attribute]:
    output = gateway.items(frame._jdf.queryExecution().analyzed().output().iterator())
    return [_Attribute(int(a.exprId().id()), str(a.name()), gateway.column(a)) for a in output]


class _Analysed:
    """A MERGE that Spark has understood, of which nothing has run.

    Attributes:
        target: its rows, with their positions.
        source: its rows, which tell as well by which clause they are inserted.
        condition: as SQL.
        keys: what the source says of the rows that may match.
        parameters: what the history tells of the command.
    """

    def __init__(self, command: Merge, change: RowChange) -> None:
        self.command, self.change, self.url = command, change, change.snapshot.url
        self._gateway = Gateway(change.spark)
        self.target = change.rows()
        given = _stable(change, command.source)
        self._source_schema = table_schema(command.source, table=self.url)
        self._given, self._current = _attributes(self._gateway, given), _attributes(self._gateway, self.target)
        inserts = self._told(given, command.not_matched)
        self.source = given.withColumn(_INSERT, self._action(command.not_matched)) if command.not_matched else given
        joined = self._joined(self.target)
        condition = checked_condition(self._gateway, joined, "Join", self.url)
        self.condition = condition.text
        self.parameters = {
            "predicate": json.dumps([condition.text]),
            "matchedPredicates": json.dumps(self._told(joined, command.matched)),
            "notMatchedPredicates": json.dumps(inserts),
            "notMatchedBySourcePredicates": json.dumps(self._told(self.target, command.not_matched_by_source)),
        }
        keys = keys_of(self._gateway, condition.expression, _output(self.target), _output(self.source))
        self.keys = Keys(keys, self.source, change.snapshot.live.size_bytes)
        self.reads_target = reads_table(command.source, command.target.table)
        self._used = self._used_columns(joined)
        for clause in command.not_matched_by_source:
            if clause.kind == "update":
                frame = self._assigned(clause, self.target)
                change.check(frame)
                self.read_in([frame])

    def read_in(self, frames: Sequence[DataFrame]) -> None:
        """Note whether queries read the target otherwise than as the target: in subqueries of conditions and values."""
        self.reads_target = self.reads_target or any(reads_table(frame, self.command.target.table) for frame in frames)

    def _joined(self, target: DataFrame) -> DataFrame:
        """Each row of the source with the rows of a target that match; alone, where there are none and clauses insert."""
        return self.source.join(target, self.command.condition, "left_outer" if self.command.not_matched else "inner")

    def _told(self, rows: DataFrame, clauses: Sequence[Clause]) -> list[dict[str, str]]:
        """Clauses as the history tells them, with their conditions, which are checked."""
        told = []
        for clause in clauses:
            checked = clause.condition is not None and checked_condition(self._gateway, rows.where(clause.condition), "Filter", self.url)
            told.append({**({"predicate": checked.text} if checked else {}), "actionType": clause.kind})
        return told

    def _used_columns(self, joined: DataFrame) -> list[Column]:
        """The columns of both sides that new rows are made of, and, for a change data feed, those of the rows that go."""
        writing = [clause for clause in (*self.command.matched, *self.command.not_matched) if clause.kind != "delete"]
        frames = [self._assigned(clause, joined) for clause in writing]
        for clause, frame in zip(writing, frames, strict=True):
            self.change.check(frame, are_new=clause.kind == "insert")
        self.read_in(frames)
        used = {number for frame in frames for number in _references(self._gateway, frame)}
        own = {PLACE, *self.change.kept_names}
        target = [a for a in self._current if a.name not in own and (a.number in used or self.change.has_feed)]
        return [a.column for a in (*target, *(a for a in self._given if a.number in used))]

    # --- the rows that clauses are for

    def _action(self, clauses: Sequence[Clause]) -> Column:
        """The number of the first clause that holds; null where none does."""
        action = F.lit(None).cast("int")
        for clause in reversed(clauses):
            number = F.lit(self.command.clauses.index(clause))
            action = number if clause.condition is None else F.when(clause.condition, number).otherwise(action)
        return action

    def matches(self) -> DataFrame:
        """The joined rows that a clause is for, with what their new values are made of."""
        action = self._action(self.command.matched)
        if self.command.not_matched:
            action = F.when(F.col(PLACE).isNull(), F.col(_INSERT)).otherwise(action)
        beside = [F.col(name) for name in (PLACE, *self.change.kept_names)]
        joined = self._joined(self.keys.narrowed(self.target))
        return joined.select(action.alias(_ACTION), *beside, *self._used).where(F.col(_ACTION).isNotNull())

    def left_alone(self) -> DataFrame | None:
        """The rows of the target that nothing in the source matches, and that a clause is for."""
        clauses = self.command.not_matched_by_source
        if not clauses:
            return None
        conditions = [F.lit(True) if clause.condition is None else clause.condition for clause in clauses]
        some = self.target.where(reduce(lambda left, right: left | right, conditions))
        return some.join(self.source, self.command.condition, "left_anti").select(self._action(clauses).alias(_ACTION), "*")

    def unmatched(self) -> DataFrame:
        """The rows of the source that nothing in the target matches, and that a clause inserts."""
        some = self.source.where(F.col(_INSERT).isNotNull())
        alone = some.join(self.keys.narrowed(self.target), self.command.condition, "left_anti")
        return alone.withColumnRenamed(_INSERT, _ACTION)

    # --- what they become

    def new_rows(self, parts: Sequence[tuple[Clause, DataFrame]]) -> list[tuple[Kind, Completed]]:
        """Rows as the table holds them once their clauses have updated or inserted them."""
        updated = [(clause, rows) for clause, rows in parts if clause.kind == "update"]
        inserted = [(clause, rows) for clause, rows in parts if clause.kind == "insert"]
        found = [self.change.stored(self._assigned(c, rows), given=given_by_update(self.change, self._values(c))) for c, rows in updated]
        if len(inserted) > 1 and self.change.values.identity:  # their numbers are made in one go: twice they would be the same
            added = [self._inserted_together(inserted)]
        else:
            added = [self.change.stored(self._assigned(clause, rows)) for clause, rows in inserted]
        return [*(("update", rows) for rows in found), *(("insert", rows) for rows in added)]

    def _inserted_together(self, parts: Sequence[tuple[Clause, DataFrame]]) -> Completed:
        """What several clauses insert, each of which may give values to other columns."""
        schema, frames, giving = without_void(self.change.plan.schema), [], dict[str, list[int]]()
        for clause, rows in parts:
            number, assigned = self.command.clauses.index(clause), self._assigned(clause, rows)
            for name in assigned.columns:
                giving.setdefault(name.lower(), []).append(number)
            beside = [name for name in self.change.kept_names if name in assigned.columns]
            frames.append(fit(assigned, schema, self.change.refusals, keep=beside).withColumn(_ACTION, F.lit(number)))
        given = {name: None if len(by) == len(parts) else F.col(_ACTION).isin(by) for name, by in giving.items()}
        return self.change.stored(_union(frames), given=given)

    def old_rows(self, rows: DataFrame) -> DataFrame:
        """Rows of the target as they were, with the columns that the table has now."""
        return self.change.as_they_are(rows.select(*new_values({}, self.change.plan.schema, self.change.schema, self._current_value)))

    def _assigned(self, clause: Clause, rows: DataFrame) -> DataFrame:
        """What a clause says that rows become.

        Raises:
            DeltaAnalysisError: a value is for a column that is not there, or that is not to be given one.
        """
        change, values = self.change, self._values(clause)
        if clause.kind == "update":
            return rows.select(*new_values(values, change.plan.schema, change.schema, self._current_value), *change.kept_by_update())
        known = {a.number for a in _attributes(self._gateway, rows)}
        alone = rows.select(*[a.column for a in self._given if a.number in known])
        return alone.select(*[value.alias(path[0]) for path, value in values.items()], *change.new_row())

    def _current_value(self, name: str) -> Column:
        """A column of the target as it is; one that the table only takes in is null."""
        known = next((a.column for a in self._current if a.name == name), None)
        field = self.change.plan.schema.find(name)
        assert field is not None
        return F.lit(None).cast(spark_type(field.type)) if known is None else known

    def _values(self, clause: Clause) -> dict[tuple[str, ...], Column]:
        """What a clause assigns, by the paths of columns."""
        schema = self.change.plan.schema
        if clause.assignments is not None:
            found = resolved(clause.assignments, schema, self.command.target.name, self.url)
            inside = next((path for path in found if clause.kind == "insert" and len(path) > 1), None)
            if clause.kind == "update":
                check_assigned(self.change.values, first_parts(found), table=self.url)
            if inside is not None:
                detail = f"INSERT gives a value to {'.'.join(inside)}, and a new row needs the whole column {inside[0]}"
                raise InvalidMergeError(table=self.url, detail=detail)
            return found
        given = {a.name.lower(): a.column for a in self._given}
        twice = next((a.name for a in self._given if given[a.name.lower()] is not a.column and schema.find(a.name)), None)
        if twice is not None:
            detail = f"the source has several columns {twice}, and {clause.kind.upper()} * cannot tell which is meant"
            raise InvalidMergeError(table=self.url, detail=detail)
        made = {
            *self.change.values.generated,
            *self.change.values.identity,
            *(self.change.values.defaults if clause.kind == "insert" else ()),
        }
        missing = next((field for field in schema if field.name.lower() not in given and field.name not in made), None)
        if missing is not None and not self.change.evolves:
            names = Struct(tuple(Field(name=a.name, type=STRING) for a in self._given))
            raise column_not_found(
                missing.name, names, f"the source, of which {clause.kind.upper()} * takes a value for each column of {self.url}"
            )
        fixed = self.change.values.identity if clause.kind == "update" else ()
        completes = clause.kind == "update" and self.change.evolves
        taken = {f.name: given[f.name.lower()] for f in schema if f.name.lower() in given and f.name not in fixed}
        return {(name,): self._completed(name, value) if completes else value for name, value in taken.items()}

    def _completed(self, name: str, value: Column) -> Column:
        """A column of the source, with the target's own value for fields of structs that the source does not have."""
        given, wanted, own = self._source_schema.find(name), self.change.plan.schema.find(name), self.change.schema.find(name)
        assert given is not None
        assert wanted is not None
        return value if own is None else completed(value, given.type, wanted.type, self._current_value(own.name))


def _stable(change: RowChange, source: DataFrame) -> DataFrame:
    """The source so that it is the same however often it is read: kept when it is read first, unless it is large and never changes."""
    fresh = Gateway(change.spark).dataframe_of_plan(source._jdf.logicalPlan())  # what was planned before may be an older version's
    query = fresh._jdf.queryExecution()
    plan = query.analyzed()
    if int(str(query.optimizedPlan().stats().sizeInBytes())) > _KEPT_SOURCE_BYTES_MAX and plan.deterministic() and _never_changes(plan):
        return fresh
    return change.once(fresh, now=not plan.deterministic())


def _never_changes(plan: JavaObject) -> bool:
    """Whether a query gives the same rows each time: of files that are listed once, and without anything that chooses among rows."""
    if plan.getClass().getSimpleName() not in _UNCHANGING or plan.subqueries().size():
        return False
    if plan.getClass().getSimpleName() == "LogicalRelation":
        return bool(plan.relation().getClass().getSimpleName() == "HadoopFsRelation")
    return all(_never_changes(plan.children().apply(number)) for number in range(plan.children().size()))


def _output(frame: DataFrame) -> JavaObject:
    return frame._jdf.queryExecution().analyzed().outputSet()


def _references(gateway: Gateway, frame: DataFrame) -> set[int]:
    """The columns of a join, by their numbers, that a query above it names."""
    found: set[int] = set()
    plan = frame._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() != "Join":
        found |= {int(a.exprId().id()) for a in gateway.items(plan.references().iterator())}
        plan = plan.children().apply(0)
    return found


# --- work


def _insert_only(analysed: _Analysed) -> Merged:
    """Where clauses only insert, it does not matter which rows match, nor how often."""
    change, began = analysed.change, time.monotonic()
    rows = analysed.unmatched()
    analysed.read_in([rows])
    predicate = _predicate(analysed, [rows])
    if len(analysed.command.not_matched) > 1:
        rows = change.once(rows)
    found = time.monotonic()
    clauses = analysed.command.not_matched
    chosen = [rows.where(F.col(_ACTION) == number) for number in range(len(clauses))] if len(clauses) > 1 else [rows]
    new = _all([rows for _, rows in analysed.new_rows(list(zip(clauses, chosen, strict=True)))])
    assert new is not None, "a MERGE has clauses"
    written = change.write(new)
    merged = Merged(inserted=written.num_records)
    return merged if _commit(analysed, merged, {}, predicate, (began, found)) else Merged()


def _change(analysed: _Analysed) -> Merged:
    change, began = analysed.change, time.monotonic()
    matches, left_alone = analysed.matches(), analysed.left_alone()
    analysed.read_in([rows for rows in (matches, left_alone) if rows is not None])
    predicate = _predicate(analysed, [rows for rows in (matches, left_alone) if rows is not None])
    matches, left_alone = change.once(matches), None if left_alone is None else change.once(left_alone)
    places = [rows.select(_ACTION, PLACE) for rows in (matches, left_alone) if rows is not None]
    lists = are_few(change.snapshot) and analysed.keys.rows <= LISTED_ROWS_MAX
    table = gathered_from(_union(places), PLACE, _ACTION, are_few=lists)
    positions = gathered(table)
    counts = _counts(table)
    repeated = positions.matches - positions.count
    if repeated:
        _check_repeated(analysed, matches)
        placed = matches.where(F.col(PLACE).isNotNull()).dropDuplicates([PLACE])  # which all are deleted, and so alike
        matches = matches.where(F.col(PLACE).isNull()).unionAll(placed)
    found = time.monotonic()
    touched = change.touch(positions)
    _write(analysed, matches, left_alone, positions, touched, counts)
    merged = _merged(analysed.command, counts, repeated)
    return merged if _commit(analysed, merged, counts, predicate, (began, found), repeated=repeated) else Merged()


def _counts(table: pa.Table) -> dict[int, int]:
    """How many rows each clause is for, by its number."""
    sums = table.group_by(_ACTION).aggregate([(MATCHES, "sum")])
    return dict(zip(sums[_ACTION].to_pylist(), sums[f"{MATCHES}_sum"].to_pylist(), strict=True))


def _merged(command: Merge, counts: Mapping[int, int], repeated: int) -> Merged:
    of_kind = {kind: sum(counts.get(n, 0) for n, clause in enumerate(command.clauses) if clause.kind == kind) for kind in _CHANGE_TYPES}
    return Merged(updated=of_kind["update"], deleted=of_kind["delete"] - repeated, inserted=of_kind["insert"])


def _check_repeated(analysed: _Analysed, matches: DataFrame) -> None:
    """Several rows of the source may match one of the target only where all that can happen to it is that it goes.

    Raises:
        MultipleSourceRowsError: with some of the target's rows.
    """
    clauses = analysed.command.matched
    if len(clauses) == 1 and clauses[0].kind == "delete" and clauses[0].condition is None:
        return
    several = matches.where(F.col(PLACE).isNotNull()).groupBy(PLACE).count().where("count > 1").orderBy(PLACE).limit(_SHOWN_KEYS_MAX)
    places = [row[PLACE] for row in several.collect()]
    if not places:  # only rows that nothing in the source matches are here more than once, which cannot be
        return
    rows = analysed.target.where(F.col(PLACE).isin(places)).select(*analysed.keys.of_target())
    shown = "; ".join(", ".join(f"{name} = {value}" for name, value in row.asDict().items()) for row in rows.collect())
    raise MultipleSourceRowsError(table=analysed.url, keys=shown, condition=analysed.condition)


def _write(
    analysed: _Analysed,
    matches: DataFrame,
    left_alone: DataFrame | None,
    positions: Positions,
    touched: Sequence[Touched],
    counts: Mapping[int, int],
) -> None:
    change, command = analysed.change, analysed.command
    sides = [(command.matched, matches), (command.not_matched, matches), (command.not_matched_by_source, left_alone)]
    happened = [
        (clause, rows.where(F.col(_ACTION) == command.clauses.index(clause)))
        for clauses, rows in sides
        if rows is not None
        for clause in clauses
        if counts.get(command.clauses.index(clause))
    ]
    copied = [] if change.has_vectors else [t for t in touched if not t.is_whole]
    feeds = change.has_feed and (bool(copied) or any(clause.kind == "update" for clause, _ in happened))
    written = analysed.new_rows(happened)
    if not feeds:
        everything = _all([rows for _, rows in written])
        if everything is not None:
            change.write(everything)
    if feeds:
        columns = columns_of(without_void(change.plan.schema))
        new = _all([replace(rows, rows=rows.rows.withColumn(CHANGE_TYPE, F.lit(_CHANGE_TYPES[kind][1]))) for kind, rows in written])
        old = [
            analysed.old_rows(rows).select(*columns, F.lit(_CHANGE_TYPES[clause.kind][0]).alias(CHANGE_TYPE))
            for clause, rows in happened
            if clause.kind != "insert"
        ]
        if new is not None:
            rows = change.once(new.rows)  # an expression may give another value when it is evaluated again
            change.write(replace(new, rows=rows.drop(CHANGE_TYPE)))
            old.append(rows.select(*columns, CHANGE_TYPE))
        change.write_changes(_union(old))
    if copied:
        change.write_others(positions, copied)


def _all(parts: Sequence[Completed]) -> Completed | None:
    """Rows of several clauses, or None where there are none."""
    if not parts:
        return None
    return Completed(rows=_union([part.rows for part in parts]), minted=tuple({name for part in parts for name in part.minted}))


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionAll(right), frames)


# --- the end


def _predicate(analysed: _Analysed, frames: Sequence[DataFrame]) -> Predicate:
    """What is known of the rows of the target that were read."""
    found = {predicate_read(Gateway(analysed.change.spark), frame, analysed.url) for frame in frames}
    return found.pop() if len(found) == 1 else Or(tuple(found))


def _commit(
    analysed: _Analysed, merged: Merged, counts: Mapping[int, int], predicate: Predicate, times: tuple[float, float], *, repeated: int = 0
) -> bool:
    """Returns whether anything was changed: not where another writer has recorded this very command."""
    change = analysed.change
    narrower = (lambda: TRUE) if analysed.command.not_matched_by_source else analysed.keys.predicate
    reads: Reads = RowsRead(change.snapshot, predicate, analysed.condition, narrower)
    if analysed.reads_target:
        reads = EVERYTHING
    return change.commit(MERGE, analysed.parameters, _metrics(analysed, merged, counts, repeated, times), reads) is not None


def _metrics(analysed: _Analysed, merged: Merged, counts: Mapping[int, int], repeated: int, times: tuple[float, float]) -> dict[str, int]:
    """Under the reference's names."""
    change, command = analysed.change, analysed.command

    def count(clauses: Sequence[Clause], kind: Kind) -> int:
        return sum(counts.get(command.clauses.index(clause), 0) for clause in clauses if clause.kind == kind)

    copied = change.num_written - merged.updated - merged.inserted
    began, found = times
    return {
        "numSourceRows": analysed.keys.rows,
        "numTargetRowsInserted": merged.inserted,
        "numTargetRowsUpdated": merged.updated,
        "numTargetRowsMatchedUpdated": count(command.matched, "update"),
        "numTargetRowsNotMatchedBySourceUpdated": count(command.not_matched_by_source, "update"),
        "numTargetRowsDeleted": merged.deleted,
        "numTargetRowsMatchedDeleted": count(command.matched, "delete") - repeated,
        "numTargetRowsNotMatchedBySourceDeleted": count(command.not_matched_by_source, "delete"),
        "numTargetRowsCopied": copied,
        "numOutputRows": change.num_written,
        "numTargetFilesAdded": len(change.added_files),
        "numTargetFilesRemoved": len(change.removed_files),
        "numTargetBytesAdded": sum(file.size_bytes for file in change.added_files),
        "numTargetBytesRemoved": sum(file.size_bytes for file in change.removed_files),
        "numTargetChangeFilesAdded": len(change.change_files),
        **change.vector_metrics("numTarget"),
        "scanTimeMs": round((found - began) * 1000),
        "rewriteTimeMs": round((time.monotonic() - found) * 1000),
    }
