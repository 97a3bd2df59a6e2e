"""The columns that `delta.dataSkippingStatsColumns` lists, beside the schema: which of them can be there, and what a
new schema leaves.

A list is checked when it is set. Later another writer may take its columns away, and must not make the table unusable
by it: the columns that are still there count, see `tahoe.protocol.statistics.stats`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from tahoe.errors import (
    DuplicateStatisticsColumnsError,
    PartitionStatisticsColumnError,
    StatisticsColumnError,
    StatisticsColumnNotFoundError,
    StatisticsColumnTypeError,
)
from tahoe.protocol.configuration.bloom_filters import encode_bloom_filters
from tahoe.protocol.configuration.column_mapping import followed_path
from tahoe.protocol.configuration.properties import BLOOM_FILTERS, STATS_COLUMNS
from tahoe.protocol.statistics.stats import Path, has_bounds
from tahoe.protocol.types.names import dotted
from tahoe.protocol.types.schema import Struct


def check_listed(
    configuration: Mapping[str, str], schema: Struct, partition_columns: Iterable[str], *, table: str
) -> None:
    """Refuse a list that the reference refuses at every change of the metadata.

    Raises:
        StatisticsColumnError: a column does not exist, is a partition column, has no bounds, or is listed twice.
    """
    for _, error in _judged(configuration, schema, partition_columns, table=table):
        if error is not None:
            raise error


def unusable_columns(
    configuration: Mapping[str, str], schema: Struct, partition_columns: Iterable[str], *, table: str
) -> list[str]:
    """The errors of `check_listed`, as clauses; for a check of a table that another writer has changed."""
    judged = _judged(configuration, schema, partition_columns, table=table)
    return [str(error.parameters["detail"]) for _, error in judged if error is not None]


def without_unusable(
    configuration: Mapping[str, str], schema: Struct, partition_columns: Iterable[str], *, table: str
) -> dict[str, str]:
    """The properties, with a list of the columns that can be listed under a schema; without a list if none of them
    can.
    """
    judged = _judged(configuration, schema, partition_columns, table=table)
    return with_listed(configuration, [path for path, error in judged if error is None], table=table)


def followed(configuration: Mapping[str, str], before: Struct, after: Struct, *, table: str) -> dict[str, str]:
    """The properties that list columns, with their names under a new schema, and without columns that are gone."""
    paths = (followed_path(before, after, path) for path in STATS_COLUMNS.get(configuration, table=table) or ())
    changed = with_listed(configuration, [path for path in paths if path is not None], table=table)
    filters = BLOOM_FILTERS.get(configuration, table=table)
    moved = ((each, followed_path(before, after, each.path)) for each in filters)
    kept = [replace(each, path=path) for each, path in moved if path is not None]
    if kept == list(filters):
        return changed
    del changed[BLOOM_FILTERS.name]
    return changed | ({BLOOM_FILTERS.name: encode_bloom_filters(kept)} if kept else {})


def with_listed(configuration: Mapping[str, str], left: Iterable[Path], *, table: str) -> dict[str, str]:
    """The properties with other columns listed. If none is left the property goes, so that the first columns have
    statistics again.
    """
    before, after = STATS_COLUMNS.get(configuration, table=table), tuple(left)
    if before is None or before == after:
        return dict(configuration)
    rest = {name: value for name, value in configuration.items() if name != STATS_COLUMNS.name}
    return rest | ({STATS_COLUMNS.name: ",".join(dotted(path) for path in after)} if after else {})


def _judged(
    configuration: Mapping[str, str], schema: Struct, partition_columns: Iterable[str], *, table: str
) -> Iterator[tuple[Path, StatisticsColumnError | None]]:
    """The listed columns, each with the error if it cannot be listed."""
    partitions, legal = {name.lower() for name in partition_columns}, list[Path]()
    for path in STATS_COLUMNS.get(configuration, table=table) or ():
        refusal = _refusal(path, schema, partitions, legal)
        if refusal is None:
            legal.append(path)
            yield path, None
        else:
            kind, detail = refusal
            yield (
                path,
                kind(property=STATS_COLUMNS.name, table=table, value=configuration[STATS_COLUMNS.name], detail=detail),
            )


def _refusal(
    path: Path, schema: Struct, partitions: Set[str], before: Sequence[Path]
) -> tuple[type[StatisticsColumnError], str] | None:
    """Why a column cannot be listed behind others; None if it can."""
    name, fields = dotted(path), schema.resolve(path)
    if fields is None:
        return StatisticsColumnNotFoundError, f"there is no column {name} (the table has {', '.join(schema.names)})"
    if path[0].lower() in partitions:
        return PartitionStatisticsColumnError, f"{name} is a partition column, which needs no statistics"
    if len(path) == 1 and not isinstance(fields[0].type, Struct) and not has_bounds(fields[0].type):
        return (
            StatisticsColumnTypeError,
            f"{name} is of type {fields[0].type}, which has no bounds (only fields of structs may be so)",
        )
    if any(_is_inside(path, other) or _is_inside(other, path) for other in before):
        return DuplicateStatisticsColumnsError, f"{name} is listed more than once, by itself or in a struct"
    return None


def _is_inside(path: Path, other: Path) -> bool:
    """Whether a column is another one, or a field of it."""
    return tuple(name.lower() for name in path[: len(other)]) == tuple(name.lower() for name in other)
