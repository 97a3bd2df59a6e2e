"""What errors tell about rows and about files that VACUUM has deleted."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import DataFileMissingError, DeletionVectorError, DeltaDataError
from tahoe.table.reading.constraints import row_text

ROWS = [
    ({"amount": Decimal("-5.00")}, '{"amount":-5.00}'),
    ({"a": None, "b": True, "c": 1, "d": "é\n"}, '{"a":null,"b":true,"c":1,"d":"é\\n"}'),
    ({"day": dt.date(2026, 1, 2)}, '{"day":"2026-01-02"}'),
    ({"at": dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)}, '{"at":"2026-01-02T03:00:00.000Z"}'),
    ({"s": {"x": [1.5, float("nan")]}, "raw": b"\0\1"}, '{"s":{"x":[1.5,"nan"]},"raw":"AAE="}'),
]


@pytest.mark.parametrize(("row", "text"), ROWS)
def test_a_row_is_told_as_json_as_sparks_to_json_tells_it(row, text):
    assert row_text(row) == text


@pytest.mark.parametrize("has_vectors", [True, False])
def test_a_version_that_vacuum_has_deleted_is_told_as_that(tmp_path, has_vectors):
    """A deletion vector that is gone with its version is not damage, and no backup is needed."""
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"id": range(4000)}), properties={"delta.enableDeletionVectors": str(has_vectors).lower()})
    table.delete([("id", "in", list(range(0, 4000, 3)))])
    table.delete([("id", "in", list(range(1, 4000, 3)))])
    assert len(table.vacuum(0, retention_check=False).files) == (1 if has_vectors else 2)
    with pytest.raises(DeltaDataError, match=r"does not exist in the storage.*VACUUM.*read a newer one") as raised:
        table.to_arrow(version=1)
    assert raised.value.condition == "DELTA_FILE_NOT_FOUND" + (".DELETION_VECTOR" if has_vectors else "")
    assert isinstance(raised.value, DeletionVectorError if has_vectors else DataFileMissingError)
    assert table.count() == 1333
