"""The schema with which a query reads a table: that of its DataFrame, what the session's settings allow when the table
changes, and the log of a query that tracks its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tahoe.errors import (
    DeltaError,
    DeltaStorageError,
    SchemaChangeNotAcknowledgedError,
    SchemaLocationOutsideError,
    StreamSchemaChangedError,
    StreamSchemaMismatchError,
    UnsupportedOperationError,
)
from tahoe.protocol.streams.stream_schema import (
    ALWAYS,
    SchemaRules,
    TrackedSchema,
    changes_between,
    checkpoint_suffix,
    first_retyped,
    is_acknowledged,
    shape,
)
from tahoe.protocol.types.schema import Struct, parse_schema
from tahoe.spark.configuration import setting_names
from tahoe.spark.configuration.setting_names import Setting
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.hadoop_store import qualified_url
from tahoe.spark.streams.options import SourceOptions
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.streams.stream_schema import SchemaLog, merge_next, schema_log_folder, with_tracked

# --- the schema of a DataFrame


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
        moved_columns_setting=setting_names.READS_MOVED.name,
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
    query_columns = parse_schema(text, table=newest.url)
    if shape(columns_of(newest)) == shape(query_columns):
        return newest
    if is_fixed:
        raise _mismatch(newest, query_columns, columns_of(newest))
    try:
        snapshot = load_snapshot(newest.log, int(version))
    except DeltaStorageError:
        raise
    except (DeltaError, FileNotFoundError) as error:
        raise _mismatch(newest, query_columns, columns_of(newest)) from error
    if snapshot.metadata.id != newest.metadata.id or shape(columns_of(snapshot)) != shape(query_columns):
        raise _mismatch(newest, query_columns, columns_of(newest))
    return snapshot


def _mismatch(newest: Snapshot, query: Struct, table: Struct) -> StreamSchemaMismatchError:
    return StreamSchemaMismatchError(table=newest.url, querySchema=str(query), tableSchema=str(table))


# --- the log of a query that tracks its schema

_SOURCES = "/sources/"


def open_log(gateway: Gateway, newest: Snapshot, source_options: SourceOptions) -> SchemaLog | None:
    """The log of a stream; None if the stream does not track its schema.

    Raises:
        UnsupportedOperationError: the session disables tracking.
        DeltaError: see `SchemaLog`.
    """
    if source_options.schema_location is None:
        return None
    if not setting_names.TRACKING.of(gateway.settings(), table=newest.url):
        detail, remedy = (
            f"{setting_names.TRACKING.name} is false",
            "Set it to true, or start the query without schemaTrackingLocation.",
        )
        raise UnsupportedOperationError(
            operation="A schemaTrackingLocation", table=newest.url, detail=detail, remedy=remedy
        )
    folder = schema_log_folder(
        qualified_url(gateway, source_options.schema_location), newest.metadata.id, source_options.tracking_id
    )
    return SchemaLog(newest.log.env.store_at(folder), newest.metadata.id, newest.url)


def as_tracked(gateway: Gateway, newest: Snapshot, source_options: SourceOptions) -> Snapshot:
    """The newest version, with the schema that the stream reads next.

    Raises:
        DeltaError: see `open_log`.
    """
    log = open_log(gateway, newest, source_options)
    if log is None or log.current is None:
        return newest
    if setting_names.TRACKING_MERGES.of(gateway.settings(), table=newest.url):
        merge_next(log, newest.log)
    return with_tracked(newest, log.current)


def log_at_start(
    gateway: Gateway, newest: Snapshot, source_options: SourceOptions, source_path: str, rules: SchemaRules
) -> SchemaLog | None:
    """The log of a query that starts.

    Args:
        source_path: the folder of the source in the query's checkpoint, as Spark spells it.

    Raises:
        SchemaLocationOutsideError: the log is not below the query's checkpoint.
        SchemaLocationConflictError: the log belongs to another source.
        SchemaChangeNotAcknowledgedError: the last change of the schema is to be acknowledged.
        StreamSchemaChangedError: the last change of the schema gave a column a type that is not wider.
        DeltaError: see `open_log`.
    """
    log, settings = open_log(gateway, newest, source_options), gateway.settings()
    if log is None or source_options.schema_location is None:
        return None
    if not setting_names.TRACKING_OUTSIDE.of(settings, table=newest.url):
        _check_location(gateway, source_options.schema_location, source_path)
    if setting_names.TRACKING_CHECKS_PATH.of(settings, table=newest.url):
        log.check_source(source_path)
    previous = log.previous()
    if log.current is not None and previous is not None:
        _check_types(newest.url, previous, log.current, rules)
        _check_acknowledged(
            newest.url, previous, log.current, rules, source_path, source_options.acknowledged, settings
        )
    return log


def _check_location(gateway: Gateway, location: str, source_path: str) -> None:
    checkpoint = source_path.rpartition(_SOURCES)[0] or source_path
    if not f"{qualified_url(gateway, location)}/".startswith(f"{qualified_url(gateway, checkpoint)}/"):
        raise SchemaLocationOutsideError(schemaTrackingLocation=location, checkpointLocation=checkpoint)


def _check_types(table: str, previous: TrackedSchema, current: TrackedSchema, rules: SchemaRules) -> None:
    changed = first_retyped(previous.schema, current.schema, rules)
    if changed is not None:
        remedy = "Begin with a new checkpoint: the rows before and after this version have no common schema."
        before, after = str(previous.schema), str(current.schema)
        raise StreamSchemaChangedError(
            table=table, version=current.version, changed=changed, readSchema=before, dataSchema=after, remedy=remedy
        )


def _check_acknowledged(
    table: str,
    previous: TrackedSchema,
    current: TrackedSchema,
    rules: SchemaRules,
    source_path: str,
    options: Mapping[str, str],
    settings: Mapping[str, str],
) -> None:
    """Refuse to go on after a change of the tracked schema that neither an option of the reader nor a setting of the
    session acknowledges. The error shows each way to acknowledge it, as it is to be written.
    """
    changes, suffix = changes_between(previous.schema, current.schema, rules), checkpoint_suffix(source_path)
    of_streams = {name.removeprefix(setting_names.STREAMING): value for name, value in settings.items()}
    if changes is None or is_acknowledged(changes, current.version, suffix, options, of_streams.get):
        return

    def as_options(value: object) -> str:
        return " and ".join(f'.option("{name}", "{value}")' for name in changes.options)

    def as_settings(suffix: str, value: object) -> str:
        return " and ".join(f"SET {setting_names.STREAMING}{name}{suffix} = {value}" for name in changes.settings)

    raise SchemaChangeNotAcknowledgedError(
        table=table,
        opType=changes.name,
        previousSchemaChangeVersion=previous.version,
        currentSchemaChangeVersion=current.version,
        columnChangeDetails=changes.details(),
        unblockChangeOptions=as_options(current.version),
        unblockStreamOptions=as_options(ALWAYS),
        unblockChangeConfs=as_settings(suffix, current.version),
        unblockStreamConfs=as_settings(suffix, ALWAYS),
        unblockAllConfs=as_settings("", ALWAYS),
    )
