"""The schema with which a query reads a table: that of its DataFrame, and what the session's settings allow when the
table changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tahoe.errors import DeltaError, DeltaStorageError, StreamSchemaMismatchError
from tahoe.protocol.streams.stream_schema import SchemaRules, shape
from tahoe.protocol.types.schema import Struct, parse_schema
from tahoe.spark.configuration import setting_names
from tahoe.spark.configuration.setting_names import Setting
from tahoe.table.reading.snapshot import Snapshot, load_snapshot


def rules_of(settings: Mapping[str, str], *, table: str) -> SchemaRules:
    """The session's settings. Names and defaults are the reference's.

    Raises:
        InvalidOptionError: a setting is neither true nor false.
    """

    def allows(setting: Setting[bool]) -> bool:
        return setting.of(settings, table=table)

    return SchemaRules(
        reads_moved_columns=allows(setting_names.READS_MOVED),
        reads_other_partitions=allows(setting_names.READS_OTHER_PARTITIONS),
        reads_nulls=allows(setting_names.READS_NULLS),
        skips_start=allows(setting_names.SKIPS_START),
        widens=allows(setting_names.WIDENS),
        asks_before_widening=allows(setting_names.TRACKS_WIDENING),
        ignores_types=allows(setting_names.IGNORES_TYPES),
    )


def encode_analysed(snapshot: Snapshot, columns: Struct) -> str:
    """What is remembered of a DataFrame: the version, and the columns, of the table when the DataFrame was created."""
    return f"{snapshot.version}\n{columns.to_json()}"


def as_analysed(
    newest: Snapshot, analysed: str | None, columns_of: Callable[[Snapshot], Struct], *, is_fixed: bool = False
) -> Snapshot:
    """The version whose schema a query has: the newest, or if its columns are not those of the DataFrame, that of the
    DataFrame.

    Args:
        analysed: from `encode_analysed`; None if it is not known.
        is_fixed: whether no other version may be taken.

    Raises:
        StreamSchemaMismatchError: the DataFrame has other columns, and its version cannot be loaded, or is of another
            table.
    """
    if analysed is None:
        return newest
    version, _, text = analysed.partition("\n")
    wanted = parse_schema(text, table=newest.url)
    if shape(columns_of(newest)) == shape(wanted):
        return newest
    if is_fixed:
        raise _mismatch(newest, wanted, columns_of(newest))
    try:
        found = load_snapshot(newest.log, int(version))
    except DeltaStorageError:
        raise
    except (DeltaError, FileNotFoundError) as error:
        raise _mismatch(newest, wanted, columns_of(newest)) from error
    if found.metadata.id != newest.metadata.id or shape(columns_of(found)) != shape(wanted):
        raise _mismatch(newest, wanted, columns_of(newest))
    return found


def _mismatch(newest: Snapshot, query: Struct, table: Struct) -> StreamSchemaMismatchError:
    return StreamSchemaMismatchError(table=newest.url, querySchema=str(query), tableSchema=str(table))
