"""Sources of CLONE that are not Delta tables: parquet.`/path`, iceberg.`/path`, and tables of these formats in the
session's catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tahoe.protocol.types.partition_folders import partition_of
from tahoe.protocol.types.schema import STRING, Field, Struct
from tahoe.spark.ddl.catalog import catalog_table
from tahoe.spark.ddl.conversion import examined_in, request_of_entry, request_of_session
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.hadoop_store import url_of_uri
from tahoe.spark.jvm.statements.catalog_entries import is_view, properties_of, provider_of, session_catalog
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.jvm.types import delta_schema
from tahoe.table.adoption.convert import ConvertRequest
from tahoe.table.adoption.convert_sources import source_files
from tahoe.table.adoption.foreign_sources import ForeignSource, ParquetSource
from tahoe.table.adoption.iceberg_source import IcebergSource
from tahoe.table.table import Table

_PARQUET, _ICEBERG = "parquet", "iceberg"

# Where a catalog keeps the place of an Iceberg table's newest metadata.
_METADATA_LOCATION = "metadata_location"


def foreign_source(gateway: Gateway, parts: Sequence[str]) -> ForeignSource | None:
    """The source that a name stands for; None if it is none of these formats."""
    if len(parts) == 2 and "/" in parts[1]:
        return _source_at(gateway, parts[0].lower(), parts[1])
    entry = None if session_catalog(gateway).isTempView(gateway.seq(parts)) else catalog_table(gateway, list(parts))
    return None if entry is None or is_view(entry) else _source_of_entry(gateway, entry)


def _source_at(gateway: Gateway, provider: str, path: str) -> ForeignSource | None:
    name = f"{provider}.`{path}`"
    if provider == _PARQUET:
        table = open_table(gateway.spark, path)
        request = request_of_session(gateway, table)
        return _parquet(
            gateway, table, name, replace(request, partition_schema=_partition_columns(gateway, table, request))
        )
    return IcebergSource.at(open_table(gateway.spark, path), name) if provider == _ICEBERG else None


def _source_of_entry(gateway: Gateway, entry: JavaObject) -> ForeignSource | None:
    provider, name = provider_of(entry), str(entry.identifier().unquotedString())
    if provider == _PARQUET:
        table = open_table(gateway.spark, url_of_uri(gateway, entry.location()))
        return _parquet(gateway, table, name, request_of_entry(gateway, table, entry))
    if provider == _ICEBERG:
        place = properties_of(gateway, entry).get(_METADATA_LOCATION) or url_of_uri(gateway, entry.location())
        return IcebergSource.at(open_table(gateway.spark, place), name)
    return None


def _parquet(gateway: Gateway, table: Table, name: str, request: ConvertRequest) -> ParquetSource:
    """A clone gets no properties from the session, as a clone of a Delta table gets none."""
    without_defaults = replace(request, default_properties={})
    return ParquetSource(table=table, name=name, request=without_defaults, examiner=partial(examined_in, gateway.spark))


def _partition_columns(gateway: Gateway, table: Table, request: ConvertRequest) -> Struct:
    """The partition columns of a folder, with the types that Spark gives them."""
    files = source_files(table.env.store, uses_sink_log=request.uses_sink_log, partitions=None)
    names = [name for name, _ in partition_of(files[0].folder)] if files else []
    if not names:
        return Struct(())
    found = delta_schema(gateway.spark.read.schema("`` INT").parquet(table.url).schema, table=table.url)
    return Struct(tuple(found.find(name) or Field(name=name, type=STRING) for name in names))
