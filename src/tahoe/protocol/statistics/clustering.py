"""The clustering columns of a clustered table.

Protocol: "Clustered Table". They are stored in a metadata domain, by physical names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tahoe.errors import (
    ClusteredAndPartitionedError,
    ClusteringStatisticsError,
    ColumnNotFoundError,
    InvalidClusteringError,
    TooManyClusteringColumnsError,
)
from tahoe.protocol.configuration.column_mapping import Mode, physical_path
from tahoe.protocol.log.actions import Add, DomainMetadata, domain_configuration, invalid_domain
from tahoe.protocol.statistics.stats import counted_columns, has_bounds, statistics_columns
from tahoe.protocol.types.json_text import is_text
from tahoe.protocol.types.schema import Struct

DOMAIN = "delta.clustering"
FEATURE = "clustering"
_COLUMNS = "clusteringColumns"

# As in the reference: with more columns, clustering hardly narrows the range of any of them.
_COLUMNS_MAX = 4


def clustering_columns(domain: DomainMetadata | None, schema: Struct, mode: Mode | str) -> tuple[tuple[str, ...], ...]:
    """The logical paths of a domain's clustering columns; the physical paths of columns that are not in the schema.

    Raises:
        InvalidActionError: the domain is malformed.
    """
    if domain is None:
        return ()
    logical = {physical_path(schema, path, mode): path for path, _ in schema.leaves()}
    return tuple(logical.get(column, column) for column in _stored(domain))


def _stored(domain: DomainMetadata) -> list[tuple[str, ...]]:
    """The physical paths. The reference writes a path as the list of its names; in the protocol's example, a column is
    its name.
    """
    columns = domain_configuration(domain).get(_COLUMNS) or []
    paths = [[column] if is_text(column) else column for column in columns] if isinstance(columns, list) else None
    if paths is None or not all(isinstance(path, list) and all(map(is_text, path)) for path in paths):
        raise invalid_domain(domain, f"{_COLUMNS} must be a list of names, or of lists of names")
    return [tuple(path) for path in paths]


def clustering_domain(columns: tuple[tuple[str, ...], ...], schema: Struct, mode: Mode | str) -> DomainMetadata | None:
    """The domain for clustering columns given by their logical paths; None if one of them is not in the schema."""
    stored = [physical_path(schema, path, mode) for path in columns]
    if any(path is None for path in stored):
        return None
    return DomainMetadata(domain=DOMAIN, configuration=json.dumps({_COLUMNS: stored}, separators=(",", ":")))


def columns_without_statistics(domain: DomainMetadata, files: Iterable[Add]) -> list[str]:
    """The physical names of a domain's clustering columns for which one of the files has no statistics."""
    columns = [] if domain.removed else _stored(domain)
    known = [counted_columns(file.stats, columns) for file in files] if columns else []
    return [".".join(column) for column in columns if not all(column in counted for counted in known)]


def check_clustering(
    columns: Iterable[tuple[str, ...]],
    schema: Struct,
    partition_columns: Iterable[str],
    configuration: Mapping[str, str],
    *,
    table: str,
) -> tuple[tuple[str, ...], ...]:
    """The paths of new clustering columns, spelled as in the schema. Files must have minimum and maximum values for
    each of them.

    Raises:
        ClusteredAndPartitionedError, TooManyClusteringColumnsError, ClusteringStatisticsError, ColumnNotFoundError.
        InvalidClusteringError: a column is listed twice.
    """
    paths = list(columns)
    listed = ", ".join(".".join(path) for path in paths)
    partitions = tuple(partition_columns)
    if paths and partitions:
        detail = f"it is partitioned by {', '.join(partitions)}"
        raise ClusteredAndPartitionedError(
            table=table, columns=listed, detail=detail, remedy="Use either partitioning or clustering."
        )
    if len(paths) > _COLUMNS_MAX:
        detail = f"these are {len(paths)} columns, but at most {_COLUMNS_MAX} are allowed"
        raise TooManyClusteringColumnsError(
            table=table, columns=listed, detail=detail, remedy="Choose the columns that queries filter by most often."
        )
    spelled_paths = []
    for path in paths:
        fields = schema.resolve(path)
        if fields is None:
            raise ColumnNotFoundError(table=table, column=".".join(path), columns=", ".join(schema.names))
        spelled_paths.append(tuple(f.name for f in fields))
        if not has_bounds(fields[-1].type):
            detail = f"{'.'.join(path)} is {fields[-1].type}, a type without minimum and maximum statistics"
            raise ClusteringStatisticsError(
                table=table, columns=listed, detail=detail, remedy="Choose columns of other types."
            )
    if len(set(spelled_paths)) < len(spelled_paths):
        raise InvalidClusteringError(
            table=table, columns=listed, detail="a column is listed twice", remedy="List each column once."
        )
    paths_with_statistics = {path for path, _ in statistics_columns(schema, (), configuration, table=table)}
    missing = [".".join(path) for path in spelled_paths if path not in paths_with_statistics]
    if missing:
        detail = f"no statistics are collected for {', '.join(missing)}"
        remedy = "Add the column to delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols."
        raise ClusteringStatisticsError(table=table, columns=listed, detail=detail, remedy=remedy)
    return tuple(spelled_paths)
