"""Answers what clients of Spark Connect ask of Delta tables: runs their calls on `DeltaTable` in the client's session
on the server.

A relation that changes a table does so when Spark plans it, as the reference's does.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from tahoe.errors import ClientCallError
from tahoe.spark.api.connect.calls import (
    Call,
    Expression,
    Relation,
    TableCalls,
    calls_of_command,
    calls_of_ours,
    calls_of_relation,
)
from tahoe.spark.api.connect.messages import Calls, DeltaCommand, DeltaRelation, Message, unpacked
from tahoe.spark.api.delta_table import DeltaTable, DeltaTableBuilder
from tahoe.spark.api.merge_builder import DeltaMergeBuilder
from tahoe.spark.api.optimize_builder import DeltaOptimizeBuilder
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.local_rows import local_rows
from tahoe.spark.jvm.plans import analysed
from tahoe.spark.jvm.statements.connect_service import expression_of, plan_of, resolved_columns

# The methods of `DeltaTable` that are called on the class, with the session.
ON_THE_CLASS = frozenset(
    {"convertToDelta", "isDeltaTable", "create", "createIfNotExists", "replace", "createOrReplace"}
)

_CALLABLE = (DeltaTable, DeltaTableBuilder, DeltaMergeBuilder, DeltaOptimizeBuilder)

# The column name of a scalar result.
ANSWER = "answer"


def plan_message(gateway: Gateway, planner: JavaObject, message: bytes) -> JavaObject | None:
    """The plan of a relation that a client sends; None if the message is not ours."""
    asked = unpacked(message, DeltaRelation, Calls)
    if asked is None:
        return None
    answer = _Client(gateway, planner).run(_calls(asked))
    return analysed(answer if isinstance(answer, DataFrame) else local_rows(gateway.spark, _told(answer)))


def run_message(gateway: Gateway, message: bytes) -> bool:
    """Run a command that a client sends. Returns whether the message is ours."""
    asked = unpacked(message, DeltaCommand)
    if asked is not None:
        _Client(gateway, None).run(_calls(asked))
    return asked is not None


def _calls(asked: Message) -> TableCalls:
    try:
        if isinstance(asked, Calls):
            return calls_of_ours(asked)
        return calls_of_relation(asked) if isinstance(asked, DeltaRelation) else calls_of_command(asked)
    except (ValueError, TypeError) as error:
        raise ClientCallError(kind=type(error).__name__, detail=str(error)) from error


def _told(answer: Any) -> pa.Table:
    if isinstance(answer, DeltaTable):
        answer = answer._handle.identifier()
    return pa.table(
        {ANSWER: pa.array([] if answer is None else [answer], pa.bool_() if isinstance(answer, bool) else pa.string())}
    )


class _Client:
    """A client's session on the server, and Spark's planner of the message."""

    def __init__(self, gateway: Gateway, planner: JavaObject | None) -> None:
        self._gateway, self._planner = gateway, planner
        self._qualifier: str | None = None
        self._source: DataFrame | None = None

    def run(self, asked: TableCalls) -> Any:
        """Run the calls. Returns the result of the last one.

        Raises:
            ClientCallError: a call does not exist, or its arguments have wrong types.
            whatever the methods raise
        """
        try:
            found = self._start(asked)
            for call in asked.calls:
                found = self._called(found, call, asked)
        except (ValueError, TypeError, AssertionError) as error:
            raise ClientCallError(kind=type(error).__name__, detail=str(error)) from error
        return found

    def _start(self, asked: TableCalls) -> Any:
        if asked.path is not None:
            table = DeltaTable.forPath(self._gateway.spark, asked.path, asked.storage)
            table.toDF()  # as the client has done if a condition has the table's columns, which then need a qualifier
        elif asked.name is not None:
            table = DeltaTable.forName(self._gateway.spark, asked.name)
        else:
            return DeltaTable
        table = table if asked.alias is None else table.alias(asked.alias)
        self._qualifier = table._handle.target().alias
        return table

    def _called(self, found: Any, call: Call, asked: TableCalls) -> Any:
        kind = found if isinstance(found, type) else type(found)
        if kind not in _CALLABLE or call.method.startswith("_") or not hasattr(kind, call.method):
            raise TypeError(f"{kind.__name__}.{call.method} does not exist in the server's version of tahoe")
        session = [self._gateway.spark] if call.method in ON_THE_CLASS and found is DeltaTable else []
        positional = [self._given(value, asked) for value in call.positional]
        named = {name: self._given(value, asked) for name, value in call.named.items()}
        return getattr(found, call.method)(*session, *positional, **named)

    def _given(self, value: Any, asked: TableCalls) -> Any:
        match value:
            case Expression(message):
                return self._column(message, asked)
            case Relation(message):
                self._source = self._gateway.dataframe_of_plan(plan_of(self._gateway, self._planner, message))
                return self._source
            case dict():
                return {name: self._given(item, asked) for name, item in value.items()}
            case list():
                return [self._given(item, asked) for item in value]
            case _:
                return value

    def _column(self, message: bytes, asked: TableCalls) -> Column:
        expression = expression_of(self._gateway, self._planner, message)
        return self._gateway.column(
            resolved_columns(self._gateway, expression, asked.plan_ids, self._qualifier, self._source)
        )
