"""The output of Arrow tables. Apart, because Arrow takes longer to load than `tahoe --help` may take."""

from __future__ import annotations

import pyarrow as pa

from tahoe.cli.output import print_table
from tahoe.protocol.types.value_texts import cell
from tahoe.table.reading.plain_values import plain_rows


def print_rows(rows: pa.Table, *, more: int = 0) -> None:
    """Print rows of a table."""
    cells = [[cell(value) for value in row.values()] for row in plain_rows(rows)]
    print_table(
        rows.column_names, cells, right=[field.name for field in rows.schema if is_number(field.type)], more=more
    )


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
