"""Reads the columns of data files as Spark reads them, whoever wrote the files. Knows no table.

Names of columns match in any case, as in Delta schemas.
"""

from __future__ import annotations

import pyarrow as pa


def file_column(columns: pa.Schema | pa.StructType, name: str) -> pa.Field | None:
    """The column or field of a file that has a name: an exact match, or else the one that differs only in case.

    Raises:
        pyarrow.ArrowInvalid: several fit.
    """
    place = columns.get_field_index(name)
    if place >= 0:
        return columns.field(place)
    folded = name.lower()
    found = [field for field in columns if field.name.lower() == folded]
    if len(found) > 1:
        raise pa.ArrowInvalid(f"several of its columns match {name}, because case is ignored: {', '.join(f.name for f in found)}")
    return found[0] if found else None
