"""Row tracking that is taken for enabled where it is not gives rows ids that mean nothing."""

from __future__ import annotations

import pytest

from tahoe.protocol.configuration.row_tracking import (
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    RowTracking,
    enabled_row_tracking,
)
from tahoe.protocol.log.actions import Protocol

SUPPORTED = Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"rowTracking", "domainMetadata"}))
ENABLED = {"delta.enableRowTracking": "true"}


def test_the_columns_are_those_that_the_table_names():
    names = {ROW_ID_COLUMN: "_row-id-col-x", ROW_COMMIT_VERSION_COLUMN: "_row-commit-version-col-x"}
    expected = RowTracking(row_id_column="_row-id-col-x", row_commit_version_column="_row-commit-version-col-x")
    assert enabled_row_tracking(SUPPORTED, {**ENABLED, **names}) == expected
    assert enabled_row_tracking(SUPPORTED, {"delta.enableRowTracking": " TRUE "}) == RowTracking(
        row_id_column=None, row_commit_version_column=None
    )


@pytest.mark.parametrize(
    ("protocol", "configuration"),
    [
        (SUPPORTED, {}),
        (SUPPORTED, {"delta.enableRowTracking": "false"}),
        (Protocol(reader_version=1, writer_version=2), ENABLED),
        (Protocol(reader_version=1, writer_version=7, writer_features=frozenset({"domainMetadata"})), ENABLED),
    ],
)
def test_supported_and_switched_on_are_both_needed(protocol, configuration):
    assert enabled_row_tracking(protocol, configuration) is None
