"""Creates the relation of a table when Spark analyses a query, and selects the files to read when Spark plans it.

A relation that is not pinned to a version reads the newest version each time a query is planned. One query reads one
version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tahoe.errors import InvalidOptionError, SchemaChangedError
from tahoe.events.listeners import now
from tahoe.protocol.configuration.row_tracking import METADATA
from tahoe.protocol.types.column_metadata import collations_of
from tahoe.protocol.types.schema import Array, DataType, Field, Map, Struct, parse_schema
from tahoe.spark.configuration.option_names import OptionContext, warn_of_unknown
from tahoe.spark.jvm.attached_catalogs import block_of
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.native_engine import runs_natively
from tahoe.spark.jvm.plans import dataset
from tahoe.spark.jvm.statements.time_travel import session_moment, target_of_options
from tahoe.spark.jvm.table_cache import (
    held_snapshot,
    holds_marked,
    key_of,
    metadata_identity,
    open_table,
    remember,
    scan_of,
    settings_of_scan,
    snapshot_of,
    table_finder,
    table_of_key,
)
from tahoe.spark.jvm.types import check_geospatial, visible_schema
from tahoe.spark.reading import answers, change_feed, limits
from tahoe.spark.reading.data_files import is_plain, mapped_columns
from tahoe.spark.reading.deletion_vectors import marked_rows, unmarked_rows
from tahoe.spark.reading.filters import predicate_of
from tahoe.spark.reading.metadata_columns import Output, output_of
from tahoe.spark.reading.native import fallback
from tahoe.spark.reading.scan import Reader, has_vectors, label_of, message_of, partition_schema, relation_of
from tahoe.table.reading.scan import Scan, told_plan
from tahoe.table.reading.snapshot import Snapshot

# --- analysis


def relation(
    gateway: Gateway, options: Mapping[str, str], java_options: JavaObject, *, warns: bool = True
) -> JavaObject:
    """The relation for `spark.read.format("delta").options(...).load(path)`, and for a catalog's table.

    Args:
        java_options: the options as Spark passed them, which the relation must keep.
        warns: whether to warn about options that have no effect on a read.

    Raises:
        TableNotFoundError, NotADeltaTableError, VersionNotFoundError, ...: the table or version does not exist.
    """
    by_name = {name.lower(): value for name, value in options.items()}
    path = by_name.get("path")
    if not path:
        raise InvalidOptionError(
            option="path", value="missing", table="the reader", detail="reading a Delta table requires one path"
        )
    if warns:
        warn_of_unknown(options, OptionContext.READ, table=path)
    if change_feed.is_asked_for(by_name, path):
        return change_feed.relation(gateway, path, options, java_options)
    target = target_of_options(session_moment(gateway), table_finder(gateway.spark, options), path, options)
    snapshot = remember(target.snapshot(open_table(gateway.spark, target.location, options)))
    key = key_of(snapshot.url, options, block_of(gateway))
    return relation_of(gateway, snapshot, java_options, pinned=target.is_pinned, key=key)


# --- planning


@dataclass(frozen=True, slots=True)
class AnalysedTable:
    """A table as of a query's analysis.

    Attributes:
        table: its key, from `key_of`.
        metadata: its `metadata_identity` at analysis.
        partitions: its partition columns at analysis, as a schema's JSON.
        name: the table's name in a catalog, or empty.
        within: limits the files, from `within_text`; None for all files.
    """

    table: str
    metadata: str
    partitions: str
    name: str
    within: str | None


# How the types of geometries and geographies begin in the JSON of a schema.
_GEOSPATIAL = '"geo'


def plan_scan(
    gateway: Gateway,
    analysed: AnalysedTable,
    version: int,
    data: str,
    output: str,
    filters: str,
    limit: str,
    options: Mapping[str, str],
) -> JavaObject:
    """Plan how one query reads a table: a `delta.Planned`.

    Args:
        version: the version that the query reads already, or -1.
        data: the relation's schema after column pruning, as JSON.
        output: the relation's columns that the query uses, with `_metadata` if it is requested, as a schema's JSON.
        filters: a JSON array of conditions that hold for every row that the query uses.
        limit: how many of these rows the query needs, and which, as `delta.Limit` describes it in JSON; empty for all
            of them.
        options: of the relation, if there is a limit.

    Raises:
        SchemaChangedError: the newest version does not have the columns with which the query was analysed.
        UnsupportedOperationError: this Spark does not read a type of the columns.
    """
    begun, reader = now(), _reader(gateway, analysed, version, data, output, filters)
    if _GEOSPATIAL in output and _scan(reader).kept_files:
        check_geospatial(gateway.spark, parse_schema(output), "Reading", table=reader.snapshot.url)
    if limit:
        reader = _with_limit(reader, limit, options)
    planned = _java_plan(reader, output)
    purpose = "rows" if reader.purpose is None else "limit"
    told_plan(reader.snapshot.version, [_scan(reader)], begun, engine="spark", purpose=purpose)
    return planned


def _with_limit(reader: Reader, limit_json: str, options: Mapping[str, str]) -> Reader:
    """Creates scans of the files that a limit needs. Of all files, if it needs all: equal scans have equal
    selections.
    """
    limit = limits.limit_of(limit_json, reader.predicate) if limits.are_wanted(reader.gateway, options) else None
    without_limit = scan_of(reader.snapshot, reader.predicate)
    is_smaller = limit is not None and scan_of(reader.snapshot, reader.predicate, None, limit) is not without_limit
    return replace(reader, purpose=limit) if is_smaller else reader


def answer(
    gateway: Gateway,
    analysed: AnalysedTable,
    version: int,
    options: Mapping[str, str],
    data: str,
    output: str,
    filters: str,
    aggregation: str,
) -> JavaObject:
    """Answer an aggregation over a table from its log, as far as the log decides it: a `delta.Answered`. Nothing is
    read for it.

    Args:
        options: of the relation.
        data, output, filters: in JSON, schemas and conditions as in `plan_scan`. The filters are all that select the
            aggregated rows.
        aggregation: as `delta.Question` describes it, in JSON.

    Raises:
        SchemaChangedError: as for `plan_scan`.
    """
    begun, reader = now(), _reader(gateway, analysed, version, data, output, filters)
    log_answer = answers.answer_from_log(reader, aggregation) if answers.are_wanted(gateway, options) else None
    java_answer, version = gateway.java_class("delta.Answered"), reader.snapshot.version
    if log_answer is None:
        return java_answer(version, None, "", "", False, "", None)  # no rows: the log does not answer
    rest = replace(reader, purpose=log_answer.question)  # leaves out the files that the log has answered
    rest_plan = _java_plan(rest, output) if log_answer.left.kept_files else None
    told_plan(version, [log_answer.left], begun, engine="spark", purpose="aggregate")
    return java_answer(
        version, message_of(log_answer.rows), *log_answer.shape, log_answer.label(reader.name), rest_plan
    )


def _reader(gateway: Gateway, analysed: AnalysedTable, version: int, data: str, output: str, filters: str) -> Reader:
    """Creates the scans of the version that a query reads."""
    table = table_of_key(gateway.spark, analysed.table)
    if analysed.within is not None:
        snapshot = held_snapshot(analysed.within)
    else:
        snapshot = remember(table.snapshot()) if version < 0 else snapshot_of(table, version)
    identity = metadata_identity(snapshot)
    if identity != analysed.metadata:
        _check_fits(snapshot, data, analysed.partitions)
    name, predicate = analysed.name or snapshot.url, predicate_of(filters)
    reader = Reader(
        gateway, analysed.table, snapshot, name, identity, analysed.partitions, data, predicate, analysed.within
    )
    if not runs_natively(gateway):
        return reader
    names = {column["name"] for column in output_of(output, None).columns}
    mapped = None if is_plain(snapshot) else mapped_columns(gateway, snapshot, analysed.partitions, data, names)
    if isinstance(mapped, str):
        return replace(reader, fallback=mapped)
    reason = fallback(reader, names)
    return replace(reader, fallback=reason) if reason else replace(reader, is_native=True, mapped=mapped)


def _scan(reader: Reader) -> Scan:
    return scan_of(reader.snapshot, reader.predicate, reader.within, reader.purpose)


def _java_plan(reader: Reader, output: str) -> JavaObject:
    """A `delta.Planned`: a selection of files if Spark's own scan of them returns the rows; else a plan that applies
    deletion vectors, computes hidden columns or renames columns.
    """
    gateway, snapshot, within, scan = reader.gateway, reader.snapshot, reader.within, _scan(reader)
    java_planned = gateway.java_class("delta.Planned")
    query_output = _output(snapshot, output)
    reads_vectors = has_vectors(scan)
    if not reads_vectors and not query_output.is_hidden and reader.mapped is None:
        selection, label = reader.selection("all"), label_of(reader.name, scan, "all", is_native=reader.is_native)
        files = snapshot.version, reader.identity, selection, scan.size_bytes, label, reader.form, None
        settings = settings_of_scan(gateway, reader.key)
        return java_planned(*files, reader.is_native, gateway.scala_map(settings) if settings else None)
    if reads_vectors:
        is_marked = within is not None and holds_marked(within)
        rows = marked_rows(reader, scan, query_output) if is_marked else unmarked_rows(reader, scan, query_output)
    else:
        rows = reader.rows(scan, "all", scan.size_bytes, query_output)
    return java_planned(snapshot.version, reader.identity, "", 0, "", None, dataset(rows), reader.is_native, None)


def _output(snapshot: Snapshot, output: str) -> Output:
    """The query's output columns. Refuses row tracking fields if row tracking was disabled after the query's
    analysis.
    """
    query_output = output_of(output, snapshot.row_tracking)
    if query_output.tracking_fields and query_output.tracking is None:
        raise SchemaChangedError(
            table=snapshot.url, version=snapshot.version, changed=f"{METADATA}.{query_output.tracking_fields[0]}"
        )
    return query_output


def _check_fits(snapshot: Snapshot, data: str, partitions: str) -> None:
    """Refuse a version in which a column that the query uses is missing or changed, or the partition columns have
    changed.
    """
    current = visible_schema(snapshot.schema)
    changed = _first_change(parse_schema(data), current, ())
    if changed is None and parse_schema(partitions).names != partition_schema(snapshot, current).names:
        changed = "the partitioning"
    if changed is not None:
        raise SchemaChangedError(table=snapshot.url, version=snapshot.version, changed=changed)


def _first_change(before: DataType, now: DataType, path: tuple[str, ...]) -> str | None:
    """The path of the first part of a (possibly pruned) type that is missing or different in another type; None if
    there is none.
    """
    match before, now:
        case Struct(), Struct():
            return next(
                (change for f in before if (change := _field_change(f, now.find(f.name), (*path, f.name)))), None
            )
        case Array(), Array():
            inside = _first_change(before.element, now.element, (*path, "element"))
            return inside or (".".join(path) if now.contains_null and not before.contains_null else None)
        case Map(), Map():
            inside = _first_change(before.key, now.key, (*path, "key")) or _first_change(
                before.value, now.value, (*path, "value")
            )
            return inside or (".".join(path) if now.value_contains_null and not before.value_contains_null else None)
        case _:
            return None if before == now else ".".join(path)


def _field_change(before: Field, now: Field | None, path: tuple[str, ...]) -> str | None:
    if now is None or (now.nullable and not before.nullable):
        return ".".join(path)
    if collations_of(before.metadata) != collations_of(now.metadata):
        return ".".join(path)
    return _first_change(before.type, now.type, path)
