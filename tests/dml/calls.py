"""Statements as calls of `DeltaTable`, and the one place where such a call is made.

A call is JSON, so that it can be made in another process: with `DeltaTable` of tahoe or of the reference
implementation, which have the same methods. Nothing of tahoe is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions

from tests.dml.expressions import SOURCE, TARGET, Expression, Values
from tests.dml.model import Assignments, Clause, Delete, Merge, Schema, Source, Statement, Update

Call: TypeAlias = dict[str, Any]

ARROW_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
    "struct": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}
METHODS = {
    ("matched", "update"): "whenMatchedUpdate",
    ("matched", "update all"): "whenMatchedUpdateAll",
    ("matched", "delete"): "whenMatchedDelete",
    ("not matched", "insert"): "whenNotMatchedInsert",
    ("not matched", "insert all"): "whenNotMatchedInsertAll",
    ("not matched by source", "update"): "whenNotMatchedBySourceUpdate",
    ("not matched by source", "delete"): "whenNotMatchedBySourceDelete",
}


# --- rows


def arrow(rows: list[Values], schema: Schema) -> pa.Table:
    fields = [pa.field(column.name, ARROW_TYPES[column.kind]) for column in schema]
    return pa.table(
        [pa.array([row[field.name] for row in rows], field.type) for field in fields], schema=pa.schema(fields)
    )


def write_source(source: Source, path: Path) -> None:
    """Put the rows of a source where `make` finds them. Every other column that the target may have is spelled in
    capitals.
    """
    rows = arrow(list(source.rows), source.schema)
    pq.write_table(
        rows.rename_columns(
            [name.upper() if i % 2 and not name.startswith("x") else name for i, name in enumerate(rows.column_names)]
        ),
        path,
    )


# --- calls


def call_of(statement: Statement, source: Path | None = None) -> Call:
    """The call for a statement; the rows of a source are at a path."""
    match statement:
        case Delete(condition):
            return {"command": "delete", "condition": _sql(condition)}
        case Update(condition, assignments):
            return {"command": "update", "condition": _sql(condition), "set": _texts(assignments)}
        case Merge():
            return {
                "command": "merge",
                "source": {"kind": statement.source.kind, "path": str(source), "version": statement.source.version},
                "condition": statement.condition.sql(),
                "clauses": [[METHODS[clause.group, clause.action], _arguments(clause)] for clause in statement.clauses],
                "evolves": statement.evolves,
            }


def _sql(condition: Expression | None) -> str | None:
    return None if condition is None else condition.sql()


def _texts(assignments: Assignments) -> dict[str, str]:
    return {name: expression.sql() for name, expression in assignments.items()}


def _arguments(clause: Clause) -> dict[str, Any]:
    found: dict[str, Any] = {"condition": _sql(clause.condition)}
    if clause.action in ("update", "insert"):
        found["set" if clause.action == "update" else "values"] = _texts(clause.assignments)
    return found


def make(spark: SparkSession, delta_table: Any, path: str, call: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make a call on the table at a path. Returns the rows that it answers: none but for MERGE.

    Args:
        delta_table: the class, of tahoe or of the reference.
    """
    table = delta_table.forPath(spark, path)
    match call["command"]:
        case "delete":
            table.delete(call["condition"]) if call["condition"] else table.delete()
            return []
        case "update":
            table.update(condition=call["condition"], set=call["set"])
            return []
        case _:
            builder = table.alias(TARGET).merge(_frame(spark, path, call["source"]).alias(SOURCE), call["condition"])
            for method, arguments in call["clauses"]:
                builder = getattr(builder, method)(**arguments)
            if call["evolves"]:
                builder = builder.withSchemaEvolution()
            answered: DataFrame = builder.execute()
            return [row.asDict() for row in answered.collect()]


def complaint(spark: SparkSession, delta_table: Any, path: str, code: str) -> tuple[str, str] | None:
    """The error of an expression over `table`, `source` (a DataFrame), `F` and `spark`: its class and message; None
    where there is none.
    """
    names = {
        "table": delta_table.forPath(spark, path),
        "source": spark.range(3).toDF("id"),
        "F": functions,
        "spark": spark,
    }
    try:
        eval(code, names)
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def _frame(spark: SparkSession, path: str, source: Mapping[str, Any]) -> DataFrame:
    match source["kind"]:
        case "target":
            return spark.read.format("delta").option("versionAsOf", source["version"]).load(path)
        case "parquet":
            return spark.read.parquet(source["path"])
        case _:
            return spark.createDataFrame(pq.read_table(source["path"]))


def as_code(call: Mapping[str, Any]) -> str:
    """A call as a line of Python that a reader can run."""
    if call["command"] != "merge":
        arguments = {name: value for name, value in call.items() if name != "command"}
        return (
            f"DeltaTable.forPath(spark, path).{call['command']}("
            + ", ".join(f"{n}={v!r}" for n, v in arguments.items())
            + ")"
        )
    clauses = [
        f".{name}({', '.join(f'{n}={v!r}' for n, v in arguments.items() if v is not None)})"
        for name, arguments in call["clauses"]
    ]
    lines = [f"DeltaTable.forPath(spark, path).alias('t').merge(source.alias('s'), {call['condition']!r})", *clauses]
    source = f"# the source: {json.dumps(call['source'])}"
    return "\n    ".join([source, *lines, ".withSchemaEvolution().execute()" if call["evolves"] else ".execute()"])
