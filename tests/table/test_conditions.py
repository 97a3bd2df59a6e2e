"""The condition of each refusal without Spark is that of the same refusal under Spark: a program catches one of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tahoe import Table
from tahoe.errors import DeltaError
from tests.conditions import ASSIGNED, WRITTEN, Written, rows, table

KEY = pa.table({"k": [1]})


def condition(call: Callable[[], Any]) -> str:
    with pytest.raises(DeltaError) as raised:
        call()
    return raised.value.condition


@pytest.mark.parametrize("fault", WRITTEN, ids=lambda fault: fault.name)
def test_rows_are_refused_by_every_way_to_write(tmp_path: Path, fault: Written) -> None:
    made, data = table(str(tmp_path)), fault.data
    assert condition(lambda: made.append(data)) == fault.saved
    assert condition(lambda: made.append(data, merge_schema=True)) == fault.saved
    assert condition(lambda: made.overwrite(data)) == fault.saved
    assert condition(lambda: made.overwrite(data, "tiny = 1")) == fault.saved
    assert condition(lambda: made.merge(data, "false").when_not_matched_insert_all().execute()) == fault.merged
    assert condition(lambda: made.merge(data, "true").when_matched_update_all().execute()) == fault.merged
    assert (
        condition(lambda: made.merge(data, "false", merge_schema=True).when_not_matched_insert_all().execute())
        == fault.evolved
    )
    assert made.snapshot().version == 1


@pytest.mark.parametrize(("assigned", "expected"), ASSIGNED, ids=lambda case: str(case))
def test_assignments_are_refused_by_update_and_merge(
    tmp_path: Path, assigned: Mapping[str, str], expected: str
) -> None:
    made = table(str(tmp_path))
    assert condition(lambda: made.update(assigned)) == expected.split(", ")[0]
    assert (
        condition(lambda: made.merge(KEY, "true").when_matched_update(assigned).execute()) == expected.split(", ")[-1]
    )
    assert made.snapshot().version == 1


def test_an_insert_without_a_column_that_is_not_null(tmp_path: Path) -> None:
    made = table(str(tmp_path))
    call = made.merge(KEY, "false").when_not_matched_insert({"n": "1"}).execute
    assert condition(call) == "DELTA_MISSING_NOT_NULL_COLUMN_VALUE"


def test_duplicate_columns_are_told_with_their_place(tmp_path: Path) -> None:
    """The reference has one condition for each place where it finds them."""
    made, new, twice = (
        table(str(tmp_path / "t")),
        Table(str(tmp_path / "new")),
        pa.table([pa.array([1]), pa.array([1])], names=["n", "N"]),
    )
    for call in (
        lambda: made.append(twice),
        lambda: made.overwrite(twice, overwrite_schema=True),
        lambda: new.append(twice),
        lambda: made.merge(twice, "true").when_matched_update_all().execute(),
    ):
        assert condition(call) == "DELTA_DUPLICATE_COLUMNS_FOUND.DATA"
    assert (
        condition(lambda: new.append(rows(), partition_by=["n", "N"]))
        == "DELTA_DUPLICATE_COLUMNS_FOUND.PARTITION_COLUMNS"
    )
    assert condition(lambda: new.create(twice.schema)) == "DELTA_DUPLICATE_COLUMNS_FOUND.METADATA_UPDATE"
