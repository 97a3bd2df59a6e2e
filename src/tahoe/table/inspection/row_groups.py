"""The row groups of the data files of a version, from their footers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tahoe.errors import DataFileMissingError, InvalidDataFileError
from tahoe.storage.threads import in_threads
from tahoe.table.arrow.parquet import open_parquet
from tahoe.table.inspection.inspection import Column, Inspection
from tahoe.table.reading.snapshot import Snapshot

_COLUMNS = (
    Column(name="path", type=pa.string(), meaning="data file, as in the log"),
    Column(name="row_group", type=pa.int64(), meaning="number of the row group in its file, from 0"),
    Column(name="first_row", type=pa.int64(), meaning="row index of its first row in the file"),
    Column(name="num_rows", type=pa.int64(), meaning="its rows, deleted ones included"),
    Column(name="size_bytes", type=pa.int64(), meaning="size of its columns as stored, in bytes"),
    Column(name="uncompressed_bytes", type=pa.int64(), meaning="their size before compression, in bytes"),
    Column(name="compression", type=pa.string(), meaning="codecs of its columns, separated by commas"),
    Column(name="written_by", type=pa.string(), meaning="program that wrote the file"),
)


def _row_groups(snapshot: Snapshot) -> dict[str, pa.ChunkedArray]:
    schema = pa.schema([(column.name, column.type) for column in _COLUMNS])
    files = snapshot.files(columns=["path", "url"])
    named = ((path.as_py(), url.as_py()) for path, url in zip(files.column("path"), files.column("url"), strict=True))
    found = pa.concat_tables(
        [schema.empty_table(), *in_threads(lambda file: _file_row_groups(snapshot, *file, schema), named)]
    )
    return dict(zip(found.column_names, found.columns, strict=True))


def _file_row_groups(snapshot: Snapshot, path: str, url: str, schema: pa.Schema) -> pa.Table:
    """The row groups of one file.

    Raises:
        DataFileMissingError, InvalidDataFileError: the file does not exist, or is not a Parquet file.
    """
    store, key = snapshot.log.locate(url)
    try:
        with open_parquet(store, key) as file:
            return pa.Table.from_pylist(_row_groups_of(path, file.metadata), schema=schema)
    except FileNotFoundError as error:
        raise DataFileMissingError.of(table=snapshot.url, file=path, version=snapshot.version) from error
    except (OSError, pa.ArrowException) as error:
        raise InvalidDataFileError(table=snapshot.url, file=path, detail=str(error)) from error


def _row_groups_of(path: str, footer: pq.FileMetaData) -> list[dict[str, object]]:
    """A row for each row group, by a file's footer."""
    rows: list[dict[str, object]] = []
    start = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        columns = [group.column(position) for position in range(group.num_columns)]
        rows.append(
            {
                "path": path,
                "row_group": number,
                "first_row": start,
                "num_rows": group.num_rows,
                "size_bytes": sum(column.total_compressed_size for column in columns),
                "uncompressed_bytes": group.total_byte_size,
                "compression": ", ".join(sorted({column.compression for column in columns})),
                "written_by": footer.created_by,
            }
        )
        start += group.num_rows
    return rows


ROW_GROUPS = Inspection(
    name="row_groups",
    rows="a row group of a data file; the footers of all files are read",
    columns=_COLUMNS,
    read=_row_groups,
)
