"""`--format` and `--output`: rows as CSV, JSON lines, Parquet or Arrow, in a file or for another program."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from tahoe.protocol.types.value_texts import json_value

if TYPE_CHECKING:
    import pyarrow as pa


class RowFormat(StrEnum):
    """How rows are written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


Format = Annotated[
    RowFormat | None,
    typer.Option("--format", help="Write the rows so; the default follows from the ending of --output."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Write the rows into this file, which appears when it is complete."),
]

_BY_ENDING = {
    ".csv": RowFormat.CSV,
    ".jsonl": RowFormat.JSONL,
    ".ndjson": RowFormat.JSONL,
    ".json": RowFormat.JSONL,
    ".parquet": RowFormat.PARQUET,
    ".arrow": RowFormat.ARROW,
    ".arrows": RowFormat.ARROW,
}


def format_of(chosen: RowFormat | None, output: Path | None, *, as_json: bool) -> RowFormat | None:
    """The format of rows; None shows them as a table, or as one JSON array."""
    if as_json and (chosen is not None or output is not None):
        raise typer.BadParameter("it prints one JSON array: take --format jsonl for a file", param_hint="--json")
    if chosen is None and output is not None and output.suffix.lower() not in _BY_ENDING:
        known = ", ".join(sorted(_BY_ENDING))
        raise typer.BadParameter(f"{output} has none of the endings {known}: say --format", param_hint="--output")
    found = chosen if chosen is not None or output is None else _BY_ENDING[output.suffix.lower()]
    if output is None and found in (RowFormat.PARQUET, RowFormat.ARROW) and sys.stdout.isatty():
        raise typer.BadParameter(
            f"{found.value} is not for a terminal: give --output, or a pipe", param_hint="--format"
        )
    return found


def write_rows(reader: pa.RecordBatchReader, form: RowFormat, output: Path | None) -> None:
    """Write rows to a file, or to standard output."""
    with _opened(output) as file:
        _WRITERS[form](reader, file)


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    whole = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        with whole.open("wb") as file:
            yield file
        whole.replace(output)
    finally:
        whole.unlink(missing_ok=True)


def _csv(reader: pa.RecordBatchReader, file: BinaryIO) -> None:
    """With a heading. Null is empty; lists, maps and structs are JSON."""
    with _as_text(file) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(reader.schema.names)
        for row in _rows(reader):
            writer.writerow([_csv_value(value) for value in row])


def _csv_value(value: Any) -> object:
    plain = json_value(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list | bool) else plain


def _jsonl(reader: pa.RecordBatchReader, file: BinaryIO) -> None:
    with _as_text(file) as text:
        for row in _rows(reader):
            named = dict(zip(reader.schema.names, row, strict=True))
            text.write(json.dumps(json_value(named), ensure_ascii=False) + "\n")


@contextmanager
def _as_text(file: BinaryIO) -> Iterator[TextIOWrapper]:
    text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    try:
        yield text
    finally:
        text.detach()


def _rows(reader: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    import pyarrow as pa  # noqa: PLC0415 - `tahoe --help` does without it

    from tahoe.table.reading.plain_values import row_values  # noqa: PLC0415

    for batch in reader:
        yield from row_values(pa.table(batch))


def _parquet(reader: pa.RecordBatchReader, file: BinaryIO) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetWriter(file, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


def _arrow(reader: pa.RecordBatchReader, file: BinaryIO) -> None:
    """As a stream, which readers of files take as well."""
    import pyarrow as pa  # noqa: PLC0415

    with pa.ipc.new_stream(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


_WRITERS: Mapping[RowFormat, Callable[[pa.RecordBatchReader, BinaryIO], None]] = {
    RowFormat.CSV: _csv,
    RowFormat.JSONL: _jsonl,
    RowFormat.PARQUET: _parquet,
    RowFormat.ARROW: _arrow,
}
