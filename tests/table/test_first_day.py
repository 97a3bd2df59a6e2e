"""What somebody who has not seen the software does wrong on a first day, and what the errors say."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    DeltaError,
    ExpressionFailedError,
    NewConstraintViolatedError,
    SchemaMismatchError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tests.table.builders import memory_env


def test_a_single_version_is_told_as_one() -> None:
    """`versions 18 to 18` reads as a mistake."""
    table = tahoe.Table("memory://first", env=memory_env())
    table.append(pa.table({"id": [1]}))
    for ask in (lambda: table.snapshot(7), lambda: table.restore(7)):
        with pytest.raises(VersionNotFoundError, match="only version 0 is available"):
            ask()
    with pytest.raises(TimestampOutOfRangeError, match="its only commit is of"):
        table.snapshot(timestamp="1999-01-01")


def test_a_constraint_that_rows_violate_cannot_be_dropped_for_it_is_not_there() -> None:
    table = tahoe.Table("memory://first", env=memory_env())
    table.append(pa.table({"id": [-1]}))
    with (
        pytest.raises(NewConstraintViolatedError, match="Delete or update such rows first") as raised,
        table.transaction() as changes,
    ):
        changes.add_constraint("positive", "id > 0")
    assert raised.value.condition == "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
    assert "drop" not in str(raised.value)


@pytest.mark.parametrize("write", ["append", "overwrite"])
def test_a_misspelt_column_of_new_rows_is_told_with_the_one_that_is_meant(write: str) -> None:
    table = tahoe.Table("memory://first", env=memory_env())
    table.append(pa.table({"id": [1], "amount": [1.5], "customer": ["a"]}))
    with pytest.raises(
        SchemaMismatchError, match=r"Did you mean amount instead of amont, customer instead of custommer\?"
    ):
        getattr(table, write)(pa.table({"id": [1], "amont": [1.5], "custommer": ["a"]}))
    with pytest.raises(SchemaMismatchError) as raised:  # the data has the column that is spelled alike
        getattr(table, write)(pa.table({"id": [1], "amount": [1.5], "amount2": [2], "customer": ["a"]}))
    assert "Did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("compute", "error", "told"),
    [
        (lambda table: table.update({"amount": "1 / (id - 1)"}), ExpressionFailedError, "of {}: "),
        (lambda table: table.delete("1 / (id - 1) > 0"), ExpressionFailedError, "of {}: "),
        (lambda table: table.to_arrow(filter="1 / (id - 1) > 0"), ExpressionFailedError, "of {}: "),
        (lambda table: table.update({"amount": "customer"}), DeltaError, "column amount of {}"),
    ],
    ids=["UPDATE", "DELETE", "read", "a value that does not fit"],
)
def test_an_expression_that_fails_names_the_table(
    compute: Callable[[tahoe.Table], object], error: type[DeltaError], told: str
) -> None:
    table = tahoe.Table("memory://first", env=memory_env())
    table.append(pa.table({"id": [1], "amount": [1.5], "customer": ["a"]}))
    with pytest.raises(error, match=told.format(re.escape(table.url))):
        compute(table)
