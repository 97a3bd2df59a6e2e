"""CONVERT TO DELTA in a Spark session: what the name stands for, the session's settings, and the entry of the catalog.

The folder becomes a Delta table first, by one commit. Then the catalog's entry does. If the program ends in between,
the statement can be repeated: it finds the table and changes the entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tahoe.errors import (
    CatalogPropertiesMismatchError,
    NoCatalogPartitionError,
    NoProviderToConvertError,
    NotParquetTableError,
    OperationNotAllowedError,
    PartitionSchemaOfCatalogError,
)
from tahoe.protocol.log.actions import CONVERT
from tahoe.protocol.types.partition_folders import Partition
from tahoe.protocol.types.partitions import HIVE_NULL, partition_folder
from tahoe.protocol.types.schema import Struct
from tahoe.spark.configuration import setting_names
from tahoe.spark.ddl.catalog import catalog_table, name_not_found
from tahoe.spark.jvm.gateway import Gateway, JavaObject, author_of
from tahoe.spark.jvm.hadoop_store import is_hadoops, qualified_url, url_of_uri
from tahoe.spark.jvm.statements.catalog_entries import (
    become_delta,
    is_delta_provider,
    is_view,
    partitions_of,
    properties_of,
    provider_of,
    session_catalog,
)
from tahoe.spark.jvm.table_cache import open_table
from tahoe.spark.jvm.types import delta_schema
from tahoe.spark.layout.workers import in_workers, is_local
from tahoe.spark.writing.write_options import parse_options
from tahoe.table.adoption.convert import ConvertReport, ConvertRequest, convert
from tahoe.table.adoption.convert_footers import Examined, FooterQuestion, examined, examined_in_threads, in_batches
from tahoe.table.adoption.convert_sources import CatalogPartition
from tahoe.table.table import Table

# The footers of fewer files are read by the driver: a job would start Python workers first.
DRIVER_FILES_MAX = 4000

# Hive's property of its own, which changes by itself.
_TRANSIENT = "transient_lastDdlTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertCommand:
    """CONVERT TO DELTA name [NO STATISTICS] [PARTITIONED BY (...)]

    Attributes:
        parts: of a name in the session's catalog, or of parquet.`path`.
        partition_schema: None if the statement has none.
    """

    parts: Sequence[str]
    partition_schema: StructType | None = None
    statistics: bool = True


def convert_to_delta(spark: SparkSession, command: ConvertCommand) -> str:
    """Run CONVERT TO DELTA. A Delta table stays as it is.

    Returns:
        the location of the table.

    Raises:
        TableNameNotFoundError: the catalog does not have the name.
        NoProviderToConvertError, NotParquetTableError: the name is a path without a format, or of another format.
        OperationNotAllowedError: the name is of a view.
        PartitionSchemaOfCatalogError, NoCatalogPartitionError, CatalogPropertiesMismatchError: the catalog says
            something else. and the errors of `tahoe.table.adoption.convert.convert`
    """
    gateway, parts = Gateway(spark), list(command.parts)
    entry, name = catalog_table(gateway, parts), ".".join(parts)
    if session_catalog(gateway).isTempView(gateway.seq(parts)) or (entry is not None and is_view(entry)):
        detail = f"{name} is a view"
        raise OperationNotAllowedError(
            operation=CONVERT_TO_DELTA, table=name, detail=detail, remedy="Convert the table that it reads."
        )
    if entry is None:
        return _convert_path(gateway, command, parts)
    provider, location = provider_of(entry), url_of_uri(gateway, entry.location())
    if not is_delta_provider(provider):
        _check_provider(provider, name)
        _convert_entry(gateway, command, entry, location)
    return location


CONVERT_TO_DELTA = "CONVERT TO DELTA"


def _check_provider(provider: str, name: str) -> None:
    if provider != "parquet":
        remedy = "Read it with Spark and write it in the format delta."
        raise NotParquetTableError(table=name, sourceName=provider, remedy=remedy)


def _convert_path(gateway: Gateway, command: ConvertCommand, parts: list[str]) -> str:
    """Convert the folder of parquet.`path`, and check that delta.`path` is a table. Returns the location. A name
    without a slash is one that the catalog does not have.
    """
    if "/" not in parts[-1] or len(parts) > 2:
        raise name_not_found(gateway, ".".join(parts))
    if len(parts) == 1:
        raise NoProviderToConvertError(table=parts[0])
    provider, path = parts[0].lower(), parts[1]
    table = open_table(gateway.spark, path)
    if is_delta_provider(provider):
        table.snapshot()  # says so if there is not a Delta table
        return table.url
    _check_provider(provider, path)
    partition = command.partition_schema
    columns = Struct(()) if partition is None else delta_schema(partition, table=table.url)
    _convert(
        gateway,
        table,
        replace(request_of_session(gateway, table, statistics=command.statistics), partition_schema=columns),
    )
    return table.url


def _convert(gateway: Gateway, table: Table, request: ConvertRequest) -> ConvertReport:
    return convert(table, request, examiner=partial(examined_in, gateway.spark))


# --- a table of the catalog


def _convert_entry(gateway: Gateway, command: ConvertCommand, entry: JavaObject, location: str) -> None:
    table, name = open_table(gateway.spark, location), str(entry.identifier().unquotedString())
    _check_partition_schema(command, _columns_of(gateway, entry, name)[1], name)
    if table.exists():
        _take_properties(gateway, table, _properties_of(gateway, entry), name)
    else:
        _convert(gateway, table, request_of_entry(gateway, table, entry, statistics=command.statistics))
    become_delta(gateway, entry)


def request_of_entry(gateway: Gateway, table: Table, entry: JavaObject, *, statistics: bool = True) -> ConvertRequest:
    """What the session's catalog and settings say of a Parquet table: its columns, partitions and properties."""
    settings, name = gateway.settings(), str(entry.identifier().unquotedString())
    by_catalog = setting_names.CONVERT_USES_PARTITIONS.of(settings, table=table.url)
    columns, partition = _columns_of(gateway, entry, name)
    return replace(
        request_of_session(gateway, table, statistics=statistics),
        partition_schema=partition,
        schema=columns if by_catalog and setting_names.CONVERT_USES_SCHEMA.of(settings, table=table.url) else None,
        partitions=_partitions(gateway, entry, partition, table.url) if by_catalog else None,
        properties=_properties_of(gateway, entry),
        catalog_table=name,
    )


def _columns_of(gateway: Gateway, entry: JavaObject, name: str) -> tuple[Struct, Struct]:
    """All columns of a table, and its partition columns."""
    columns = delta_schema(gateway.schema(entry.schema()), table=name)
    partitioned_by = {str(column) for column in gateway.items(entry.partitionColumnNames().iterator())}
    return columns, Struct(tuple(column for column in columns if column.name in partitioned_by))


def _properties_of(gateway: Gateway, entry: JavaObject) -> dict[str, str]:
    return {key: value for key, value in properties_of(gateway, entry).items() if key != _TRANSIENT}


def _check_partition_schema(command: ConvertCommand, partition: Struct, name: str) -> None:
    if command.partition_schema is None:
        return
    partition_schema = delta_schema(command.partition_schema, table=name)
    if [(f.name.lower(), f.type) for f in partition_schema] != [(f.name.lower(), f.type) for f in partition]:
        raise PartitionSchemaOfCatalogError(
            table=name,
            catalogPartitionSchema=_column_list(partition),
            userPartitionSchema=_column_list(partition_schema),
        )


def _column_list(columns: Struct) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns) or "none"


def _partitions(gateway: Gateway, entry: JavaObject, columns: Struct, location: str) -> list[CatalogPartition]:
    """The folders of the catalog's partitions; of a table without partitions, the table's own folder."""
    if not len(columns):
        return [CatalogPartition(url=location, partition=())]
    partitions = []
    for values, place in partitions_of(gateway, entry):
        partition: Partition = tuple(
            (name, None if values[name] in ("", HIVE_NULL) else values[name]) for name in columns.names
        )
        url = (
            f"{location}/{partition_folder(columns.names, dict(partition))}"
            if place is None
            else qualified_url(gateway, place)
        )
        partitions.append(CatalogPartition(url=url, partition=partition))
    if not partitions:
        raise NoCatalogPartitionError(table=entry.identifier().unquotedString())
    return partitions


def _take_properties(gateway: Gateway, table: Table, properties: dict[str, str], name: str) -> None:
    """Give a Delta table the properties of the catalog, whose entry still says that it is a Parquet table."""
    table_properties = table.snapshot().properties
    if {**table_properties, **properties} == dict(table_properties):
        return
    if table_properties and setting_names.CONVERT_CHECKS_METADATA.of(gateway.settings(), table=name):
        raise CatalogPropertiesMismatchError(
            table=name,
            configuration=dict(table_properties),
            tableProperties=properties,
            metadataCheckSqlConf=setting_names.CONVERT_CHECKS_METADATA.name,
        )
    with table.transaction(operation=CONVERT, **author_of(gateway.spark)) as changes:
        changes.set_properties(properties)


# --- the session


def request_of_session(gateway: Gateway, table: Table, *, statistics: bool = True) -> ConvertRequest:
    """What the session's settings say of any folder of Parquet files."""
    settings, url = gateway.settings(), table.url
    options = parse_options({}, settings, table=url)
    return ConvertRequest(
        statistics=statistics and setting_names.COLLECT_STATISTICS.of(settings, table=url),
        statistics_setting=setting_names.COLLECT_STATISTICS.name,
        uses_sink_log=setting_names.CONVERT_USES_SINK_LOG.of(settings, table=url),
        skips_unreadable=setting_names.IGNORES_CORRUPT.of(settings, table=url),
        unfit_becomes_null=setting_names.CONVERT_NULLS.of(settings, table=url),
        default_properties=options.default_properties,
        **author_of(gateway.spark),
    )


def examined_in(
    spark: SparkSession, question: FooterQuestion, keys: Sequence[str]
) -> Iterable[Examined | BaseException]:
    """Examine files where it is fastest: in threads of the driver, or many files on a cluster in Python workers."""
    if len(keys) <= DRIVER_FILES_MAX or is_local(spark) or is_hadoops(question.store.url):
        return examined_in_threads(question, keys)
    results = in_workers(spark, partial(examined, question), in_batches(keys), table=question.store.url)
    return examined_in_threads(question, keys) if results is None else itertools.chain.from_iterable(results)
