"""Who runs statements: tahoe through Spark, the reference implementation, and the model itself, so that the runner can
be tried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tahoe
from tahoe import DeltaTable
from tahoe.errors import DeltaError
from tahoe.protocol.types.schema import encode_type
from tests.dml import model
from tests.dml.calls import Call, arrow, make
from tests.dml.model import Outcome, Row, Schema, Statement, Verb
from tests.dml.runner import Answer, EngineFault, StatementRefused
from tests.interop.reference import Reference, ReferenceFailure


class Tahoe:
    """`tahoe.DeltaTable` in a session that is enabled."""

    refuses_idle_matches = False

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def run(self, path: str, call: Call, statement: Statement) -> Answer:
        try:
            return Answer(make(self.spark, DeltaTable, path, call))
        except (DeltaError, PySparkException) as error:
            raise StatementRefused(f"{_condition(error)} {type(error).__name__}: {error}") from error

    def changes(self, path: str, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        return tahoe.Table(path).changes(start_version=first, end_version=last)


def _condition(error: DeltaError | PySparkException) -> str:
    return str(error.condition if isinstance(error, DeltaError) else error.getCondition())


# What the reference (4.4.0) fails with where nothing is wrong: in some MERGEs with several clauses for rows not matched
# by source.
_FAULTS = ("Unexpected row: did not match any merge clause",)


class OfReference:
    """The reference's `DeltaTable`, on tables that tahoe has made."""

    refuses_idle_matches = True

    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def run(self, path: str, call: Call, statement: Statement) -> Answer:
        try:
            return Answer(self.reference.delta_table(path, call))
        except ReferenceFailure as error:
            if any(fault in str(error) for fault in _FAULTS):
                raise EngineFault(str(error)) from error
            raise StatementRefused(f"{error.condition} {error}") from error

    def changes(self, path: str, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        options = {"readChangeFeed": "true", "startingVersion": str(first), "endingVersion": str(last)}
        return self.reference.read(path, columns=[*columns, "_change_type", "_commit_version"], **options)


class TheModel:
    """Writes what the model says, all rows anew: an engine that is right, or as wrong as a test makes the model for
    it.
    """

    refuses_idle_matches = False

    def run(self, path: str, call: Call, statement: Statement) -> Answer:
        table = tahoe.Table(path)
        schema = _schema(table)
        outcome = model.run(statement, [Row(values) for values in table.to_arrow().to_pylist()], schema)
        if outcome.refusal is not None:
            raise StatementRefused(outcome.refusal.value[0])
        with table.transaction() as changes:
            changes.remove(table.files()["path"].to_pylist())
            changes.append(arrow(outcome.rows(), outcome.schema), merge_schema=True)
        return Answer([_counts(outcome)])

    def changes(self, path: str, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        raise NotImplementedError


def _schema(table: tahoe.Table) -> Schema:
    kinds = {"integer": "int", "long": "bigint"}
    types = [(field.name, encode_type(field.type)) for field in table.schema]
    return tuple(
        model.ColumnDef(name, kinds.get(kind, kind) if isinstance(kind, str) else "struct") for name, kind in types
    )


def _counts(outcome: Outcome) -> dict[str, Any]:
    verbs = {"num_updated_rows": Verb.UPDATED, "num_deleted_rows": Verb.DELETED, "num_inserted_rows": Verb.INSERTED}
    counts = {name: outcome.count(verb) for name, verb in verbs.items()}
    return {"num_affected_rows": sum(counts.values()), **counts}
