"""Partition values in the names of folders, as Hive and Spark write them: `day=2026-01-01/city=K%C3%B6ln`.

Protocol: "Partition Value Serialization". A Delta table keeps partition values in its log. Folder names count only
where a table is made from files that were there before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TypeAlias

from tahoe.errors import (
    InvalidPartitionValueError,
    PartitionCastFailedError,
    UnexpectedPartitionColumnError,
    UnexpectedPartitionCountError,
)
from tahoe.protocol.types.partitions import HIVE_NULL, format_partition_value, parse_partition_value
from tahoe.protocol.types.schema import BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, DataType, Field

Partition: TypeAlias = tuple[tuple[str, str | None], ...]
"""Names and values of partition columns, unescaped and in the order of the folders."""

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")

# Spark's cast takes these words as booleans, and years and months as their first days. Partition values in a log are
# spelled out.
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), "true"),
    **dict.fromkeys(("f", "false", "n", "no", "0"), "false"),
}
_YEAR, _MONTH = re.compile(r"[+-]?\d{4,7}"), re.compile(r"[+-]?\d{4,7}-\d{1,2}")
_DATED = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def is_hidden(key: str) -> bool:
    """Whether other readers of a folder of Parquet files pass over a file.

    Names that begin with an underscore or a dot are hidden, except those of partition folders.
    """
    *folders, name = key.split("/")
    return name.startswith(("_", ".")) or any(folder.startswith(("_", ".")) and "=" not in folder for folder in folders)


def partition_of(folder: str) -> Partition:
    """The partition columns in the path of a folder, relative to the table.

    As in Spark, the innermost folders that are no `name=value` are passed over, and so is everything outside the
    partition folders.
    """
    found: list[tuple[str, str | None]] = []
    for name in reversed(folder.split("/")):
        column, separator, value = name.partition("=")
        if separator:
            text = _unescaped(value)
            found.append((_unescaped(column), None if text in ("", HIVE_NULL) else text))
        elif found:
            break
    return tuple(reversed(found))


def _unescaped(name: str) -> str:
    """A name without Hive's escapes. Each stands for one character, other than in a URI."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name) if "%" in name else name


def _as_castable_text(text: str | None, data_type: DataType) -> str | None:
    """A value that Spark's cast understands, as partition values in a log are written."""
    if text is None:
        return None
    if data_type == BOOLEAN:
        return _BOOLEANS.get(text.strip().lower(), text)
    if data_type in _DATED:
        word = text.strip()
        return f"{word}-01-01" if _YEAR.fullmatch(word) else f"{word}-01" if _MONTH.fullmatch(word) else text
    return text


@dataclass(frozen=True)
class PartitionReader:
    """Checks the partitions in folder names against the columns that a table is to be partitioned by.

    Attributes:
        columns: the partition columns in their order.
        zone: of timestamps without a time zone.
        unfit_becomes_null: a value that is not of its column's type is null, instead of an error.
        table: for errors.
    """

    columns: Sequence[Field]
    zone: tzinfo = UTC
    unfit_becomes_null: bool = False
    table: str = "the table"
    _texts_for_log: dict[tuple[DataType, str | None], str | None] = field(default_factory=dict)

    def values(self, partition: Partition, path: str) -> dict[str, str | None]:
        """The entries of `partitionValues`, by the names of the columns.

        Args:
            path: of the file or folder, for errors.

        Raises:
            UnexpectedPartitionCountError, UnexpectedPartitionColumnError: the folder has other columns.
            PartitionCastFailedError: a value is not of its column's type.
        """
        if len(partition) != len(self.columns):
            raise UnexpectedPartitionCountError(
                table=self.table,
                path=path,
                expectedColsSize=len(self.columns),
                expectedCols=", ".join(column.name for column in self.columns) or "none",
                parsedColsSize=len(partition),
                parsedCols=", ".join(name for name, _ in partition) or "none",
            )
        found = {}
        for column, (name, text) in zip(self.columns, partition, strict=True):
            if name.lower() != column.name.lower():
                raise UnexpectedPartitionColumnError(
                    table=self.table, path=path, expectedCol=column.name, parsedCol=name
                )
            found[column.name] = self._text_for_log(column, text, path)
            if found[column.name] is None and not column.nullable:
                raise self._unfit_error(column, text, path)
        return found

    def _text_for_log(self, column: Field, text: str | None, path: str) -> str | None:
        """The text for the log, in the spelling that all readers understand alike."""
        key = (column.type, text)
        if key not in self._texts_for_log:
            try:
                value = parse_partition_value(
                    _as_castable_text(text, column.type), column.type, zone=self.zone, table=self.table
                )
                self._texts_for_log[key] = format_partition_value(value, column.type, table=self.table)
            except InvalidPartitionValueError as error:
                if not self.unfit_becomes_null:
                    raise self._unfit_error(column, text, path) from error
                self._texts_for_log[key] = None
        return self._texts_for_log[key]

    def _unfit_error(self, column: Field, text: str | None, path: str) -> PartitionCastFailedError:
        kind = str(column.type) if column.nullable else f"{column.type} NOT NULL"
        return PartitionCastFailedError(table=self.table, path=path, value=text, dataType=kind, columnName=column.name)
