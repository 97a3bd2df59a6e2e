"""The small reader on tables that other writers made."""

from __future__ import annotations

import pytest

import tahoe
from tahoe.errors import DeltaError
from tests.golden import tables as golden

pytestmark = pytest.mark.golden


@pytest.fixture(autouse=True)
def _folder():
    golden.require_folder()


@pytest.mark.parametrize("name", golden.names_with_expected_rows() or ["none"])
def test_rows_are_as_the_other_writer_says(name):
    expected = golden.expected_rows(name)
    found = tahoe.Table(golden.path(name), time_zone=golden.ZONES.get(name, "UTC")).to_arrow()
    assert {n.lower() for n in found.column_names} == {n.lower() for n in expected.column_names}
    found = found.select([next(n for n in found.column_names if n.lower() == e.lower()) for e in expected.column_names])
    assert golden.sortable(found.to_pylist()) == golden.sortable(expected.to_pylist())


@pytest.mark.parametrize(("name", "condition"), golden.REFUSED.items())
def test_what_breaks_the_protocol_is_refused(name, condition):
    with pytest.raises(DeltaError) as caught:
        tahoe.Table(golden.path(name)).snapshot()
    assert caught.value.condition == condition
