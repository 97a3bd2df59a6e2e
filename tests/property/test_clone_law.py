"""The laws of CLONE: over any history a clone equals its source, a repeated one follows it, and a crash leaves the
target as it was.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import tahoe
from tahoe.protocol.configuration.features import supported_features
from tahoe.protocol.configuration.row_tracking import MATERIALISED
from tahoe.storage.env import Env
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.verify.check import check_table
from tests.examples import fewer
from tests.property.histories import STEPS, History, histories, rows
from tests.table.builders import memory_env
from tests.table.dying import deaths

_names = itertools.count()


def beside(env: Env, url: str) -> Env:
    """The environment of another folder of the same storage."""
    return replace(env, store=env.store_at(url))


def new_url() -> str:
    """A folder in memory, whose content is there for every store of that url."""
    return f"memory://cloned-{next(_names)}"


def check_equal(clone: Snapshot, source: Snapshot) -> None:
    assert rows(clone) == rows(source)
    assert (clone.schema, clone.partition_columns, clone.clustering_columns) == (
        source.schema,
        source.partition_columns,
        source.clustering_columns,
    )
    assert supported_features(clone.protocol) >= supported_features(source.protocol)
    own = {*MATERIALISED, "delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"}
    mine, theirs = ({k: v for k, v in s.properties.items() if k not in own} for s in (clone, source))
    assert {**mine, "delta.columnMapping.maxColumnId": ""} == {**theirs, "delta.columnMapping.maxColumnId": ""}
    if clone.row_tracking is not None:
        ids = clone.to_arrow(columns=["_metadata.row_id"])["_metadata.row_id"].to_pylist()
        assert None not in ids
        assert len(set(ids)) == len(ids)


@given(histories(), STEPS, st.booleans(), st.integers(0, 5))
@fewer(4)
def test_a_clone_equals_its_source_and_a_repeated_one_follows_it(
    table: tahoe.Table, more: list[tuple[str, Any]], shallow: bool, wanted: int
) -> None:
    source, url = table, new_url()
    target = beside(source.env, url)
    version = min(wanted, source.version)
    source.clone(url, shallow=shallow, version=version, env=target)
    clone = tahoe.Table(url, env=target)
    check_equal(clone.snapshot(), source.snapshot(version))
    assert [str(found) for found in check_table(clone.log)] == []
    first = rows(clone.snapshot())
    history = History(source, rows=1000, columns=1000)
    for step, what in more:
        history.do(step, what)
    before = {info.key: info.identity for info in source.env.store.walk()}
    clone.append(pa.table({"id": pa.array([5000], pa.int64()), "p": ["x"]}))
    source.clone(url, shallow=shallow, replace=True, env=target)
    check_equal(clone.snapshot(), source.snapshot())
    assert rows(clone.snapshot(0)) == first
    assert [str(found) for found in check_table(clone.log)] == []
    clone.vacuum(0, retention_check=False)
    assert rows(clone.snapshot()) == rows(source.snapshot())
    assert {info.key: info.identity for info in source.env.store.walk()} == before


def test_a_crash_at_any_storage_call_leaves_the_target_as_it_was() -> None:
    here, there = "", ""

    def world() -> Env:
        nonlocal here, there
        here, there = new_url(), new_url()
        source = tahoe.Table(here, env=beside(memory_env(), here))
        source.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", "a"]}), partition_by=["p"])
        source.append(pa.table({"id": pa.array([0], pa.int64()), "p": ["c"]}))
        target = tahoe.Table(there, env=beside(source.env, there))
        target.append(pa.table({"id": pa.array([9], pa.int64())}))
        return source.env

    def work(env: Env) -> None:
        tahoe.Table(here, env=env).clone(there, replace=True, env=beside(env, there))

    found = set()
    for env in deaths(work, world):
        target = tahoe.Table(there, env=beside(env, there))
        found.add((target.version, tuple(sorted(target.to_arrow()["id"].to_pylist()))))
        assert [str(finding) for finding in check_table(target.log)] == []
        work(env)
        assert sorted(target.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    assert found == {(0, (9,)), (1, (0, 1, 2, 3))}
