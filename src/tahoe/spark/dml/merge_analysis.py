"""The plans of a MERGE: the join of target and source, the clause that applies to each row, and the new rows.

A source that might return different rows when it is read again is materialised once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.errors import InvalidMergeError, UnresolvedMergeColumnError
from tahoe.protocol.changes.column_values import check_assigned
from tahoe.protocol.types.assigned_paths import column_not_found
from tahoe.protocol.types.schema import STRING, Field, Struct
from tahoe.spark.dml.join_keys import Keys, keys_of
from tahoe.spark.dml.merge_command import Clause, Kind, Merge
from tahoe.spark.dml.row_changes import ROW_POSITION, RowChange, given_by_update
from tahoe.spark.dml.row_conditions import AnyCondition, RowCondition, condition_of_filter, condition_of_matches
from tahoe.spark.dml.set_clauses import first_parts, lacks_fields, new_values, resolve_assignments, with_current_fields
from tahoe.spark.dml.touched_rows import at_one_moment, checked_condition
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import (
    Attribute,
    Named,
    Value,
    analysed,
    attributes,
    column_of,
    condition_of_frame,
    equalities,
    estimated_bytes,
    never_changes,
    pinned,
    planned_again,
    projected,
    references_above_join,
)
from tahoe.spark.writing.column_rules import Completed
from tahoe.spark.writing.store_assignment import assign, spark_type, without_void
from tahoe.spark.writing.write_inputs import reads_table, source_schema
from tahoe.table.reading.read_set import Condition

# Columns that the command adds to those of target and source: the number of the clause that applies to a row.
ACTION = "__tahoe_action"
INSERT = "__tahoe_insert"

# A larger source is read twice instead of materialised, if it returns the same rows each time.
_KEPT_SOURCE_BYTES_MAX = 1 << 30


class AnalysedMerge:
    """A MERGE that Spark has analysed and not yet run.

    Attributes:
        target: the target's rows, with their positions.
        source: the source's rows, with a column `INSERT`: the number of the clause that inserts the row.
        condition: the MERGE condition, as SQL.
        keys: the source's join keys, which restrict the target's rows that may match.
        parameters: the history parameters of the command.
    """

    def __init__(self, command: Merge, change: RowChange) -> None:
        """Analyse conditions and assignments, so that their errors come before the target is read."""
        self.change, self.url, self._gateway = change, change.snapshot.url, Gateway(change.spark)
        self.target = change.rows()
        self.command = replace(
            command, not_matched_by_source=tuple(map(self._at_one_moment, command.not_matched_by_source))
        )
        source = _stable(change, command.source)
        self._source_schema = source_schema(command.source, table=self.url, like=change.plan.schema)
        self._source_columns = attributes(self._gateway, source)
        self._target_columns = attributes(self._gateway, self.target)
        self._target_by_name = {a.name: a for a in reversed(self._target_columns)}
        inserts = self._clause_parameters(source, command.not_matched)
        self.source = source.withColumn(INSERT, self._action(command.not_matched)) if command.not_matched else source
        joined = self._join(self.target)
        condition = checked_condition(self._gateway, joined, "Join", self.url)
        self.condition, self._join_condition = condition.text, condition.expression
        fixed = at_one_moment(self._gateway, joined)
        if fixed is not None:
            self._join_condition = condition_of_frame(fixed, "Join")
            self.command = replace(self.command, condition=self._gateway.column(self._join_condition))
        self.parameters = {
            "predicate": json.dumps([condition.text]),
            "matchedPredicates": json.dumps(self._clause_parameters(joined, command.matched)),
            "notMatchedPredicates": json.dumps(inserts),
            "notMatchedBySourcePredicates": json.dumps(
                self._clause_parameters(self.target, command.not_matched_by_source)
            ),
        }
        keys = keys_of(equalities(self._gateway, self._join_condition, self.target, self.source))
        self.keys = Keys(keys, self.source, change.snapshot.live.size_bytes)
        self.reads_target = reads_table(command.source, command.target.table)
        self._used = self._used_columns(joined)
        for clause in command.not_matched_by_source:
            if clause.kind == "update":
                frame = self._assigned_rows(clause, self.target)
                change.check(frame)
                self.read_in([frame])

    def _at_one_moment(self, clause: Clause) -> Clause:
        """A clause on rows of the target whose condition has the same result each time: several queries evaluate it."""
        fixed = None if clause.condition is None else at_one_moment(self._gateway, self.target.where(clause.condition))
        return (
            clause
            if fixed is None
            else replace(clause, condition=self._gateway.column(condition_of_frame(fixed, "Filter")))
        )

    def read_in(self, frames: Sequence[DataFrame]) -> None:
        """Set `reads_target` if one of the queries also reads the target in a subquery of a condition or value."""
        self.reads_target = self.reads_target or any(reads_table(frame, self.command.target.table) for frame in frames)

    def _join(self, target: DataFrame) -> DataFrame:
        """Join the source with the target's matching rows; a left outer join if the command has clauses that insert."""
        return self.source.join(target, self.command.condition, "left_outer" if self.command.not_matched else "inner")

    def _clause_parameters(self, rows: DataFrame, clauses: Sequence[Clause]) -> list[dict[str, str]]:
        """Check the conditions of clauses. Returns the clauses as history parameters."""
        parameters = []
        for clause in clauses:
            checked = clause.condition is not None and checked_condition(
                self._gateway, rows.where(clause.condition), "Filter", self.url
            )
            parameters.append({**({"predicate": checked.text} if checked else {}), "actionType": clause.kind})
        return parameters

    def _used_columns(self, joined: DataFrame) -> list[Attribute]:
        """The columns of both sides that new rows are computed from; with a change data feed, also all columns of the
        target.
        """
        writing = [clause for clause in (*self.command.matched, *self.command.not_matched) if clause.kind != "delete"]
        frames = [self._assigned_rows(clause, joined) for clause in writing]
        for clause, frame in zip(writing, frames, strict=True):
            self.change.check(frame, are_new=clause.kind == "insert")
        self.read_in(frames)
        used = {number for frame in frames for number in references_above_join(self._gateway, frame)}
        own = {ROW_POSITION, *self.change.kept_names}
        target = [a for a in self._target_columns if a.name not in own and (a.number in used or self.change.has_feed)]
        return [*target, *(a for a in self._source_columns if a.number in used)]

    # --- the rows that clauses apply to

    def _action(self, clauses: Sequence[Clause]) -> Column:
        """The number of the first clause whose condition holds; null if there is none."""
        action = F.lit(None).cast("int")
        for clause in reversed(clauses):
            number = F.lit(self.command.clauses.index(clause))
            action = number if clause.condition is None else F.when(clause.condition, number).otherwise(action)
        return action

    def matches(self) -> DataFrame:
        """The joined rows that a clause applies to, with the columns that their new values are computed from."""
        action = self._action(self.command.matched)
        if self.command.not_matched:
            action = F.when(F.col(ROW_POSITION).isNull(), F.col(INSERT)).otherwise(action)
        joined = self._join(self.keys.candidates(self.target))
        columns: list[Value | Named] = [Named(ACTION, action), ROW_POSITION, *self.change.kept_names, *self._used]
        return projected(joined, columns).where(F.col(ACTION).isNotNull())

    def unmatched_target(self) -> DataFrame | None:
        """The rows of the target that no source row matches and that a clause applies to; None without such clauses."""
        clauses = self.command.not_matched_by_source
        if not clauses:
            return None
        conditions = [F.lit(True) if clause.condition is None else clause.condition for clause in clauses]
        some = self.target.where(reduce(lambda left, right: left | right, conditions))
        return some.join(self.source, self.command.condition, "left_anti").select(
            self._action(clauses).alias(ACTION), "*"
        )

    def unmatched_source(self) -> DataFrame:
        """The rows of the source that no target row matches and that a clause inserts."""
        some = self.source.where(F.col(INSERT).isNotNull())
        alone = some.join(self.keys.candidates(self.target), self.command.condition, "left_anti")
        return alone.withColumnRenamed(INSERT, ACTION)

    def row_condition(self) -> Condition | None:
        """Whether the command depends on a row of the target: a row of the source matches it, or a clause may apply to
        it that needs none. None if it depends on every row."""
        clauses, snapshot = self.command.not_matched_by_source, self.change.snapshot
        alone = [self.target.where(clause.condition) for clause in clauses if clause.condition is not None]
        if len(alone) < len(clauses):
            return None
        matched = RowCondition(
            snapshot, lambda: condition_of_matches(self._gateway, self.target, self.source, self._join_condition)
        )
        filters = (partial(condition_of_filter, self._gateway, rows, None) for rows in alone)
        return AnyCondition([matched, *(RowCondition(snapshot, each) for each in filters)])

    # --- their new values

    def new_rows(self, parts: Sequence[tuple[Clause, DataFrame]]) -> list[tuple[Kind, Completed]]:
        """The updated and inserted rows as the table will store them.

        Args:
            parts: clauses, each with the rows that it applies to.
        """
        updates = [(clause, rows) for clause, rows in parts if clause.kind == "update"]
        inserts = [(clause, rows) for clause, rows in parts if clause.kind == "insert"]
        updated_rows = [
            self.change.stored(self._assigned_rows(c, rows), given=given_by_update(self.change, self._values(c)))
            for c, rows in updates
        ]
        if len(inserts) > 1 and self.change.values.identity:  # two passes would generate the same identity values
            inserted_rows = [self._inserted_together(inserts)]
        else:
            inserted_rows = [self.change.stored(self._assigned_rows(clause, rows)) for clause, rows in inserts]
        return [*(("update", rows) for rows in updated_rows), *(("insert", rows) for rows in inserted_rows)]

    def _inserted_together(self, parts: Sequence[tuple[Clause, DataFrame]]) -> Completed:
        """The rows that several clauses insert. Each clause may assign different columns."""
        schema, frames, giving = without_void(self.change.plan.schema), [], dict[str, list[int]]()
        for clause, rows in parts:
            number, assigned = self.command.clauses.index(clause), self._assigned_rows(clause, rows)
            for name in assigned.columns:
                giving.setdefault(name.lower(), []).append(number)
            beside = [name for name in self.change.kept_names if name in assigned.columns]
            frames.append(assign(assigned, schema, self.change.refusals, keep=beside).withColumn(ACTION, F.lit(number)))
        suppliers = {name: None if len(by) == len(parts) else F.col(ACTION).isin(by) for name, by in giving.items()}
        return self.change.stored(union(frames), given=suppliers)

    def old_rows(self, rows: DataFrame) -> DataFrame:
        """Rows of the target before the command, in the schema after the command."""
        return self.change.as_they_are(
            projected(rows, new_values({}, self.change.plan.schema, self.change.schema, self._current_value))
        )

    def _assigned_rows(self, clause: Clause, rows: DataFrame) -> DataFrame:
        """Apply the assignments of a clause to rows.

        Raises:
            DeltaAnalysisError: a value is assigned to a column that does not exist or must not be assigned.
        """
        change, values = self.change, self._values(clause)
        if clause.kind == "update":
            new = new_values(values, change.plan.schema, change.schema, self._current_value)
            return projected(rows, [*new, *change.kept_by_update()])
        numbers = {a.number for a in attributes(self._gateway, rows)}
        source_rows = projected(rows, [a for a in self._source_columns if a.number in numbers])
        return projected(source_rows, [*(Named(path[0], value) for path, value in values.items()), *change.new_row()])

    def _current_value(self, name: str) -> Value:
        """The current value of a column of the target; null for a column that schema evolution adds."""
        column = self._target_by_name.get(name)
        field = self.change.plan.schema.find(name)
        assert field is not None
        return F.lit(None).cast(spark_type(field.type)) if column is None else column

    def _values(self, clause: Clause) -> Mapping[tuple[str, ...], Value]:
        """The values that a clause assigns, by column path."""
        schema = self.change.plan.schema
        if clause.assignments is not None:
            values = resolve_assignments(
                clause.assignments, schema, self.command.target.name, self.url, UnresolvedMergeColumnError
            )
            nested_path = next((path for path in values if clause.kind == "insert" and len(path) > 1), None)
            if clause.kind == "update":
                check_assigned(self.change.values, first_parts(values), table=self.url)
            if nested_path is not None:
                name, column = ".".join(nested_path), nested_path[0]
                detail = f"INSERT assigns {name}, but a new row needs a value for the whole column {column}"
                raise InvalidMergeError(table=self.url, detail=detail)
            return values
        by_name = {a.name.lower(): a for a in self._source_columns}
        ambiguous = next(
            (a.name for a in self._source_columns if by_name[a.name.lower()] is not a and schema.find(a.name)), None
        )
        if ambiguous is not None:
            detail = f"the source has several columns named {ambiguous}, so {clause.kind.upper()} * is ambiguous"
            raise InvalidMergeError(table=self.url, detail=detail)
        computed = {
            *self.change.values.generated,
            *self.change.values.identity,
            *(self.change.values.defaults if clause.kind == "insert" else ()),
        }
        missing = next(
            (field for field in schema if field.name.lower() not in by_name and field.name not in computed), None
        )
        if missing is not None and not self.change.evolves:
            names = Struct(tuple(Field(name=a.name, type=STRING) for a in self._source_columns))
            source = f"the source, from which {clause.kind.upper()} * takes a value for each column of {self.url}"
            raise column_not_found(missing.name, names, source, UnresolvedMergeColumnError)
        fixed = self.change.values.identity if clause.kind == "update" else ()
        completes = clause.kind == "update" and self.change.evolves
        by_column = {
            f.name: by_name[f.name.lower()] for f in schema if f.name.lower() in by_name and f.name not in fixed
        }
        return {
            (name,): self._with_current_fields(name, value) if completes else value for name, value in by_column.items()
        }

    def _with_current_fields(self, name: str, value: Value) -> Value:
        """A column of the source. Struct fields that the source does not have keep the target's value."""
        source_field, new_field, current_field = (
            self._source_schema.find(name),
            self.change.plan.schema.find(name),
            self.change.schema.find(name),
        )
        assert source_field is not None
        assert new_field is not None
        if current_field is None or not lacks_fields(source_field.type, new_field.type):
            return value
        return with_current_fields(
            column_of(value), source_field.type, new_field.type, column_of(self._current_value(current_field.name))
        )


def _stable(change: RowChange, source: DataFrame) -> DataFrame:
    """The source as a DataFrame that returns the same rows each time: materialised, unless it is large, deterministic
    and unchanging.
    """
    fresh = planned_again(Gateway(change.spark), source)
    plan = analysed(fresh)
    if estimated_bytes(fresh) > _KEPT_SOURCE_BYTES_MAX and plan.deterministic() and never_changes(plan):
        return pinned(fresh)
    return change.materialise(fresh, now=not plan.deterministic(), is_read=True)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionAll(right), frames)
