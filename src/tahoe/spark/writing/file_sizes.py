"""Settings that decide how large files become and which rows are in them: optimised writes, clustering on write, auto compaction.

Pure. Names and defaults are the reference's, which has no clustering on write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tahoe.errors import InvalidOptionError
from tahoe.protocol.partitions import parse_boolean
from tahoe.protocol.properties import AUTO_COMPACT, AUTO_OPTIMIZE, CLUSTER_ON_WRITE, OPTIMIZE_WRITE, parse_size
from tahoe.spark.jvm import setting_names
from tahoe.spark.jvm.setting_names import Setting
from tahoe.table.maintenance.auto_compaction import AutoCompaction

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizedWrite:
    """Whether rows are redistributed before they are written, so that each partition gets few large files.

    Attributes:
        is_on: None if the table's properties decide.
        task_bytes: the size of the rows of a task, as Spark shuffles them.
        blocks_max, groups_max: see `Redistribution`.
    """

    is_on: bool | None = None
    task_bytes: int = 512 << 20
    blocks_max: int = 50_000_000
    groups_max: int = 2000

    def applies(self, properties: Mapping[str, str], *, table: str) -> bool:
        """Whether a write to a table with these properties is optimised."""
        if self.is_on is not None:
            return self.is_on
        asked = OPTIMIZE_WRITE.get(properties, table=table)
        return AUTO_OPTIMIZE.get(properties, table=table) if asked is None else asked


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOnWrite:
    """Whether the rows of a write to a clustered table are laid out before they are written.

    Attributes:
        is_on: None if the table's property decides.
        min_bytes: what is smaller, in files, is written as it is.
        file_bytes: the size of a file, approximately, if the table does not have `delta.targetFileSize`.
    """

    is_on: bool | None = None
    min_bytes: int = 64 << 20
    file_bytes: int = 128 << 20

    def applies(self, properties: Mapping[str, str], *, table: str) -> bool:
        """Whether rows may be laid out that are written to a clustered table with these properties.

        Raises:
            InvalidPropertyError: the property has an invalid value.
        """
        return CLUSTER_ON_WRITE.get(properties, table=table) if self.is_on is None else self.is_on


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """Typed values of a session's settings."""

    given: Mapping[str, str]
    table: str

    def value(self, setting: Setting, default: Value, parse: Callable[[str], Value], takes: str) -> Value:
        text = self.given.get(setting.name)
        try:
            return default if text is None else parse(text.strip())
        except ValueError:
            raise InvalidOptionError(option=setting.name, value=text, table=self.table, detail=f"it must be {takes}") from None

    def flag(self, setting: Setting, default: bool) -> bool:
        return self.value(setting, default, parse_boolean, "true or false")

    def size(self, setting: Setting, default: int) -> int:
        return self.value(setting, default, parse_size, "a size in bytes, such as 134217728 or 128mb")

    def count(self, setting: Setting, default: int, least: int) -> int:
        return self.value(setting, default, lambda text: _count(text, least), f"an integer of at least {least}")


def _count(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(text)
    return int(text)


def auto_compaction(settings: Mapping[str, str], *, table: str) -> AutoCompaction:
    """Auto compaction as a session's settings ask for it.

    Raises:
        InvalidOptionError: a setting has an invalid value.
    """
    found, default = _Settings(given=settings, table=table), AutoCompaction()
    max_file_bytes = found.size(setting_names.COMPACT_MAX_SIZE, default.max_file_bytes)
    return AutoCompaction(
        is_on=found.value(setting_names.COMPACT, None, lambda text: AUTO_COMPACT.parse(text) != "false", AUTO_COMPACT.takes),
        min_files=found.count(setting_names.COMPACT_MIN_FILES, default.min_files, 0),
        max_file_bytes=max_file_bytes,
        min_file_bytes=found.size(setting_names.COMPACT_MIN_SIZE, max_file_bytes // 2),
        only_modified=found.flag(setting_names.COMPACT_MODIFIED, default.only_modified),
        max_partitions=found.count(setting_names.COMPACT_PARTITIONS, default.max_partitions, 1),
        skips_blind_appends=found.flag(setting_names.COMPACT_NOT_APPENDS, default.skips_blind_appends),
    )


def optimized_write(settings: Mapping[str, str], *, is_on: bool | None, table: str) -> OptimizedWrite:
    """Optimised writes as a session's settings ask for them.

    Args:
        is_on: the writer's option, which takes precedence over the session; None if it is not given.

    Raises:
        InvalidOptionError: a setting has an invalid value.
    """
    found, default = _Settings(given=settings, table=table), OptimizedWrite()
    by_session = found.value(setting_names.OPTIMIZE_WRITE, None, parse_boolean, "true or false")
    return OptimizedWrite(
        is_on=by_session if is_on is None else is_on,
        task_bytes=found.value(
            setting_names.OPTIMIZE_WRITE_SIZE, default.task_bytes, _megabytes, "a size in megabytes, such as 512, or with a unit: 1g"
        ),
        blocks_max=found.count(setting_names.OPTIMIZE_WRITE_BLOCKS, default.blocks_max, 1),
        groups_max=found.count(setting_names.OPTIMIZE_WRITE_PARTITIONS, default.groups_max, 1),
    )


def cluster_on_write(settings: Mapping[str, str], *, is_on: bool | None, table: str) -> ClusterOnWrite:
    """Clustering on write as a session's settings ask for it.

    Args:
        is_on: the writer's option, which takes precedence over the session; None if it is not given.

    Raises:
        InvalidOptionError: a setting has an invalid value.
    """
    found = _Settings(given=settings, table=table)
    by_session = found.value(setting_names.CLUSTER_ON_WRITE, None, parse_boolean, "true or false")
    return ClusterOnWrite(
        is_on=by_session if is_on is None else is_on, min_bytes=found.size(setting_names.CLUSTER_MIN_SIZE, ClusterOnWrite().min_bytes)
    )


def _megabytes(text: str) -> int:
    return parse_size(text + "m" if text.isdigit() else text)
