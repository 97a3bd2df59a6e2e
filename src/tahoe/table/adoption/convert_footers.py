"""Reads the footers of files that become a table: the schema of each, and its statistics as the table is to have them.

Protocol: "Per-file Statistics". What a footer does not tell for certain is left out: ANALYZE ... COMPUTE DELTA
STATISTICS can add it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from tahoe._progress import showing
from tahoe.errors import DeltaError, UnreadableFooterError
from tahoe.protocol.statistics.stats import encode_statistics
from tahoe.protocol.types.schema import Struct
from tahoe.storage.env import Store
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.parquet import UNREADABLE, open_parquet
from tahoe.table.arrow.parquet_schema import SPARK_SCHEMA, schema_of_footer
from tahoe.table.layout.file_statistics import FooterLayout, exact_statistics, footer_layout
from tahoe.table.writing.footers import IndexedColumn

# The keys under which writers keep their own schema in a footer.
_SCHEMAS = (SPARK_SCHEMA, b"ARROW:schema")

# The files of one task: enough that its overhead does not count.
_FILES_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterQuestion:
    """What is asked about each file. It can be sent to another process.

    Attributes:
        schema: of the table; None if only the files' schemas are asked for.
        columns: those of the table that have statistics.
    """

    store: Store
    schema: Struct | None = None
    columns: tuple[IndexedColumn, ...] = ()
    prefix_length: int = 0

    @property
    def asks_for_statistics(self) -> bool:
        return self.schema is not None


@dataclass(frozen=True, slots=True)
class Examined:
    """What the footer of a file tells. `statistics` is the text of `add.stats`; None if it was not asked for."""

    schema: Struct
    statistics: str | None = None


Examiner: TypeAlias = Callable[[FooterQuestion, Sequence[str]], Iterable[Examined | BaseException]]
"""Examines files by their keys. Returns the result or the error of each, in order."""


def examined_in_threads(question: FooterQuestion, keys: Sequence[str]) -> Iterator[Examined | BaseException]:
    """Examine files in threads of this process."""
    kinds: list[_Kind] = []
    done = 0
    with showing("CONVERT", "footers") as show_progress:
        for batch in in_threads(lambda some: [_examine(question, key, kinds) for key in some], in_batches(keys)):
            done += len(batch)
            show_progress(done, len(keys))
            yield from batch


def in_batches(keys: Sequence[str]) -> list[Sequence[str]]:
    return [keys[start : start + _FILES_AT_ONCE] for start in range(0, len(keys), _FILES_AT_ONCE)]


def examined(question: FooterQuestion, keys: Sequence[str]) -> list[Examined | BaseException]:
    """Examine some files, one after the other."""
    kinds: list[_Kind] = []
    return [_examine(question, key, kinds) for key in keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """Files with the same schema. The files of a folder usually have the same, which is then looked at once."""

    in_parquet: Any
    in_metadata: tuple[bytes | None, ...]
    schema: Struct
    layout: FooterLayout


def _examine(question: FooterQuestion, key: str, kinds: list[_Kind]) -> Examined | BaseException:
    """The schema of a file and, if a schema is asked for, its statistics; or the error, as a value, so that other files
    are examined nevertheless.
    """
    try:
        with open_parquet(question.store, key) as parquet:
            footer = parquet.metadata
        kind = _kind_of(question, footer, key, kinds)
        if question.schema is None:
            return Examined(kind.schema)
        text = encode_statistics(
            exact_statistics(footer, kind.layout), question.schema, prefix_length=question.prefix_length
        )
        return Examined(kind.schema, text)
    except DeltaError as error:
        return error
    except UNREADABLE as error:
        return UnreadableFooterError(table=question.store.url, file=key, detail=str(error))


def _kind_of(question: FooterQuestion, footer: pq.FileMetaData, key: str, kinds: list[_Kind]) -> _Kind:
    """The kind of a file: one that is known, or else a new one."""
    in_parquet, texts = footer.schema, footer.metadata or {}
    in_metadata = tuple(map(texts.get, _SCHEMAS))
    for kind in kinds:
        if kind.in_metadata == in_metadata and kind.in_parquet.equals(in_parquet):
            return kind
    schema = schema_of_footer(footer, table=f"{question.store.url}/{key}")
    layout = footer_layout(footer, question.columns, "none")
    found = _Kind(in_parquet=in_parquet, in_metadata=in_metadata, schema=schema, layout=layout)
    kinds.append(found)
    return found
