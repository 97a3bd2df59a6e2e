"""Conditions over doubles are true, false or NULL as SQL defines it, with NaN, both zeros, infinities and NULL on
either side.

Reading, DELETE, replaceWhere and data skipping follow. `tests/spark/test_comparisons.py` has the same table against
Spark.
"""

from __future__ import annotations

from datetime import UTC

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tahoe
from tahoe.protocol.types.predicate import untrue
from tahoe.sql.predicates import parse_predicate
from tahoe.table.arrow.types import delta_schema
from tahoe.table.reading.evaluation import evaluate
from tahoe.table.reading.scan import plan_scan
from tests.property.comparisons import SCHEMA, Condition, conditions, rows
from tests.table.builders import memory_env

ROWS = rows()
DATA = pa.Table.from_pylist(ROWS, schema=SCHEMA)
CONDITIONS = conditions()
BY_TEXT = {each.text: each for each in CONDITIONS}


def ids(condition: Condition, *truths: bool | None) -> list[int]:
    return [row["k"] for row in ROWS if condition.truth(row) in truths]


def test_each_condition_is_true_false_or_null_as_it_is_defined() -> None:
    """And so is the condition of the rows that it leaves, as far as that can be told: a computed part makes it
    unknown.
    """
    schema, wrong = delta_schema(SCHEMA, table="t"), {}
    for condition in CONDITIONS:
        predicate, expected = parse_predicate(condition.text, schema, zone=UTC), [condition.truth(row) for row in ROWS]
        answers, stays = (evaluate(each, DATA).to_pylist() for each in (predicate, untrue(predicate)))
        if answers != expected or any(s not in (None, e is not True) for s, e in zip(stays, expected, strict=True)):
            wrong[condition.text] = [
                each for each in zip(ROWS, answers, stays, expected, strict=True) if each[1] != each[3]
            ][:2]
    assert not wrong, (len(wrong), dict(list(wrong.items())[:5]))


def a_file_a_row() -> tahoe.Table:
    table = tahoe.Table("memory://comparisons", env=memory_env())
    table.create(SCHEMA)
    with table.transaction() as transaction:
        for number in range(len(ROWS)):
            transaction.append(DATA.slice(number, 1))
    return table


@pytest.fixture(scope="module")
def single_rows() -> tahoe.Table:
    return a_file_a_row()


def test_files_of_one_row_are_skipped_by_their_statistics_only_where_the_condition_is_not_true(
    single_rows: tahoe.Table,
) -> None:
    """The files are in the order of the rows."""
    scan, schema = single_rows.snapshot().scan(), single_rows.snapshot().schema
    for condition in CONDITIONS:
        predicate = parse_predicate(condition.text, schema, zone=UTC)
        kept = set(plan_scan(predicate, scan).file_numbers.to_pylist())
        assert kept >= set(ids(condition, True)), condition.text


@given(st.sampled_from(sorted(BY_TEXT)), st.booleans())
@example("NOT (st.d BETWEEN 0.0D AND CAST('NaN' AS DOUBLE))", True)
@example("st.d NOT BETWEEN 0.0D AND CAST('NaN' AS DOUBLE)", False)
def test_reading_deleting_and_replacing_take_the_same_rows(text: str, has_vectors: bool) -> None:
    condition, table = BY_TEXT[text], tahoe.Table("memory://compared", env=memory_env())
    table.create(SCHEMA, properties={"delta.enableDeletionVectors": str(has_vectors).lower()})
    table.append(DATA)
    taken, left = ids(condition, True), ids(condition, False, None)
    assert table.to_arrow(filter=text).column("k").to_pylist() == taken
    table.overwrite(DATA.take(pa.array(taken, pa.int64())), filter=text)
    assert sorted(table.to_arrow().column("k").to_pylist()) == sorted(taken + left)
    table.delete(text)
    assert table.to_arrow().column("k").to_pylist() == left
