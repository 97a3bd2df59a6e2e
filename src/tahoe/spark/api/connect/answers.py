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
    request = unpacked(message, DeltaRelation, Calls)
    if request is None:
        return None
    answer = _Client(gateway, planner).run(_calls(request))
    return analysed(answer if isinstance(answer, DataFrame) else local_rows(gateway.spark, _answer_table(answer)))


def run_message(gateway: Gateway, message: bytes) -> bool:
    """Run a command that a client sends. Returns whether the message is ours."""
    request = unpacked(message, DeltaCommand)
    if request is not None:
        _Client(gateway, None).run(_calls(request))
    return request is not None


def _calls(request: Message) -> TableCalls:
    try:
        if isinstance(request, Calls):
            return calls_of_ours(request)
        return calls_of_relation(request) if isinstance(request, DeltaRelation) else calls_of_command(request)
    except (ValueError, TypeError) as error:
        raise ClientCallError(kind=type(error).__name__, detail=str(error)) from error


def _answer_table(answer: Any) -> pa.Table:
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

    def run(self, request: TableCalls) -> Any:
        """Run the calls. Returns the result of the last one.

        Raises:
            ClientCallError: a call does not exist, or its arguments have wrong types.
            whatever the methods raise
        """
        try:
            result = self._start(request)
            for call in request.calls:
                result = self._call(result, call, request)
        except (ValueError, TypeError, AssertionError) as error:
            raise ClientCallError(kind=type(error).__name__, detail=str(error)) from error
        return result

    def _start(self, request: TableCalls) -> Any:
        if request.path is not None:
            table = DeltaTable.forPath(self._gateway.spark, request.path, request.storage)
            table.toDF()  # as the client has done if a condition has the table's columns, which then need a qualifier
        elif request.name is not None:
            table = DeltaTable.forName(self._gateway.spark, request.name)
        else:
            return DeltaTable
        table = table if request.alias is None else table.alias(request.alias)
        self._qualifier = table._handle.target().alias
        return table

    def _call(self, target: Any, call: Call, request: TableCalls) -> Any:
        kind = target if isinstance(target, type) else type(target)
        if kind not in _CALLABLE or call.method.startswith("_") or not hasattr(kind, call.method):
            raise TypeError(f"{kind.__name__}.{call.method} does not exist in the server's version of tahoe")
        session = [self._gateway.spark] if call.method in ON_THE_CLASS and target is DeltaTable else []
        positional = [self._argument(value, request) for value in call.positional]
        by_name = {name: self._argument(value, request) for name, value in call.named.items()}
        return getattr(target, call.method)(*session, *positional, **by_name)

    def _argument(self, value: Any, request: TableCalls) -> Any:
        """An argument as the method takes it: expressions and relations of the client are plans, which become columns
        and frames, at any depth.
        """
        match value:
            case Expression(message):
                return self._column(message, request)
            case Relation(message):
                self._source = self._gateway.dataframe_of_plan(plan_of(self._gateway, self._planner, message))
                return self._source
            case dict():
                return {name: self._argument(item, request) for name, item in value.items()}
            case list():
                return [self._argument(item, request) for item in value]
            case _:
                return value

    def _column(self, message: bytes, request: TableCalls) -> Column:
        expression = expression_of(self._gateway, self._planner, message)
        return self._gateway.column(
            resolved_columns(self._gateway, expression, request.plan_ids, self._qualifier, self._source)
        )
