"""What errors tell about rows and about files that VACUUM has deleted."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    ColumnNotFoundError,
    DataFileMissingError,
    DeletionVectorError,
    DeltaDataError,
    DeltaError,
    InvalidPredicateError,
    NotADeltaTableError,
)
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


# The missing column, the columns that there are, and the one that is suggested: never one of the other side of a MERGE.
SUGGESTIONS = [
    ("amout", ["id", "amount"], "amount"),
    ("Amout", ["id", "AMOUNT"], "AMOUNT"),
    ("target.idd", ["target.id", "source.id"], "target.id"),
    ("source.id", ["target.id", "source.x"], None),
    ("SOURCE.amout", ["target.amount", "source.amount"], "source.amount"),
]


@pytest.mark.parametrize(("column", "columns", "suggested"), SUGGESTIONS)
def test_the_column_that_was_probably_meant_is_suggested(
    column: str, columns: list[str], suggested: str | None
) -> None:
    error = ColumnNotFoundError(table="t", column=column, columns=", ".join(columns))
    assert error.next_step.startswith(f"Did you mean {suggested}? " if suggested else "Check the spelling")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


REFUSED_VALUES: list[tuple[Callable[[tahoe.Table], Any], str]] = [
    (
        lambda t: t.update({"amount": "'cheap'"}),
        r"The value cheap for column amount of .* does not fit in double",
    ),
    (lambda t: t.update({"amount": "TRUE"}), r"column amount"),
    (
        lambda t: t.update({"amount": "nosuch(1)"}),
        r"NOSUCH\(1\) cannot be computed without Spark\. .*column amount, of type",
    ),
    (
        lambda t: t.delete("amount = 'x'"),
        r"The expression amount = 'x' .*: 'x' is not a valid double, the type of amount\.",
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSED_VALUES)
def test_a_refused_value_is_told_with_its_column(tmp_path: Path, call: Callable[[tahoe.Table], Any], text: str) -> None:
    table = tahoe.Table(str(tmp_path))
    table.append(pa.table({"id": [1], "amount": [1.5]}))
    with pytest.raises(DeltaError, match=text) as raised:
        call(table)
    assert isinstance(raised.value, InvalidPredicateError | DeltaDataError) or "column amount" in str(raised.value)


def test_a_folder_without_a_log_is_not_said_to_have_one(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").touch()
    with pytest.raises(NotADeltaTableError, match="it has no _delta_log with a commit or checkpoint"):
        tahoe.Table(str(tmp_path)).to_arrow()
