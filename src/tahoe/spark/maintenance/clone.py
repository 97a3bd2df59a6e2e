"""CLONE in a Spark session: names and paths of the target, its entry in the catalog, and the result as a DataFrame.

Names and result columns are the reference's. Files are copied by the driver or by the storage, without Spark jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from tahoe.errors import CloneAmbiguousTargetError, InvalidClonePathError, ReplacedTableMissingError, TableExistsError
from tahoe.spark.ddl.creation import NewTable, enter, given_name, named_or_path, place_of
from tahoe.spark.ddl.table_names import TableLocation
from tahoe.spark.jvm.gateway import Gateway, author_of
from tahoe.spark.jvm.hadoop_store import qualified_url
from tahoe.spark.jvm.table_cache import open_table, recache
from tahoe.spark.maintenance.history_detail import result_frame
from tahoe.spark.maintenance.user_command import run_for_user
from tahoe.storage.local import no_new_folder_left
from tahoe.storage.locations import scheme_of
from tahoe.table.adoption.clone import CloneReport, CloneRequest, clone
from tahoe.table.adoption.foreign_sources import ForeignSource
from tahoe.table.table import Table

# The result of CLONE: one row. There is none if nothing was done.
CLONED = StructType(
    [
        StructField("source_table_size", LongType()),
        StructField("source_num_of_files", LongType()),
        StructField("num_removed_files", LongType()),
        StructField("num_copied_files", LongType()),
        StructField("removed_files_size", LongType()),
        StructField("copied_files_size", LongType()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneCommand:
    """A CLONE as the user has asked for it.

    Attributes:
        target: a name of the session's catalog, delta.`path`, or an absolute path.
        location: of the files of a named target; None lets the catalog choose it.
        source_name: the name of the source; None if it was given by its path.
        mode: whether the target must not exist, must exist, or may exist.
        if_not_exists: do nothing if the catalog has the name, or if there is a table at the path of a target without a
            name.
    """

    source: Table | ForeignSource
    target: str
    is_shallow: bool
    mode: Literal["create", "replace", "create or replace"]
    location: str | None = None
    source_name: str | None = None
    version: int | str | None = None
    timestamp: datetime | None = None
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


def run_clone(spark: SparkSession, command: CloneCommand) -> DataFrame:
    """Clone a table; see `tahoe.table.adoption.clone`. Raises errors as users of Spark expect them."""
    report = run_for_user(spark, lambda: _clone_into_catalog(Gateway(spark), command))
    rows = (
        []
        if report is None or report.version is None
        else [dict(zip(CLONED.names, report.metrics.values(), strict=True))]
    )
    return result_frame(spark, rows, CLONED)


def is_path(target: str) -> bool:
    """Whether a target is an absolute path or a url; everything else is a name."""
    return target.startswith("/") or (scheme_of(target) is not None and "`" not in target)


def _clone_into_catalog(gateway: Gateway, command: CloneCommand) -> CloneReport | None:
    """Clone, and add the target's name to the catalog. Returns None if the table exists and need not be made."""
    new = _target(gateway, command)
    place = place_of(gateway, new)
    if _is_done(gateway, command, new, place):
        return None
    with given_name(new, place) as (named, given):
        report = _clone_into(gateway, command, named, given.url)
    enter(new, place)
    if report.version is not None:
        recache(gateway, given.url)
    return report


def _clone_into(gateway: Gateway, command: CloneCommand, new: NewTable, url: str) -> CloneReport:
    table = open_table(gateway.spark, url)
    request = CloneRequest(
        is_shallow=command.is_shallow,
        version=command.version,
        timestamp=command.timestamp,
        mode=command.mode,
        properties={**command.properties, **new.properties},
        source_name=command.source_name,
        **author_of(gateway.spark),
    )
    with no_new_folder_left(table.url):
        return clone(command.source, table, request)


def _target(gateway: Gateway, command: CloneCommand) -> NewTable:
    """The target as a name, a location, or both."""
    name, path = (None, command.target) if is_path(command.target) else named_or_path(gateway, command.target)
    for location in (path, command.location):
        if location is not None and not is_path(location):
            raise InvalidClonePathError(location=location)
    if (
        path is not None
        and command.location is not None
        and qualified_url(gateway, path) != qualified_url(gateway, command.location)
    ):
        raise CloneAmbiguousTargetError(location=path, externalLocation=command.location)
    return NewTable(name=name, location=command.location if path is None else path)


def _is_done(gateway: Gateway, command: CloneCommand, new: NewTable, place: TableLocation) -> bool:
    """Whether the catalog has the name, or the path without a name a table, and that is enough.

    Raises:
        TableExistsError, ReplacedTableMissingError: the catalog has the name, or does not, in contrast to the command.
    """
    if new.name is not None and not place.is_known and command.mode == "replace":
        raise ReplacedTableMissingError(table=command.target)
    if new.name is None and command.if_not_exists:
        return open_table(gateway.spark, place.url).exists()
    if not place.is_known or command.mode != "create":
        return False
    if not command.if_not_exists:
        raise TableExistsError(table=command.target)
    return True
