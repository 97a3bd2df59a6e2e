"""Rows as callers give them: Arrow data of any library, data frames, and iterables of batches. Knows nothing of
Delta.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from itertools import chain
from typing import Any, Protocol, TypeAlias
from weakref import WeakSet

import pyarrow as pa

from tahoe.errors import InvalidArgumentError
from tahoe.table.arrow.row_stream import Rows

# In errors, longer values are described by their type only.
_TOLD_MAX = 60


class ArrowStream(Protocol):
    """Rows of any library that exports Arrow data: pyarrow, pandas, polars, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """One batch of rows of any library that exports Arrow data."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


Data: TypeAlias = "pa.Table | ArrowStream | ArrowArray | Iterable[pa.RecordBatch | pa.Table]"
"""Rows: an Arrow table or batch, a frame of pandas, Polars, DuckDB or another library, a stream or an iterable of
batches.
"""


class Unfit(Exception):
    """A value does not fit a rule; the text may give the reason.

    Args:
        expected, remedy: the description of valid values and the next step, if this reason has others than the rule.
    """

    def __init__(self, reason: str = "", *, expected: str | None = None, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.expected, self.remedy = expected, remedy


def described(value: object) -> str:
    """A value as an error shows it."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, list | tuple | dict) and not value:
        return f"an empty {kind}"
    if not isinstance(value, str | bytes | int | float | date | os.PathLike) or len(repr(value)) > _TOLD_MAX:
        return f"a value of type {kind}"
    return f"{value!r} ({kind})"


# RecordBatchReaders that were already consumed: reading them again would return no rows, and no error.
_read: WeakSet[pa.RecordBatchReader] = WeakSet()


def rows_of(value: Any) -> pa.Table:
    """All rows that a caller gives.

    Raises:
        Unfit: the value has no rows, or its library fails.
    """
    if isinstance(value, pa.Table):
        return Rows.of(value).read_all()
    found = stream_of(value)
    if isinstance(value, Iterator | list | tuple):  # an error of an iterator is raised as it is
        return found.read_all()
    table: pa.Table = _library_rows(found.read_all)
    return table


def _library_rows(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (Unfit, InvalidArgumentError):
        raise
    except Exception as error:
        raise Unfit(_reason(error)) from error


def _reason(error: Exception) -> str:
    """What an error says, without the traceback that Arrow puts behind it."""
    text = str(error.args[0]) if error.args and isinstance(error, pa.ArrowException) else str(error)
    return text.partition(". Detail: Python exception: Traceback")[0].rstrip(".")


def stream_of(value: Any) -> Rows:
    """The rows that a caller gives, which can be read once.

    Raises:
        Unfit: the value has no rows, or its library fails.
    """
    if isinstance(value, Rows):  # checked by the method that calls this one
        return value
    if isinstance(value, Iterator) and not hasattr(value, "__arrow_c_stream__"):
        return _rows_of_batches(value)
    if isinstance(value, list | tuple):
        return _rows_of_batches(iter(value))
    found: Rows = _library_rows(lambda: _stream_of_library(value))
    return found


def _stream_of_library(value: Any) -> Rows:
    """The rows of an object of another library, by the first of these interfaces that it has. Most libraries have
    several, so the order decides.
    """
    if isinstance(value, pa.Table | pa.RecordBatch):
        return Rows(value.schema, [value])
    if _is_frame_of("pandas", value):
        _check_unique_names(list(value.columns))
        return Rows.of(_frame_rows(_from_pandas, value))
    if callable(getattr(value, "to_frame", None)) and not hasattr(value, "columns"):
        raise Unfit("it is one column", remedy="Pass a frame with this column: column.to_frame().")
    if hasattr(value, "scanner"):  # a data set
        value = value.scanner()
    reader = value.to_reader() if hasattr(value, "to_reader") else value
    if isinstance(reader, pa.RecordBatchReader):
        return _read_once(reader)
    if hasattr(value, "__arrow_c_stream__"):
        reader = _frame_rows(_exported, value)
        return Rows(reader.schema, _reader_batches(reader))
    if hasattr(value, "__arrow_c_array__"):
        batch = pa.record_batch(value)
        return Rows(batch.schema, [batch])
    if hasattr(value, "__dataframe__"):
        from pyarrow.interchange import from_dataframe  # noqa: PLC0415 - few data frames have nothing else

        return Rows.of(from_dataframe(value))
    if callable(getattr(value, "to_arrow", None)):
        return stream_of(value.to_arrow())
    for method, (reason, remedy) in _CLOSE.items():
        if callable(getattr(value, method, None)):
            raise Unfit(reason, remedy=remedy)
    raise Unfit


# What is nearly rows, by a method that it has.
_CLOSE = {
    "toArrow": (
        "it is rows of Spark",
        'Write them with Spark: rows.write.format("delta"), or pass rows.toArrow(), which is held in memory.',
    ),
    "collect": ("it is a query that has not run", "Pass the rows of the query: query.collect()."),
}


def _check_unique_names(names: Sequence[Any]) -> None:
    counts = Counter(map(str, names))
    if twice := [name for name in counts if counts[name] > 1]:
        remedy = f"Rename or drop all but one: {twice[0]}."
        raise Unfit(
            f"it has {counts[twice[0]]} columns named {twice[0]}",
            expected="rows whose columns have different names",
            remedy=remedy,
        )


def _exported(frame: Any) -> pa.RecordBatchReader:
    """The rows of a frame that exports Arrow data."""
    if not _is_frame_of("polars", frame):
        return pa.RecordBatchReader.from_stream(frame)
    if any(str(kind) == "Object" for kind in frame.dtypes):  # exported as addresses in memory
        raise TypeError("values are objects of Python")
    return pa.RecordBatchReader.from_stream(frame)


def _frame_rows(convert: Callable[[Any], Any], frame: Any) -> Any:
    """The rows of a frame.

    Raises:
        Unfit: with the first column that cannot be converted, if one alone is the reason.
    """
    try:
        return convert(frame)
    except Unfit:
        raise
    except Exception as error:
        for name in getattr(frame, "columns", ()):
            try:
                part = frame[[name]]
            except Exception:  # such as a relation of DuckDB, which has columns but no such parts
                break
            try:
                convert(part)
            except Exception as reason:
                raise _unfit_column(name, next(iter(part.dtypes), None), _reason(reason)) from error
        raise


def _unfit_column(name: Any, kind: object, reason: str) -> Unfit:
    expected = "rows whose columns each have one type that Arrow data can represent"
    remedy = (
        f"Cast column {name}, for example to text, to a decimal or to int64; give values of several types a single one."
    )
    return Unfit(f"column {name} of type {kind}: {reason}", expected=expected, remedy=remedy)


def _rows_of_batches(batches: Iterator[Any]) -> Rows:
    """The rows of an iterator of batches, all with the schema of the first. An error of the iterator is raised as it
    is.
    """
    first = next(batches, None)
    if first is None:
        raise Unfit("it has no batch, so that the columns are not known")
    if not isinstance(first, pa.RecordBatch | pa.Table):
        raise Unfit(f"its first item is {described(first)}")
    return Rows(first.schema, chain([first], (_alike(batch, first.schema) for batch in batches)))


def _alike(batch: Any, schema: pa.Schema) -> pa.RecordBatch | pa.Table:
    """A batch of a stream, which must have the schema of the first one."""
    expected = f"a stream of pyarrow.RecordBatch with the columns {_columns_told(schema)}"
    if not isinstance(batch, pa.RecordBatch | pa.Table):
        found = described(batch)
    elif batch.schema.equals(schema):
        return batch
    else:
        found = f"a batch with the columns {_columns_told(batch.schema)}"
    raise InvalidArgumentError(
        argument="data",
        table="the table",
        found=found,
        expected=expected,
        remedy="Give every batch the schema of the first.",
    )


def _columns_told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _is_frame_of(library: str, value: Any) -> bool:
    return any(
        f"{kind.__module__.partition('.')[0]}.{kind.__name__}" == f"{library}.DataFrame" for kind in type(value).__mro__
    )


def _from_pandas(frame: Any) -> pa.Table:
    """An Arrow table from a pandas frame. A named index level becomes a column; an unnamed level only numbers the rows,
    and is dropped.
    """
    names = frame.index.names
    if twice := [name for name in names if name is not None and name in frame.columns]:
        raise Unfit(f"its index and a column are both named {twice[0]}")
    unnamed = [level for level, name in enumerate(names) if name is None]
    rows = frame.reset_index(level=unnamed, drop=True) if unnamed else frame
    return pa.Table.from_pandas(rows, preserve_index=len(unnamed) < len(names))


def _read_once(reader: pa.RecordBatchReader) -> Rows:
    if reader in _read:
        raise Unfit(
            "an earlier call has already consumed its batches: create a new one, or pass the table returned by "
            "its read_all()"
        )
    _read.add(reader)
    return Rows(reader.schema, _reader_batches(reader))


def _reader_batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except pa.ArrowException as error:
        detail = _reason(error)
        found, expected = f"a stream that fails ({detail})", "a stream of batches that can be read to its end"
        remedy = "Nothing was changed; mend the source of the rows."
        raise InvalidArgumentError(
            argument="data", table="the table", found=found, expected=expected, remedy=remedy
        ) from error
