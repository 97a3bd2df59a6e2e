"""`DeltaTable` in a Spark Connect session whose server has tahoe: each method asks the server to call the method of the
same name.

Arguments are checked by the server. Columns and DataFrames are sent as Spark's own messages, so they may be whatever
Spark Connect accepts.
"""

# ruff: noqa: N802, N803, N815  the names are the reference's

from __future__ import annotations

import builtins
import functools
import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
from pyspark.sql.connect.plan import LocalRelation, LogicalPlan, SubqueryAlias
from pyspark.sql.types import DataType, StructField, StructType

from tahoe.errors import ClientCallError
from tahoe.spark.api.connect.messages import Call, Calls, DeltaRelation, Item, Message, Value
from tahoe.spark.api.delta_table import DeltaTable, DeltaTableBuilder
from tahoe.spark.api.merge_builder import DeltaMergeBuilder
from tahoe.spark.api.optimize_builder import DeltaOptimizeBuilder
from tahoe.spark.api.table_builder import IdentityGenerator
from tahoe.spark.maintenance.vacuum import COMMENT

_logger = logging.getLogger("tahoe")

M = TypeVar("M", bound=Callable[..., Any])


class _Extension(LogicalPlan):
    """A relation that is a message of Delta's."""

    def __init__(self, message: Message) -> None:
        super().__init__(None)
        self._message = message

    def plan(self, session: Any) -> Any:  # noqa: ARG002  PySpark's signature
        relation = self._create_proto_relation()
        relation.extension.Pack(self._message)
        return relation


@dataclass(frozen=True, slots=True)
class _RemoteCalls:
    """Calls that the server is asked for, in the end."""

    spark: Any
    calls: Message

    def then(self, method: str, *positional: Any, **named: Any) -> _RemoteCalls:
        """The same with one call more."""
        call = Call(
            method=method,
            positional=[self._value(value) for value in positional],
            named=[Item(name=name, value=self._value(value)) for name, value in named.items()],
        )
        more = Calls()
        more.CopyFrom(self.calls)
        more.calls.append(call)
        return _RemoteCalls(self.spark, more)

    def run(self) -> DataFrame:
        """Ask the server. Returns its answer, which is here: to ask for a DataFrame's schema would run the calls.

        The comment of an answer's column is a warning of the server for its client.
        """
        client = self.spark.client
        try:
            rows, schema, _ = client.to_table(_Extension(self.calls).to_proto(client), {})
        except PySparkException as error:
            raise _as_python_has_it(error) from None
        for field in schema or ():
            if COMMENT in field.metadata:
                _logger.warning("%s", field.metadata[COMMENT])
        return ConnectDataFrame(LocalRelation(rows), self.spark)

    def answer(self) -> Any:
        row = self.run().head()
        return None if row is None else row[0]

    def shown(self, kind: str) -> str:
        """The text of an object: its class, the table, and the calls so far."""
        place = [repr(self.calls.name or self.calls.path)] if self.calls.name or self.calls.path else []
        alias = [f"alias={self.calls.alias!r}"] if self.calls.alias else []
        return f"{kind}({', '.join([*place, *alias, *(call.method for call in self.calls.calls)])})"

    def _value(self, value: Any) -> Message:
        """A `Value` for an argument: Spark's own message for a column or a DataFrame, JSON for everything that has no
        message.
        """
        match value:
            case Column():
                return Value(expression=value.to_plan(self.spark.client).SerializeToString())  # type: ignore[operator]
            case DataFrame():
                return Value(relation=value._plan.plan(self.spark.client).SerializeToString())  # type: ignore[operator]
            case DataType():
                return Value(data_type=StructType([StructField("of", value)]).json())
            case IdentityGenerator():
                return Value(identity={"start": value.start, "step": value.step})
            case Mapping():
                return Value(
                    mapping={"items": [Item(name=name, value=self._value(item)) for name, item in value.items()]}
                )
            case list() | tuple():
                return Value(sequence={"values": [self._value(item) for item in value]})
            case _:
                return Value(json=json.dumps(value))


def _as_python_has_it(error: PySparkException) -> Exception:
    """A wrong argument as the exception that Python has for it."""
    if error.getCondition() != ClientCallError.condition:
        return error
    parameters = error.getMessageParameters() or {}
    kind = getattr(builtins, parameters.get("kind", ""), ValueError)
    python_error: Exception = kind(parameters.get("detail", str(error)))
    return python_error


def _bound(method: Callable[..., Any], self: Any, arguments: Any, named: Any) -> tuple[Any, Any]:
    bound = inspect.signature(method).bind(self, *arguments, **named)
    return bound.args[1:], bound.kwargs


def _remote_query(method: M) -> M:
    """A method that asks the server, and returns the rows of its answer."""

    @functools.wraps(method)
    def asks(self: Any, *arguments: Any, **named: Any) -> Any:
        positional, by_name = _bound(method, self, arguments, named)
        return self._remote.then(method.__name__, *positional, **by_name).run()

    return asks  # type: ignore[return-value]


def _remote_action(method: M) -> M:
    """A method that asks the server, and returns nothing."""
    asks = _remote_query(method)

    @functools.wraps(method)
    def does(self: Any, *arguments: Any, **named: Any) -> None:
        asks(self, *arguments, **named)

    return does  # type: ignore[return-value]


def _remote_creation(method: M) -> M:
    """A method that asks the server to make a table, and returns the table."""

    @functools.wraps(method)
    def clones(self: Any, *arguments: Any, **named: Any) -> Any:
        positional, by_name = _bound(method, self, arguments, named)
        remote = self._remote.then(method.__name__, *positional, **by_name)
        return RemoteDeltaTable.forName(remote.spark, remote.answer())

    return clones  # type: ignore[return-value]


def _builder_copy(method: M) -> M:
    """A method of a builder that returns a new builder, which asks for one call more."""
    adds = _builder_call(method)

    @functools.wraps(method)
    def copies(self: Any, *arguments: Any, **named: Any) -> Any:
        return adds(type(self)(self._remote), *arguments, **named)

    return copies  # type: ignore[return-value]


def _builder_call(method: M) -> M:
    """A method of a builder that adds a call to what the builder asks for."""

    @functools.wraps(method)
    def adds(self: Any, *arguments: Any, **named: Any) -> Any:
        positional, by_name = _bound(method, self, arguments, named)
        self._remote = self._remote.then(method.__name__, *positional, **by_name)
        return self

    return adds  # type: ignore[return-value]


class RemoteDeltaTable(DeltaTable):
    """A Delta table on the server of a Spark Connect session."""

    def __init__(self, remote: _RemoteCalls, plan: LogicalPlan) -> None:
        self._remote, self._plan = remote, plan

    def __repr__(self) -> str:
        return self._remote.shown("DeltaTable")

    def _repr_html_(self) -> str | None:
        """Nothing but the text: more would have to be asked of the server."""
        return None

    @classmethod
    def forPath(
        cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] = MappingProxyType({})
    ) -> DeltaTable:
        scan, calls = DeltaRelation(), Calls(path=path)
        scan.scan.table.path.path = path
        for name, value in hadoopConf.items():
            scan.scan.table.path.hadoop_conf.add(key=name, value=value)
        remote = _RemoteCalls(sparkSession, calls)
        calls.storage.CopyFrom(remote._value(hadoopConf))
        return cls._checked_table(remote, scan)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        scan = DeltaRelation()
        scan.scan.table.table_or_view_name = tableOrViewName
        return cls._checked_table(_RemoteCalls(sparkSession, Calls(name=tableOrViewName)), scan)

    @classmethod
    def _checked_table(cls, remote: _RemoteCalls, scan: Message) -> Self:
        remote.run()  # fails if it is no table
        plan = _Extension(scan)
        remote.calls.plan_ids.append(plan._plan_id)
        return cls(remote, plan)

    @classmethod
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | StructType | None = None
    ) -> DeltaTable:
        remote = _RemoteCalls(sparkSession, Calls()).then("convertToDelta", identifier, partitionSchema)
        return cls.forName(sparkSession, remote.answer())

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        return bool(_RemoteCalls(sparkSession, Calls()).then("isDeltaTable", identifier).answer())

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        return _RemoteTableBuilder(sparkSession, "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        return _RemoteTableBuilder(sparkSession, "createIfNotExists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        return _RemoteTableBuilder(sparkSession, "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        return _RemoteTableBuilder(sparkSession, "createOrReplace")

    def toDF(self) -> DataFrame:
        return ConnectDataFrame(self._plan, self._remote.spark)

    def alias(self, aliasName: str) -> DeltaTable:
        calls, plan = Calls(), SubqueryAlias(self._plan, aliasName)
        calls.CopyFrom(self._remote.calls)
        calls.alias = aliasName
        calls.plan_ids.append(plan._plan_id)
        return RemoteDeltaTable(replace(self._remote, calls=calls), plan)

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        return _RemoteMergeBuilder(self._remote.then("merge", source, condition))

    def optimize(self) -> DeltaOptimizeBuilder:
        return _RemoteOptimizeBuilder(self._remote.then("optimize"))

    delete = _remote_query(DeltaTable.delete)
    update = _remote_query(DeltaTable.update)
    reorg = _remote_query(DeltaTable.reorg)
    vacuum = _remote_query(DeltaTable.vacuum)
    history = _remote_query(DeltaTable.history)
    detail = _remote_query(DeltaTable.detail)
    restoreToVersion = _remote_query(DeltaTable.restoreToVersion)
    restoreToTimestamp = _remote_query(DeltaTable.restoreToTimestamp)
    checkKeys = _remote_query(DeltaTable.checkKeys)
    generate = _remote_action(DeltaTable.generate)
    syncIdentity = _remote_action(DeltaTable.syncIdentity)
    upgradeTableProtocol = _remote_action(DeltaTable.upgradeTableProtocol)
    addFeatureSupport = _remote_action(DeltaTable.addFeatureSupport)
    dropFeatureSupport = _remote_action(DeltaTable.dropFeatureSupport)
    clone = _remote_creation(DeltaTable.clone)
    cloneAtVersion = _remote_creation(DeltaTable.cloneAtVersion)
    cloneAtTimestamp = _remote_creation(DeltaTable.cloneAtTimestamp)


class _RemoteMergeBuilder(DeltaMergeBuilder):
    def __init__(self, remote: _RemoteCalls) -> None:
        self._remote = remote

    def __repr__(self) -> str:
        return self._remote.shown("DeltaMergeBuilder")

    whenMatchedUpdate = _builder_copy(DeltaMergeBuilder.whenMatchedUpdate)
    whenMatchedUpdateAll = _builder_copy(DeltaMergeBuilder.whenMatchedUpdateAll)
    whenMatchedDelete = _builder_copy(DeltaMergeBuilder.whenMatchedDelete)
    whenNotMatchedInsert = _builder_copy(DeltaMergeBuilder.whenNotMatchedInsert)
    whenNotMatchedInsertAll = _builder_copy(DeltaMergeBuilder.whenNotMatchedInsertAll)
    whenNotMatchedBySourceUpdate = _builder_copy(DeltaMergeBuilder.whenNotMatchedBySourceUpdate)
    whenNotMatchedBySourceDelete = _builder_copy(DeltaMergeBuilder.whenNotMatchedBySourceDelete)
    withSchemaEvolution = _builder_copy(DeltaMergeBuilder.withSchemaEvolution)
    execute = _remote_query(DeltaMergeBuilder.execute)


class _RemoteOptimizeBuilder(DeltaOptimizeBuilder):
    def __init__(self, remote: _RemoteCalls) -> None:
        self._remote = remote

    def __repr__(self) -> str:
        return self._remote.shown("DeltaOptimizeBuilder")

    where = _builder_call(DeltaOptimizeBuilder.where)
    executeCompaction = _remote_query(DeltaOptimizeBuilder.executeCompaction)
    executeZOrderBy = _remote_query(DeltaOptimizeBuilder.executeZOrderBy)


class _RemoteTableBuilder(DeltaTableBuilder):
    def __init__(self, spark: Any, creation: str) -> None:
        self._remote = _RemoteCalls(spark, Calls()).then(creation)

    def __repr__(self) -> str:
        return self._remote.shown("DeltaTableBuilder")

    tableName = _builder_call(DeltaTableBuilder.tableName)
    location = _builder_call(DeltaTableBuilder.location)
    comment = _builder_call(DeltaTableBuilder.comment)
    addColumn = _builder_call(DeltaTableBuilder.addColumn)
    addColumns = _builder_call(DeltaTableBuilder.addColumns)
    partitionedBy = _builder_call(DeltaTableBuilder.partitionedBy)
    clusterBy = _builder_call(DeltaTableBuilder.clusterBy)
    property = _builder_call(DeltaTableBuilder.property)
    execute = _remote_creation(DeltaTableBuilder.execute)
