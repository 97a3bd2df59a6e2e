"""Parses the options of a write and the session's settings into a record.

Pure. Names and defaults are the reference's, so that existing code with `format("delta")` works unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast, overload

from tahoe.errors import InvalidOptionError
from tahoe.protocol.types.assignment_rules import Policy
from tahoe.protocol.types.names import parse_column_list
from tahoe.protocol.types.schema import Struct
from tahoe.spark.configuration import setting_names
from tahoe.spark.configuration.flags import parse_flag
from tahoe.spark.writing.file_sizes import (
    ClusterOnWrite,
    OptimizedWrite,
    auto_compaction,
    cluster_on_write,
    optimized_write,
)
from tahoe.table.writing.write_request import Mode, WriteRequest

# The options in which Spark's writer passes the columns of partitionBy and clusterBy, as JSON.
PARTITION_COLUMNS = "__partition_columns"
CLUSTERING_COLUMNS = "__clustering_columns"

# The options in which a Spark Connect session sends the mode and settings, which Spark does not pass to a Python data
# source.
MODE = "__mode"
SETTINGS = "__settings"

_OVERWRITE_SETTING = "spark.sql.sources.partitionOverwriteMode"

# Prefixes of options for the storage and the Parquet writer, which go into Hadoop's configuration.
_HADOOP = ("parquet.", "fs.", "dfs.")

# Options that select the rows that an overwrite replaces.
_REPLACEMENTS = ("replaceWhere", "replaceUsing", "replaceOn")

# Options of Spark's Parquet writer that users may set.
_WRITER = ("compression", "maxRecordsPerFile")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a write, except its mode.

    Attributes:
        partition_by: None if not specified.
        cluster_by: the paths of the columns of clusterBy; None if not specified.
        replace_where_is_checked: whether rows that do not satisfy `replace_where` are refused.
        replace_using: columns; a row of the table is replaced if a row of the data has the same values in them.
        replace_on: SQL text over the columns of the data and of the table; a row of the table is replaced if it holds
            with a row of the data.
        target_alias: the table's alias in `replace_on`.
        txn: application id and version.
        optimized_write: whether and how rows are redistributed before they are written.
        cluster_on_write: whether rows for a clustered table are laid out before they are written.
        merges_by_partition: whether MERGE redistributes its rows in any case, if the table is partitioned.
        properties: `delta.*` options, for the table.
        default_properties: the session's default properties for new tables.
        writer: options of Spark's Parquet writer.
        hadoop: Hadoop settings for the Parquet writer and the storage.
        assigns: the store assignment policy for inserted rows.
        updates: the store assignment policy in UPDATE and MERGE.
    """

    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[tuple[str, ...], ...] | None = None
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    replace_where_is_checked: bool = True
    replace_using: tuple[str, ...] | None = None
    replace_on: str | None = None
    target_alias: str | None = None
    dynamic_partitions: bool = False
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    data_change: bool = True
    optimized_write: OptimizedWrite = field(default_factory=OptimizedWrite)
    cluster_on_write: ClusterOnWrite = field(default_factory=ClusterOnWrite)
    merges_by_partition: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    default_properties: Mapping[str, str] = field(default_factory=dict)
    writer: Mapping[str, str] = field(default_factory=dict)
    hadoop: Mapping[str, str] = field(default_factory=dict)
    assigns: Policy = "ANSI"
    updates: Policy = "ANSI"

    def request(self, mode: Mode, schema: Struct) -> WriteRequest:
        """The write of data with a schema that these options ask for. The caller adds what else it knows of the
        write.
        """
        overwrite = mode == "overwrite"
        return WriteRequest(
            mode=mode,
            schema=schema,
            partition_by=self.partition_by,
            cluster_by=self.cluster_by,
            properties=self.properties,
            default_properties=self.default_properties,
            merge_schema=self.merge_schema,
            overwrite_schema=self.overwrite_schema and overwrite,
            replace_where=self.replace_where,
            dynamic_partitions=self.dynamic_partitions and overwrite,
            txn=self.txn,
            user_metadata=self.user_metadata,
            data_change=self.data_change,
        )

    def unclustered(self) -> WriteOptions:
        """The options without clustering on write."""
        return replace(self, cluster_on_write=replace(self.cluster_on_write, is_on=False))

    def redistributing(self, is_on: bool) -> WriteOptions:
        """The options with optimised writes on or off."""
        return replace(self, optimized_write=replace(self.optimized_write, is_on=is_on))


def has_auto_merge(settings: Mapping[str, str]) -> bool:
    """Whether a session's settings let writes and MERGE evolve the schema."""
    return setting_names.AUTO_MERGE.of(settings)


def is_setting(name: str) -> bool:
    """Whether `parse_options` may read the session's setting of this name."""
    return setting_names.is_setting(name) or name == _OVERWRITE_SETTING


def parse_options(options: Mapping[str, str], settings: Mapping[str, str], *, table: str) -> WriteOptions:
    """Parse a write's options. The session's settings apply where an option is missing. Unknown options are ignored.

    Args:
        options: as the user gave them; names are case-insensitive.
        settings: the session's.

    Raises:
        InvalidOptionError: an option has an invalid value, or two options exclude each other.
    """
    given = _Options(options, table)
    auto_compaction(settings, table=table)  # it runs after the commit, when it is too late to refuse a setting
    clustering = given.columns(CLUSTERING_COLUMNS)
    overwrite_schema = given.flag("overwriteSchema", False)
    replacement = given.replacement()
    return WriteOptions(
        partition_by=given.columns(PARTITION_COLUMNS),
        cluster_by=None
        if clustering is None
        else tuple(path for name in clustering for path in parse_column_list(name)),
        merge_schema=given.flag("mergeSchema", has_auto_merge(settings)),
        overwrite_schema=overwrite_schema,
        replace_where=given.text("replaceWhere"),
        replace_where_is_checked=setting_names.CHECK_REPLACE_WHERE.of(settings, table=table),
        replace_using=given.names("replaceUsing"),
        replace_on=given.text("replaceOn"),
        target_alias=given.text("targetAlias"),
        dynamic_partitions=given.dynamic_partitions(settings, whole=overwrite_schema or replacement is not None),
        txn=given.txn(settings),
        user_metadata=given.text("userMetadata") or setting_names.USER_METADATA.of(settings),
        data_change=given.flag("dataChange", True),
        optimized_write=optimized_write(settings, is_on=given.flag("optimizeWrite", None), table=table),
        cluster_on_write=cluster_on_write(settings, is_on=given.flag("clusterOnWrite", None), table=table),
        merges_by_partition=setting_names.MERGE_REPARTITIONS.of(settings, table=table),
        properties={name: value for name, value in options.items() if name.lower().startswith("delta.")},
        default_properties={
            "delta." + name.removeprefix(setting_names.DEFAULT_PROPERTIES.name): value
            for name, value in settings.items()
            if name.startswith(setting_names.DEFAULT_PROPERTIES.name)
        },
        writer={name: value for name in _WRITER if (value := given.text(name)) is not None},
        hadoop={name: value for name, value in options.items() if name.lower().startswith(_HADOOP)},
        assigns=_policy(settings),
        updates=_policy_of_updates(settings),
    )


def _policy(settings: Mapping[str, str]) -> Policy:
    """The session's policy. Spark itself refuses any other text for this setting."""
    return cast(Policy, settings.get("spark.sql.storeAssignmentPolicy", "ANSI").upper())


def _policy_of_updates(settings: Mapping[str, str]) -> Policy:
    if not setting_names.CASTS_BY_ANSI.of(settings):
        return _policy(settings)
    return "ANSI" if setting_names.ANSI.of(settings) else "LEGACY"


class _Options:
    """Options by case-insensitive name."""

    def __init__(self, options: Mapping[str, str], table: str) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._table = table

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    @overload
    def flag(self, name: str, default: bool) -> bool: ...

    @overload
    def flag(self, name: str, default: None) -> bool | None: ...

    def flag(self, name: str, default: bool | None) -> bool | None:
        text = self.text(name)
        return default if text is None else parse_flag(text, name, table=self._table)

    def columns(self, name: str) -> tuple[str, ...] | None:
        text = self.text(name)
        return None if text is None else tuple(json.loads(text))

    def dynamic_partitions(self, settings: Mapping[str, str], *, whole: bool) -> bool:
        """Whether an overwrite replaces only the partitions that the data has.

        An option that selects what to replace (`whole`) takes precedence over the session's setting.
        """
        text = self.text("partitionOverwriteMode")
        if text is None:
            return not whole and settings.get(_OVERWRITE_SETTING, "static").lower() == "dynamic"
        if text.strip().lower() not in ("static", "dynamic"):
            raise self._invalid("partitionOverwriteMode", "it must be static or dynamic")
        return text.strip().lower() == "dynamic"

    def txn(self, settings: Mapping[str, str]) -> tuple[str, int] | None:
        """The application id and version of an idempotent write; None if not specified."""
        app_id, version = self.text("txnAppId"), self.text("txnVersion")
        if app_id is None and version is None:
            app_id, version = setting_names.TXN_APP_ID.of(settings), setting_names.TXN_VERSION.of(settings)
        if app_id is None and version is None:
            return None
        for name, value, other in (("txnAppId", app_id, "txnVersion"), ("txnVersion", version, "txnAppId")):
            if value is None:
                raise self._invalid(name, f"{other} is given, and each of the two requires the other")
        assert app_id is not None
        assert version is not None
        if not version.strip().isdecimal():
            raise self._invalid("txnVersion", "it must be a non-negative integer")
        return app_id, int(version)

    def replacement(self) -> str | None:
        """The name of the option that selects the rows to replace, or None. Two such options would contradict each
        other.
        """
        given = [name for name in _REPLACEMENTS if self.text(name) is not None]
        if len(given) > 1:
            raise self._invalid(given[0], f"it cannot be used together with {given[1]}")
        return given[0] if given else None

    def names(self, name: str) -> tuple[str, ...] | None:
        """An option with comma-separated column names, without duplicates."""
        text = self.text(name)
        if text is None:
            return None
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        if "" in names:
            raise self._invalid(name, "it must be a comma-separated list of column names")
        return names

    def _invalid(self, name: str, detail: str) -> InvalidOptionError:
        value = self.text(name)
        return InvalidOptionError(
            option=name, value="missing" if value is None else value, table=self._table, detail=detail
        )
