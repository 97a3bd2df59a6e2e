"""Skipping over columns keeps the files that skipping one file at a time keeps, whatever the statistics look like."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.log.actions import Metadata
from tahoe.protocol.statistics.skipping import skipping_test
from tahoe.protocol.statistics.stat_tests import may_match
from tahoe.protocol.statistics.stats import parse_statistics
from tahoe.protocol.types.partitions import parse_partition_value
from tahoe.protocol.types.schema import LONG
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import load_snapshot
from tests.property.random_statistics import PREDICATES, SCHEMA, statistics
from tests.table.builders import PROTOCOL, add, memory_env, put_commit


@given(
    st.lists(st.tuples(statistics(), st.sampled_from(["1", "2", None])), min_size=1, max_size=4),
    PREDICATES,
    st.sampled_from([100, 1]),
)
def test_columnar_skipping_equals_skipping_file_by_file(files, predicate, listed):
    env = memory_env()
    metadata = Metadata(id="t", schema_string=SCHEMA.to_json(), partition_columns=("p",))
    adds = [add(f"f{i}", stats=text, partition_values={"p": value}) for i, (text, value) in enumerate(files)]
    put_commit(env, 0, [PROTOCOL, metadata, *adds])
    with patch("tahoe.protocol.statistics.skipping.IN_VALUES_MAX", listed):
        kept = set(load_snapshot(Log(env)).scan(predicate).column("path").to_pylist())
        test = skipping_test(predicate, SCHEMA, ["p"])
    expected = {
        f"f{i}"
        for i, (text, value) in enumerate(files)
        if may_match(test, parse_statistics(text, SCHEMA), {"p": parse_partition_value(value, LONG)})
    }
    assert kept == expected
