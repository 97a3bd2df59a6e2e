"""Implements `delta.Python`: one method per question that Java asks.

A method returns a value, or a Java exception for the Python exception that was raised. This module makes no decisions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from tahoe.spark.api import changes_clause, commands, statements, table_functions
from tahoe.spark.ddl import alter_table, catalog, guard, show_describe, table_names, views
from tahoe.spark.jvm import attached_catalogs
from tahoe.spark.jvm.attached_catalogs import AttachedName
from tahoe.spark.jvm.cancellation import interruptible
from tahoe.spark.jvm.connect_mode import as_server
from tahoe.spark.jvm.failures import to_java
from tahoe.spark.jvm.gateway import Gateway, JavaObject, returned
from tahoe.spark.jvm.plans import dataset
from tahoe.spark.jvm.table_cache import table_of_key
from tahoe.spark.layout.auto_compaction import writing_command
from tahoe.spark.reading import change_feed, data_files, joins, planning, scan
from tahoe.spark.streams import sink, source
from tahoe.spark.writing.write_options import has_auto_merge

M = TypeVar("M", bound=Callable[..., Any])


def _answering(method: M) -> M:
    """Make a method return errors as Java exceptions, also where the process is a client of Spark Connect too."""

    @functools.wraps(method)
    def answer(self: Source, *arguments: Any) -> Any:
        try:
            with as_server(), interruptible():
                return returned(method(self, *arguments))
        except BaseException as error:
            return returned(to_java(self.jvm, error))

    return answer  # type: ignore[return-value]


class Source:
    """The implementation of `delta.Python`. It holds the JVM but no session: each question names its session, or the
    active one is used.
    """

    def __init__(self, jvm: JavaObject) -> None:
        self.jvm = jvm

    @_answering
    def relation(self, session: JavaObject, options: JavaObject, given: JavaObject) -> JavaObject:
        gateway = Gateway.of(session)
        return planning.relation(gateway, gateway.texts(options), given)

    @_answering
    def plan(
        self,
        session: JavaObject,
        table: str,
        metadata: str,
        partitions: str,
        name: str,
        within: str | None,
        version: int,
        data: str,
        output: str,
        filters: str,
        limit: str,
        options: JavaObject,
    ) -> JavaObject:
        gateway, analysed = Gateway.of(session), planning.AnalysedTable(table, metadata, partitions, name, within)
        return planning.plan_scan(
            gateway, analysed, version, data, output, filters, limit, gateway.texts(options) if limit else {}
        )

    @_answering
    def answer(
        self,
        session: JavaObject,
        table: str,
        metadata: str,
        partitions: str,
        name: str,
        version: int,
        options: JavaObject,
        *query: str,
    ) -> JavaObject:
        gateway = Gateway.of(session)
        analysed = planning.AnalysedTable(table, metadata, partitions, name, None)
        return planning.answer(gateway, analysed, version, gateway.texts(options), *query)

    @_answering
    def joins(self, session: JavaObject, told: str) -> str:
        return joins.prunings(Gateway.of(session), told)

    @_answering
    def ordinalsWithout(  # noqa: N802  Java's name
        self, table: str, metadata: str, version: int, selection: str, column: str, keys: bytes
    ) -> bytes:
        return joins.ordinals_without(
            Gateway.active(), scan.FilesRequest(table, metadata, version, selection, ()), column, keys
        )

    @_answering
    def changes(self, session: JavaObject, table: str, versions: str, name: str, *query: str) -> JavaObject:
        return change_feed.plan_change_feed(Gateway.of(session), table, versions, name, *query)

    @_answering
    def files(
        self, table: str, metadata: str, version: int, pinned: bool, selection: str | None, columns: str, filters: str
    ) -> bytes | str:
        request = scan.FilesRequest(
            table, metadata, version if pinned else None, selection, tuple(columns.split("\0")) if columns else ()
        )
        return scan.files_message(Gateway.active(), request, filters)

    @_answering
    def inputs(self, table: str, metadata: str, version: int, pinned: bool, selection: str | None) -> str:
        request = scan.FilesRequest(table, metadata, version if pinned else None, selection, ())
        return "\0".join(scan.input_files(Gateway.active(), request))

    @_answering
    def newest(self, table: str) -> int:
        return table_of_key(Gateway.active().spark, table).version

    @_answering
    def physical(self, table: str, required: str) -> str:
        return data_files.physical_schema_json(table, required)

    @_answering
    def entry(self, session: JavaObject, location: str, at: str) -> JavaObject:
        return catalog.entry(Gateway.of(session), location, at)

    @_answering
    def exists(self, session: JavaObject, path: str) -> bool:
        return catalog.path_exists(Gateway.of(session), path)

    @_answering
    def attachedTable(self, session: JavaObject, name: str, schema: str, table: str) -> str | None:  # noqa: N802  Java's name
        return attached_catalogs.table_url(Gateway.of(session), AttachedName(name, schema, table))

    @_answering
    def attachedTables(self, session: JavaObject, name: str, schema: str) -> str:  # noqa: N802  Java's name
        return "\0".join(attached_catalogs.tables(Gateway.of(session), name, schema))

    @_answering
    def attachedView(self, session: JavaObject, *name: str) -> str | None:  # noqa: N802  Java's name
        return views.told(Gateway.of(session), AttachedName(*name))

    @_answering
    def attachedViews(self, session: JavaObject, name: str, schema: str) -> str:  # noqa: N802  Java's name
        return "\0".join(views.names(Gateway.of(session), name, schema))

    @_answering
    def makeView(  # noqa: N802  Java's name
        self, session: JavaObject, name: str, schema: str, view: str, told: str, replaces: bool
    ) -> bool:
        return views.make(Gateway.of(session), AttachedName(name, schema, view), told, replaces=replaces)

    @_answering
    def dropView(self, session: JavaObject, *name: str) -> bool:  # noqa: N802  Java's name
        return views.drop(Gateway.of(session), AttachedName(*name))

    @_answering
    def attachedSchemas(self, session: JavaObject, name: str) -> str:  # noqa: N802  Java's name
        return "\0".join(attached_catalogs.schemas(Gateway.of(session), name))

    @_answering
    def createSchema(self, session: JavaObject, name: str, schema: str, comment: str | None) -> None:  # noqa: N802  Java's name
        table_names.create_schema(Gateway.of(session), name, schema, comment)

    @_answering
    def dropSchema(self, session: JavaObject, name: str, schema: str, cascade: bool) -> None:  # noqa: N802  Java's name
        table_names.drop_schema(Gateway.of(session), name, schema, cascade=cascade)

    @_answering
    def dropAttached(self, session: JavaObject, *name: str) -> None:  # noqa: N802  Java's name
        table_names.drop_table(Gateway.of(session), AttachedName(*name))

    @_answering
    def renameAttached(  # noqa: N802  Java's name
        self, session: JavaObject, name: str, schema: str, table: str, new_schema: str, new_table: str
    ) -> None:
        new = AttachedName(name, new_schema, new_table)
        table_names.rename_table(Gateway.of(session), AttachedName(name, schema, table), new)

    @_answering
    def isDelta(self, session: JavaObject, name: str) -> bool:  # noqa: N802  Java's name
        return catalog.names_delta_table(Gateway.of(session), name.split("\0"))

    @_answering
    def autoMerges(self, session: JavaObject) -> bool:  # noqa: N802  Java's name
        return has_auto_merge(Gateway.of(session).settings())

    @_answering
    def command(self, session: JavaObject, name: str, plan: JavaObject) -> JavaObject | None:
        return commands.instead_of(Gateway.of(session), name, plan)

    @_answering
    def readsFiles(self, session: JavaObject, path: str, table: str) -> None:  # noqa: N802  Java's name
        guard.check_read(Gateway.of(session).settings(), path, table)

    @_answering
    def refusesPath(self, kind: str, path: str) -> None:  # noqa: N802  Java's name
        guard.refuse_path(kind, path)

    @_answering
    def run(self, session: JavaObject, plan: JavaObject) -> JavaObject:
        with writing_command(gateway := Gateway.of(session)):
            return commands.run_command(gateway, plan)

    @_answering
    def save(
        self, session: JavaObject, mode: str, options: JavaObject, given: JavaObject, data: JavaObject
    ) -> JavaObject:
        with writing_command(gateway := Gateway.of(session)):
            return commands.save(gateway, mode, gateway.texts(options), given, data)

    @_answering
    def streamSchema(self, session: JavaObject, options: JavaObject) -> str:  # noqa: N802  Java's name
        gateway = Gateway.of(session)
        return source.schema(gateway, gateway.texts(options))

    @_answering
    def streamRelation(  # noqa: N802  Java's name
        self, session: JavaObject, options: JavaObject, given: JavaObject, alone: bool
    ) -> JavaObject | None:
        gateway = Gateway.of(session)
        return source.metadata_relation(gateway, gateway.texts(options), given, is_alone=alone)

    @_answering
    def streamSource(  # noqa: N802  Java's name
        self,
        session: JavaObject,
        options: JavaObject,
        given: JavaObject,
        checkpoint: str,
        analysed: str | None,
        query: str,
    ) -> JavaObject:
        gateway = Gateway.of(session)
        return source.open_source(gateway, gateway.texts(options), given, source.Query(checkpoint, analysed, query))

    @_answering
    def streamUntilNow(self, number: str) -> None:  # noqa: N802  Java's name
        source.until_now(number)

    @_answering
    def streamEnd(self, number: str, start: str | None, files: int, size: int) -> str | None:  # noqa: N802  Java's name
        return source.end(number, start, files, size)

    @_answering
    def streamBatch(self, number: str, start: str | None, stop: str) -> JavaObject:  # noqa: N802  Java's name
        return source.batch(number, start, stop)

    @_answering
    def streamCommitted(self, number: str, end: str) -> None:  # noqa: N802  Java's name
        source.committed(number, end)

    @_answering
    def streamNewest(self, number: str) -> str | None:  # noqa: N802  Java's name
        return source.newest(number)

    @_answering
    def streamMetrics(self, number: str, consumed: str | None) -> JavaObject:  # noqa: N802  Java's name
        return source.metrics(number, consumed)

    @_answering
    def streamStopped(self, number: str) -> None:  # noqa: N802  Java's name
        source.stopped(number)

    @_answering
    def streamSink(self, session: JavaObject, options: JavaObject, mode: str) -> None:  # noqa: N802  Java's name
        gateway = Gateway.of(session)
        sink.check_sink(gateway, gateway.texts(options), mode)

    @_answering
    def streamWrite(  # noqa: N802  Java's name
        self,
        session: JavaObject,
        options: JavaObject,
        partitions: str,
        mode: str,
        query: str,
        batch: int,
        rows: JavaObject,
    ) -> None:
        with writing_command(gateway := Gateway.of(session)):
            sink.write_microbatch(gateway, gateway.texts(options), partitions, mode, query, batch, rows)

    @_answering
    def insert(self, session: JavaObject, table: str, selection: str | None, data: JavaObject, overwrite: bool) -> None:
        with writing_command(gateway := Gateway.of(session)):
            commands.insert(gateway, table, selection, data, overwrite)

    @_answering
    def properties(self, session: JavaObject, table: JavaObject) -> JavaObject:
        return show_describe.properties(Gateway.of(session), table)

    @_answering
    def constraints(self, session: JavaObject, table: JavaObject) -> JavaObject:
        return show_describe.constraints(Gateway.of(session), table)

    @_answering
    def alter(self, session: JavaObject, table: JavaObject, changes: JavaObject) -> None:
        with writing_command(gateway := Gateway.of(session)):
            alter_table.alter(gateway, table, changes)

    @_answering
    def create(self, session: JavaObject, staged: JavaObject) -> None:
        with writing_command(gateway := Gateway.of(session)):
            commands.create(gateway, staged)

    @_answering
    def statement(self, parser_beneath: JavaObject, text: str, parameters: JavaObject | None) -> JavaObject | None:
        return statements.plan_statement(Gateway.active(), parser_beneath, text, parameters)

    @_answering
    def perform(self, session: JavaObject, text: str, values: JavaObject, condition: JavaObject | None) -> JavaObject:
        with writing_command(gateway := Gateway.of(session)):
            return statements.perform(gateway, text, values, condition)

    @_answering
    def explain(self, session: JavaObject, text: str, values: JavaObject, condition: JavaObject | None) -> str:
        return statements.explain(Gateway.of(session), text, values, condition)

    @_answering
    def rowsOf(self, session: JavaObject, function: str, home: str, arguments: JavaObject) -> JavaObject:  # noqa: N802  Java's name
        within = tuple(home.split("\0")) if home else ()
        return dataset(table_functions.rows_of(Gateway.of(session), function, within, arguments))

    @_answering
    def changesClause(self, session: JavaObject, home: str, changes: JavaObject) -> JavaObject | None:  # noqa: N802  Java's name
        within = tuple(home.split("\0")) if home else ()
        rows = changes_clause.rows_of(Gateway.of(session), changes, within)
        return None if rows is None else dataset(rows)

    @_answering
    def clientRelation(self, session: JavaObject, planner: JavaObject, message: bytes) -> JavaObject | None:  # noqa: N802  Java's name
        from tahoe.spark.api.connect import answers as connect_answers  # noqa: PLC0415 - needs protobuf, which only servers of Spark Connect have

        return connect_answers.plan_message(Gateway.of(session), planner, message)

    @_answering
    def clientCommand(self, session: JavaObject, message: bytes) -> bool:  # noqa: N802  Java's name
        from tahoe.spark.api.connect import answers as connect_answers  # noqa: PLC0415 - as above

        return connect_answers.run_message(Gateway.of(session), message)

    class Java:
        implements: ClassVar = ["delta.Python"]
