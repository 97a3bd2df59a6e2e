"""A query inside of a text is found as it was written."""

from __future__ import annotations

import pytest

from tahoe.sql.queries import UNKNOWN, only_query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("IN (SELECT id FROM gone)", "SELECT id FROM gone"),
        ("DELETE FROM t WHERE x > (select max(x) from (select 1 as x)) + 1", "select max(x) from (select 1 as x)"),
        ("NOT IN ( WITH a AS (SELECT 1) SELECT ')' FROM a )", "WITH a AS (SELECT 1) SELECT ')' FROM a"),
        ("EXISTS (SELECT 1) OR EXISTS (SELECT 2)", UNKNOWN),
        ("id IN (1, 2)", UNKNOWN),
        ("IN (SELECT 1", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_the_only_query_of_a_text(text: str, query: str) -> None:
    assert only_query(text) == query
