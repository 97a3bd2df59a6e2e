"""Tables of other writers have a report, and its rows are theirs: no log that can be read is too odd for a page."""

from __future__ import annotations

import pytest

import tahoe
from tests.golden import tables

pytestmark = pytest.mark.golden


@pytest.fixture(autouse=True)
def _folder() -> None:
    tables.require_folder()


@pytest.mark.parametrize("name", tables.names_with_expected_rows() or ["none"])
def test_a_table_has_a_page_with_its_numbers(name: str) -> None:
    table = tahoe.Table(tables.path(name))
    report = table.report()
    figures, listing = report.figures, table.files()
    assert (figures.files, figures.size_bytes) == (listing.num_rows, sum(listing["size_bytes"].to_pylist()))
    assert figures.rows.count in (None, tables.expected_rows(name).num_rows)
    assert figures.partitions is None or sum(found.files for found in figures.partitions.largest) <= figures.files
    assert all(
        0 <= share <= 1 for found in figures.skipping.columns for share in (found.equality_skipped, found.range_skipped)
    )
    assert "</html>" in report.html
