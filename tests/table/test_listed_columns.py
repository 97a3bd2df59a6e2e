"""`delta.dataSkippingStatsColumns` follows the columns of a table through every operation that changes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import (
    DuplicateStatisticsColumnsError,
    PartitionStatisticsColumnError,
    StatisticsColumnError,
    StatisticsColumnNotFoundError,
    StatisticsColumnTypeError,
)
from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.types.schema import Field, Struct
from tahoe.table.verify.check import Kind, check_version
from tests.table.builders import memory_env
from tests.table.damage import rewrite

NAME = "delta.dataSkippingStatsColumns"
ROWS = pa.table({"id": [1], "k": [5], "s": [{"x": 1, "y": 2}], "m": [[1]], "p": [1]})
MAPPED = {"delta.columnMapping.mode": "name"}


def made(text: str | None = None, **properties: str) -> tahoe.Table:
    table = tahoe.Table("/t", env=memory_env())
    table.append(ROWS, partition_by=["p"], properties=properties if text is None else {NAME: text, **properties})
    return table


def listed(table: tahoe.Table) -> str | None:
    assert list(check_version(table.snapshot())) == []
    return table.properties.get(NAME)


def minima(table: tahoe.Table) -> set[str]:
    """The columns of which the newest file has bounds."""
    physical = {f.metadata.get("delta.columnMapping.physicalName", f.name): f.name for f in table.schema}
    newest = max(table.snapshot().full_scan.adds(), key=lambda add: add.modification_time_ms)
    return {physical[name] for name in json.loads(newest.stats or "{}").get("minValues", {})}


ILLEGAL = [
    ("nope", StatisticsColumnNotFoundError),
    ("p", PartitionStatisticsColumnError),
    ("m", StatisticsColumnTypeError),
    ("id,ID", DuplicateStatisticsColumnsError),
    ("s,s.x", DuplicateStatisticsColumnsError),
]


@pytest.mark.parametrize(("text", "error"), ILLEGAL)
def test_illegal_lists_are_refused(text: str, error: type[StatisticsColumnError]) -> None:
    with pytest.raises(error):
        made(text)
    table = made()
    with pytest.raises(error), table.transaction() as changes:
        changes.set_properties({NAME: text})
    assert table.version == 0


def overwritten(*names: str, **options: Any) -> Callable[[tahoe.Table], Any]:
    return lambda table: table.overwrite(ROWS.select(names), overwrite_schema=True, **options)


def changed(change: Callable[[Any], Any]) -> Callable[[tahoe.Table], Any]:
    def run(table: tahoe.Table) -> None:
        with table.transaction() as changes:
            change(changes)

    return run


def without(name: str) -> Callable[[Any], Any]:
    return lambda changes: changes.set_schema(Struct(tuple(f for f in changes.table.schema if f.name != name)))


def renamed(changes: Any) -> None:
    fields = (
        Field(name="other" if f.name == "k" else f.name, type=f.type, metadata=f.metadata) for f in changes.table.schema
    )
    changes.set_schema(Struct(tuple(fields)))


# the list, a change, and what is left of the list
CHANGES = [
    ("k", overwritten("id", "p"), None),
    ("k,id", overwritten("id", "p"), "id"),
    ("k,id", overwritten("id", "k"), "k,id"),
    ("id,k", overwritten("id", "k", partition_by=["k"]), "id"),
    ("s.x,s.y", lambda t: t.overwrite(pa.table({"s": [{"y": 1}]}), overwrite_schema=True), "s.y"),
    ("k,id", lambda t: t.overwrite(pa.table({"k": [[1]], "id": [1]}), overwrite_schema=True), "id"),
    ("k", changed(lambda c: c.drop_columns(["k"])), None),
    ("k,s.x", changed(lambda c: c.drop_columns(["k"])), "s.x"),
    ("k,s.x", changed(lambda c: c.rename_column("k", "other")), "other,s.x"),
    ("k,s.x", changed(without("k")), "s.x"),
    ("k,s.x", changed(renamed), "other,s.x"),
]


@pytest.mark.parametrize(("text", "change", "left"), CHANGES)
def test_the_list_follows_the_columns(text: str, change: Callable[[tahoe.Table], Any], left: str | None) -> None:
    """Without a column that exists, new files would have no statistics, and the reference would refuse any change."""
    table = made(text, **MAPPED)
    change(table)
    assert listed(table) == left


@pytest.mark.parametrize(
    ("change", "left"),
    [(without("k"), "id"), (renamed, "other,id"), (lambda c: c.rename_column("k", "other"), "other,id")],
)
def test_bloom_filters_follow_the_columns(change: Callable[[Any], Any], left: str) -> None:
    table = made(None, **MAPPED, **{"tahoe.bloomFilters": "k,id"})
    changed(change)(table)
    assert table.properties["tahoe.bloomFilters"].replace(" ", "") == left


def test_files_have_statistics_after_the_only_listed_column_is_gone() -> None:
    table = made("k")
    overwritten("id", "p")(table)
    table.append(ROWS.select(["id", "p"]))
    assert minima(table) == {"id"}


@pytest.mark.parametrize(("text", "bounds", "left"), [("gone", {"id", "k", "s", "new"}, None), ("gone,k", {"k"}, "k")])
def test_a_list_that_another_writer_has_left_is_told_and_does_no_harm(
    text: str, bounds: set[str], left: str | None
) -> None:
    table = made("k")
    rewrite(table.env, 0, lambda a: a.replace(configuration={NAME: text}) if isinstance(a, Metadata) else a)
    table = tahoe.Table(table.url, env=table.env)
    (found,) = [found for found in check_version(table.snapshot()) if found.kind is Kind.WRONG_STATISTICS_COLUMNS]
    assert "gone" in found.detail
    table.append(ROWS)
    assert minima(table) == bounds - {"new"}
    with table.transaction() as changes:
        changes.set_properties({"owner": "me"})
    table.append(ROWS.append_column("new", pa.array([1])), merge_schema=True)
    assert (table.count(), listed(table)) == (3, left)
