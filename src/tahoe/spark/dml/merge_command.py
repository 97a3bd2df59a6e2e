"""MERGE as a record: its clauses, the checks on them, and the schema that it evolves the table to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame

from tahoe.protocol.changes.evolution import merge_source_columns
from tahoe.protocol.types.assigned_paths import without_qualifier
from tahoe.protocol.types.merge_clauses import Outline, check_clauses, outlined
from tahoe.protocol.types.schema import Struct
from tahoe.spark.dml.row_changes import DmlTarget
from tahoe.spark.dml.set_clauses import Assignment
from tahoe.spark.writing.write_inputs import source_schema, table_schema
from tahoe.table.reading.snapshot import Snapshot

MERGE = "MERGE"

Kind: TypeAlias = Literal["update", "delete", "insert"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clause:
    """One WHEN ... THEN of a MERGE.

    Attributes:
        assignments: values by column; None for UPDATE SET * and INSERT *, which use the source's columns by name.
    """

    kind: Kind
    condition: Column | None = None
    assignments: tuple[Assignment, ...] | None = None

    @property
    def outline(self) -> Outline:
        takes_all = self.assignments is None
        return Outline(kind=self.kind, is_conditional=self.condition is not None, takes_all=takes_all)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """MERGE INTO target USING source ON condition. In each of the three groups, the first clause whose condition holds
    applies.

    Attributes:
        evolves: WITH SCHEMA EVOLUTION: columns of the source that clauses assign are added to the table.
    """

    target: DmlTarget
    source: DataFrame
    condition: Column
    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()
    evolves: bool = False

    @property
    def clauses(self) -> tuple[Clause, ...]:
        return (*self.matched, *self.not_matched, *self.not_matched_by_source)

    @property
    def outline(self) -> list[str]:
        groups = (self.matched, self.not_matched, self.not_matched_by_source)
        return list(outlined([[clause.outline for clause in group] for group in groups]))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCounts:
    """How many rows a MERGE has updated, deleted and inserted."""

    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    @property
    def affected(self) -> int:
        return self.updated + self.deleted + self.inserted


def check_command(command: Merge) -> None:
    """Refuse clauses that `check_clauses` refuses."""
    groups = command.matched, command.not_matched, command.not_matched_by_source
    check_clauses(*([clause.condition for clause in group] for group in groups), table=command.target.table.url)


def evolved_schema(command: Merge, snapshot: Snapshot, evolves: bool) -> Struct:
    """The schema to evolve to: with schema evolution, the source's columns and struct fields that a clause assigns;
    else the table's.
    """
    if not (evolves or command.evolves):
        return snapshot.schema
    table, clauses = command.target.table.url, (*command.matched, *command.not_matched)
    stars = any(clause.kind != "delete" and clause.assignments is None for clause in clauses)
    if stars:
        return table_schema(command.source, table=table, like=snapshot.schema)
    source = source_schema(command.source, table=table, like=snapshot.schema)
    paths = [
        assigned_column(assignment.path, snapshot.schema, source, command.target.name)
        for clause in clauses
        for assignment in clause.assignments or ()
    ]
    return merge_source_columns(source, [path for path in paths if path])


def assigned_column(
    written: tuple[str, ...], own: Struct, source: Struct, name: Sequence[str]
) -> tuple[str, ...] | None:
    """Resolve a path in an assignment to a column of the table, or else to a column of the source; None if neither has
    it.
    """
    paths = list(without_qualifier(written, name))
    return next((path for schema in (own, source) for path in paths if schema.find(path[0])), None)
