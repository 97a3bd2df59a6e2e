"""Plans a write before any row is written: the checks, and the protocol and metadata of the table after the write.

Protocol: "Actions", "Table Features for New and Existing Tables". Invalid input fails before any work is done.
`WritePlan.commit` takes the data files that were written. Spark and the Arrow writer share this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tahoe.errors import (
    ColumnNotFoundError,
    DuplicateDataColumnsError,
    DuplicatePartitionColumnsError,
    InvalidColumnNameError,
    InvalidOptionError,
    InvalidPredicateError,
    PartitionMismatchError,
    PathIsFileError,
    PathIsNotEmptyError,
    TableExistsError,
    UnsupportedDataTypeError,
)
from tahoe.protocol.changes.column_values import as_declared, check_new_columns
from tahoe.protocol.configuration.bloom_filter_columns import checked_filters, filtered_columns
from tahoe.protocol.configuration.bloom_filters import encode_bloom_filters
from tahoe.protocol.configuration.column_mapping import (
    MAX_COLUMN_ID,
    assign_mapping,
    highest_id,
    mapping_mode,
    with_columns_of,
)
from tahoe.protocol.configuration.declared_keys import keys_for
from tahoe.protocol.configuration.feature_upgrade import (
    needed_features,
    properties_for,
    protocol_for_new_table,
    split_features,
    upgrade,
    upgrade_for,
)
from tahoe.protocol.configuration.features import check_writable, iceberg_compat, numbers_nested
from tahoe.protocol.configuration.properties import BLOOM_FILTERS, STATS_COLUMNS, normalise
from tahoe.protocol.configuration.row_tracking import MATERIALISED, with_materialised_columns
from tahoe.protocol.configuration.universal_format import check_formats, has_iceberg, with_needed_properties
from tahoe.protocol.log.actions import DomainMetadata, Metadata, Protocol
from tahoe.protocol.log.copied_files import CopiedFiles, taken_over
from tahoe.protocol.statistics import clustering
from tahoe.protocol.statistics.clustering import check_clustering, clustering_columns, clustering_domain
from tahoe.protocol.statistics.listed_columns import check_listed, without_unusable
from tahoe.protocol.statistics.skipping import is_collated
from tahoe.protocol.types.predicate import Predicate, Unknown, columns_of, has_computed
from tahoe.protocol.types.schema import Struct, as_nullable, check_unique_names, is_comparable, walk_fields
from tahoe.sql.predicates import parse_predicate
from tahoe.storage.env import branches, is_hidden
from tahoe.table.commit.draft import was_recorded
from tahoe.table.reading.scan import partition_field
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.writing.evolved_schema import evolved_schema
from tahoe.table.writing.write_plan import WritePlan, check_void, is_about
from tahoe.table.writing.write_request import WriteRequest

# Characters that Parquet column names must not contain, if the table has no column mapping.
_FORBIDDEN_IN_NAMES = frozenset(" ,;{}()\n\t=")


def plan_write(table: TableReader, request: WriteRequest) -> WritePlan | None:
    """Check a write against the table and plan it.

    Returns:
        the plan; None if there is nothing to do: mode ignore on an existing table, or a `txn` that is already recorded.

    Raises:
        DeltaAnalysisError: the request does not fit the table; the error names the option that would allow it.
        DeltaProtocolError: the table has a rule that tahoe does not enforce yet.
    """
    snapshot = table.snapshot_if_exists()
    if snapshot is None:
        check_unique_names(request.schema, table=table.url, error=DuplicateDataColumnsError)
        return _plan_new(table, request)
    if request.mode == "error":
        raise TableExistsError(table=table.url)
    if request.mode == "ignore" or was_recorded(snapshot, request.txn):
        return None
    return plan_existing(table, request, snapshot)


def _plan_new(table: TableReader, request: WriteRequest) -> WritePlan:
    """The plan of a write that makes its table. The folder must be free, unless the write overwrites."""
    if request.mode != "overwrite":
        _check_folder_is_free(table, has_left_overs=request.txn is not None)
    protocol, metadata = new_table(table, request)
    return WritePlan(
        table=table,
        request=request,
        snapshot=None,
        protocol=protocol,
        metadata=metadata,
        replace_where=_replace_where(table, request, metadata),
        clustering=_new_clustering(table, request, protocol, metadata),
    )


def _new_clustering(
    table: TableReader, request: WriteRequest, protocol: Protocol, metadata: Metadata
) -> DomainMetadata | None:
    """The domain with the clustering columns of a new table; None if the request has none."""
    if not request.cluster_by:
        return None
    schema, configuration = metadata.schema, metadata.configuration
    columns = check_clustering(request.cluster_by, schema, metadata.partition_columns, configuration, table=table.url)
    return clustering_domain(columns, schema, mapping_mode(protocol, configuration))


def _properties(table: TableReader, request: WriteRequest) -> dict[str, str]:
    """The properties of a new table, with the table feature that clustering needs."""
    asked = properties_for([clustering.FEATURE]) if request.cluster_by else {}
    given = {
        **normalise(request.default_properties, table=table.url),
        **normalise(request.properties, table=table.url),
        **asked,
    }
    return with_needed_properties(given)


def _check_folder_is_free(table: TableReader, *, has_left_overs: bool) -> None:
    """Refuse a folder that contains files of another format: after the write their rows would seem to be lost.

    Args:
        has_left_overs: whether the write may have been tried before by a driver that was killed, so that its files are
            in the folder.
    """
    if table.log.is_file():
        raise PathIsFileError(table=table.url)
    if has_left_overs:
        return
    if any(not is_hidden(key) for branch in branches(table.env.store) for key in branch.keys):
        raise PathIsNotEmptyError(table=table.url)


def new_table(table: TableReader, request: WriteRequest) -> tuple[Protocol, Metadata]:
    """Protocol and metadata of a new table."""
    schema = request.schema if request.keep_nullability else _as_nullable(request.schema)
    partition_columns = _partition_columns(schema, request.partition_by or (), table.url)
    return _described(table, schema, partition_columns, _properties(table, request), request.comment, None)


def _described(
    table: TableReader,
    schema: Struct,
    partition_columns: tuple[str, ...],
    properties: Mapping[str, str],
    comment: str | None,
    before: Snapshot | None,
) -> tuple[Protocol, Metadata]:
    """Protocol and metadata for a schema that no data file has yet."""
    configuration, asked = split_features(properties)
    schema = as_declared(schema)
    if before is None:
        protocol = protocol_for_new_table(schema, {**configuration, **asked})
    else:
        protocol = upgrade_for(before.protocol, schema, {**configuration, **asked})
    check_new_columns(protocol, schema, partition_columns, table=table.url)
    return protocol, _metadata(table, protocol, schema, partition_columns, configuration, comment, before)


def _metadata(
    table: TableReader,
    protocol: Protocol,
    schema: Struct,
    partition_columns: tuple[str, ...],
    configuration: Mapping[str, str],
    comment: str | None,
    before: Snapshot | None,
) -> Metadata:
    """The metadata for a schema, with column mapping assigned and all rules on schemas checked."""
    configuration = dict(configuration)
    used = before.properties.get(MAX_COLUMN_ID) if before is not None else None
    if used is not None:  # a table never uses a column id twice
        configuration[MAX_COLUMN_ID] = used
    if before is not None:
        configuration = {
            **{name: before.properties[name] for name in MATERIALISED if name in before.properties},
            **configuration,
        }
    configuration = with_materialised_columns(protocol, configuration, table.env.new_id, table=table.url)
    mode = mapping_mode(protocol, configuration)
    if mode != "none":
        if before is not None and before.column_mapping_mode != "none":
            schema = with_columns_of(schema, before.schema)
        start_id = 0 if used is None else highest_id(configuration, table=table.url)
        nested = numbers_nested(protocol, configuration)
        schema, highest = assign_mapping(
            schema, mode, lambda _: f"col-{table.env.new_id()}", start_id, numbers_nested=nested
        )
        configuration[MAX_COLUMN_ID] = str(highest)
    check_schema(schema, mode, table=table.url)
    configuration = _with_filters(configuration, schema, partition_columns, mode, before, table=table.url)
    configuration = _with_listed(configuration, schema, partition_columns, before, table=table.url)
    configuration = keys_for(configuration, schema, {} if before is None else before.properties, table=table.url)
    metadata = Metadata(
        id=table.env.new_id() if before is None else before.metadata.id,
        name=None if before is None else before.metadata.name,
        description=comment if before is None else before.metadata.description,
        schema_string=schema.to_json(),
        partition_columns=partition_columns,
        configuration=configuration,
        created_time_ms=table.env.clock_ms() if before is None else before.metadata.created_time_ms,
    )
    check_writable(protocol, metadata, table=table.url)
    if before is None or not has_iceberg(before.properties):
        check_formats(protocol, configuration, table=table.url)
    is_for_iceberg = iceberg_compat(protocol, configuration) is not None
    if before is not None and before.partition_columns not in ((), partition_columns) and is_for_iceberg:
        detail = "the partitioning of a table with Iceberg compatibility cannot be changed"
        raise InvalidOptionError(
            option="partitionBy", value=", ".join(partition_columns), table=table.url, detail=detail
        )
    return metadata


def _with_filters(
    configuration: dict[str, str],
    schema: Struct,
    partition_columns: tuple[str, ...],
    mode: str,
    before: Snapshot | None,
    *,
    table: str,
) -> dict[str, str]:
    """The configuration with its Bloom filters checked if they are new, else without those of columns that are gone."""
    text = configuration.pop(BLOOM_FILTERS.name, None)
    if text is None:
        return configuration
    definitions, is_new = (
        BLOOM_FILTERS.read(text, table=table),
        before is None or before.properties.get(BLOOM_FILTERS.name) != text,
    )
    if not is_new:
        definitions = tuple(filtered_columns(definitions, schema, partition_columns, mode).values())
    spelled = checked_filters(definitions, schema, partition_columns, mode, table=table)
    return {**configuration, **({BLOOM_FILTERS.name: encode_bloom_filters(spelled)} if spelled else {})}


def _with_listed(
    configuration: dict[str, str],
    schema: Struct,
    partition_columns: tuple[str, ...],
    before: Snapshot | None,
    *,
    table: str,
) -> dict[str, str]:
    """The configuration with its list of columns with statistics checked if it is new, else without columns that cannot
    be listed now.
    """
    listed = configuration.get(STATS_COLUMNS.name)
    if before is not None and listed == before.properties.get(STATS_COLUMNS.name):
        return without_unusable(configuration, schema, partition_columns, table=table)
    check_listed(configuration, schema, partition_columns, table=table)
    return configuration


def _as_nullable(schema: Struct) -> Struct:
    nullable = as_nullable(schema)
    assert isinstance(nullable, Struct)
    return nullable


def _partition_columns(schema: Struct, names: Sequence[str], url: str) -> tuple[str, ...]:
    """The columns by which a new table is partitioned, spelled as in the schema."""
    found = []
    for name in names:
        column = schema.find(name)
        if column is None:
            raise ColumnNotFoundError(table=url, column=name, columns=", ".join(schema.names))
        if not is_comparable(column.type):
            raise UnsupportedDataTypeError(table=url, column=f"{name} (a partition column)", type=str(column.type))
        found.append(column.name)
    if len(set(found)) < len(found):
        raise DuplicatePartitionColumnsError(
            table=url, columns=", ".join(sorted({name for name in found if found.count(name) > 1}))
        )
    if found and len(found) == len(schema):
        detail = "at least one column must not be a partition column"
        raise InvalidOptionError(option="partitionBy", value=", ".join(found), table=url, detail=detail)
    return tuple(found)


def check_schema(schema: Struct, mode: str, *, table: str) -> None:
    """Check all rules on the schema of a table that is about to get data files.

    Raises:
        DuplicateColumnsError, InvalidColumnNameError, UnsupportedDataTypeError.
    """
    check_unique_names(schema, table=table)
    if mode == "none":
        for path, column in walk_fields(schema):
            if _FORBIDDEN_IN_NAMES & set(column.name):
                raise InvalidColumnNameError(table=table, column=".".join(path))
    check_void(schema, table=table)


def plan_existing(table: TableReader, request: WriteRequest, snapshot: Snapshot) -> WritePlan:
    """Plan a write to an existing table; see `plan_write`."""
    check_writable(
        snapshot.protocol,
        snapshot.metadata,
        table=table.url,
        removes_data=request.mode == "overwrite" and request.data_change,
    )
    check_unique_names(request.schema, table=table.url, error=DuplicateDataColumnsError)
    for name in snapshot.partition_columns:
        partition_field(snapshot, name)  # refuses a name that the schema does not have as it is spelled
    _check_options(table, request)
    if request.mode == "overwrite" and request.overwrite_schema:
        protocol, metadata = _replaced_schema(table, request, snapshot)
    else:
        _check_partitioning(request, snapshot)
        protocol, metadata = _evolved(table, request, snapshot)
    return WritePlan(
        table=table,
        request=request,
        snapshot=snapshot,
        protocol=protocol,
        metadata=metadata,
        replace_where=_replace_where(table, request, metadata),
        clustering=_clustering(snapshot, protocol, metadata),
    )


def _clustering(snapshot: Snapshot, protocol: Protocol, metadata: Metadata) -> DomainMetadata | None:
    """The clustering domain after the write. A table stays clustered while it has the clustering columns and is not
    partitioned.
    """
    known = snapshot.domains.get(clustering.DOMAIN)
    mode = mapping_mode(protocol, metadata.configuration)
    if known is None or metadata == snapshot.metadata:
        return known
    moved = (
        None if metadata.partition_columns else clustering_domain(snapshot.clustering_columns, metadata.schema, mode)
    )
    same = moved is not None and clustering_columns(known, metadata.schema, mode) == snapshot.clustering_columns
    return known if same else moved


def _check_options(table: TableReader, request: WriteRequest) -> None:
    """Refuse options that contradict each other: what replaces some of the rows needs mode overwrite, and cannot
    replace the schema.
    """
    matching = "REPLACE" if request.matching is not None else None
    option = "replaceWhere" if request.replace_where is not None else matching
    partial = option or ("partitionOverwriteMode" if request.dynamic_partitions else None)
    if request.overwrite_schema and partial is not None and request.mode == "overwrite":
        detail = f"the schema can only be replaced if all rows are overwritten, but {partial} keeps some"
        raise InvalidOptionError(option="overwriteSchema", value="true", table=table.url, detail=detail)
    if option is None:
        return
    value = request.replace_where or request.matching
    if request.mode != "overwrite":
        raise InvalidOptionError(option=option, value=value, table=table.url, detail="it requires mode overwrite")
    if request.dynamic_partitions:
        detail = "it cannot be combined with partitionOverwriteMode=dynamic"
        raise InvalidOptionError(option=option, value=value, table=table.url, detail=detail)


def _check_partitioning(request: WriteRequest, snapshot: Snapshot) -> None:
    if request.partition_by is None:
        return
    expected = [name.lower() for name in snapshot.partition_columns]
    if [name.lower() for name in request.partition_by] != expected:
        raise PartitionMismatchError(
            table=snapshot.url,
            expected=", ".join(snapshot.partition_columns) or "nothing",
            found=", ".join(request.partition_by) or "nothing",
        )


def _replaced_schema(table: TableReader, request: WriteRequest, snapshot: Snapshot) -> tuple[Protocol, Metadata]:
    schema = request.schema if request.keep_nullability else _as_nullable(request.schema)
    names = snapshot.partition_columns if request.partition_by is None else request.partition_by
    kept = tuple(name for name in names if request.partition_by is not None or schema.find(name) is not None)
    properties = {**snapshot.properties, **normalise(request.properties, table=table.url)}
    return _described(table, schema, _partition_columns(schema, kept, table.url), properties, None, snapshot)


def _evolved(table: TableReader, request: WriteRequest, snapshot: Snapshot) -> tuple[Protocol, Metadata]:
    """Protocol and metadata after schema evolution: new columns and wider types, if `mergeSchema` allows them."""
    merged = evolved_schema(request, snapshot)
    if merged == snapshot.schema:
        return snapshot.protocol, snapshot.metadata
    # Ignore features whose properties are set but which the protocol does not support: new columns do not enable them.
    needed = needed_features(merged, snapshot.properties) - needed_features(snapshot.schema, snapshot.properties)
    protocol = upgrade(snapshot.protocol, needed)
    return protocol, _metadata(table, protocol, merged, snapshot.partition_columns, snapshot.properties, None, snapshot)


def _replace_where(table: TableReader, request: WriteRequest, metadata: Metadata) -> Predicate | None:
    """The predicate of `replaceWhere`. A predicate that only the engine can parse is unknown.

    Raises:
        InvalidPredicateError, ColumnNotFoundError: the predicate is invalid, and the engine does not find rows.
        InvalidOptionError: the predicate names a column that is not a partition column, and the engine does not find
            rows.
    """
    if request.replace_where is None:
        return None
    try:
        predicate = parse_predicate(request.replace_where, metadata.schema, table=table.url, zone=table.log.zone)
    except InvalidPredicateError:
        if not request.finds_rows:
            raise
        return Unknown(request.replace_where)
    by_collation = any(is_collated(metadata.schema, column.path) for column in columns_of(predicate))
    if request.finds_rows and (has_computed(predicate) or by_collation):  # the engine computes it
        return Unknown(request.replace_where)
    if not request.finds_rows and not is_about(predicate, metadata.partition_columns):
        allowed = ", ".join(metadata.partition_columns) or "none"
        others = sorted({".".join(c.path) for c in columns_of(predicate)})
        detail = (
            f"without Spark it may reference only partition columns ({allowed}), but references {', '.join(others)}"
        )
        raise InvalidOptionError(option="replaceWhere", value=request.replace_where, table=table.url, detail=detail)
    return predicate


def create_table(table: TableReader, request: WriteRequest, *, replace_existing: bool = False) -> int | None:
    """Create a table without rows, or replace an existing table and keep its history.

    Returns:
        the version that was committed; None if the mode is ignore and the table exists.

    Raises:
        TableExistsError: the table exists, the mode is not ignore, and `replace_existing` is false.
    """
    snapshot = table.snapshot_if_exists()
    if snapshot is not None and not replace_existing:
        if request.mode == "ignore":
            return None
        raise TableExistsError(table=table.url)
    if snapshot is None:
        return _plan_new(table, replace(request, mode="append")).commit([])
    return _plan_replaced(table, request, snapshot).commit([])


def plan_replacement(table: TableReader, request: WriteRequest) -> WritePlan:
    """Plan to create or replace a table with the result of a query. Of an existing table only the history is kept.

    Raises:
        DeltaAnalysisError, DeltaProtocolError: as `plan_write`.
    """
    snapshot = table.snapshot_if_exists()
    return (
        _plan_new(table, replace(request, mode="overwrite"))
        if snapshot is None
        else _plan_replaced(table, request, snapshot)
    )


def _plan_replaced(table: TableReader, request: WriteRequest, snapshot: Snapshot) -> WritePlan:
    """Plan to replace a table as a new one. Its protocol may be raised, but is never lowered."""
    check_writable(snapshot.protocol, snapshot.metadata, table=table.url, removes_data=True)
    schema = request.schema if request.keep_nullability else _as_nullable(request.schema)
    partition_columns = _partition_columns(schema, request.partition_by or (), table.url)
    properties = _properties(table, request)
    check_listed(
        properties, schema, partition_columns, table=table.url
    )  # given now, also if the table had the same list before
    protocol, metadata = _described(table, schema, partition_columns, properties, request.comment, snapshot)
    return WritePlan(
        table=table,
        request=replace(request, mode="overwrite", overwrite_schema=True),
        snapshot=snapshot,
        protocol=protocol,
        metadata=metadata.replace(description=request.comment),
        replace_where=None,
        clustering=_new_clustering(table, request, protocol, metadata),
        domains=taken_over(snapshot.domains, CopiedFiles(table_id=metadata.id), table_id=metadata.id),
    )
