"""Every file that is added to a clustered table has statistics of the clustering columns. Protocol: "Clustered
Table".
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import MetadataChangedException
from tahoe.protocol.log.actions import Add, DeletionVectorDescriptor, DomainMetadata, Remove
from tahoe.protocol.log.deletion_vector import RELATIVE
from tahoe.protocol.statistics.clustering import DOMAIN, columns_without_statistics
from tahoe.table.layout.compaction import Bin
from tahoe.table.layout.optimize import OptimizeReport, OptimizeRequest, optimize, rewritten_in_threads
from tahoe.table.layout.rewriting import Rewritten
from tahoe.table.writing.write_plan import WritePlan
from tests.table.builders import memory_env, put_commit

_names = itertools.count()


def made(commits: int, properties: dict[str, str]) -> tahoe.Table:
    table = tahoe.Table(f"memory://t{next(_names)}", env=memory_env())
    for number in range(commits):
        table.append(pa.table({"a": [number, number + 10], "b": [number, number + 20]}), properties=properties)
    return table


def cluster(table: tahoe.Table, column: str) -> None:
    with tahoe.Table(table.url, env=table.env).transaction() as changes:
        changes.set_properties({"delta.dataSkippingStatsColumns": "a,b"})
        changes.cluster_by([(column,)])


def lacking(table: tahoe.Table) -> list[str]:
    """The clustering columns of which a file that the newest version added has no statistics."""
    newest = tahoe.Table(table.url, env=table.env).snapshot()
    added = [action for action in table.log.read_version(newest.version) if isinstance(action, Add)]
    assert added
    return columns_without_statistics(newest.domains[DOMAIN], added)


def optimize_beside_clustering(table: tahoe.Table, column: str) -> OptimizeReport:
    def rewriter(plan: WritePlan, bins: Sequence[Bin]) -> list[Rewritten | BaseException]:
        done = list(rewritten_in_threads(plan, bins))
        cluster(table, column)
        return done

    return optimize(table, OptimizeRequest(), rewriter=rewriter)


def test_optimize_drops_files_without_statistics_of_columns_by_which_the_table_is_clustered_meanwhile() -> None:
    table = made(2, {"delta.dataSkippingNumIndexedCols": "1", "delta.feature.clustering": "supported"})
    with pytest.raises(MetadataChangedException, match="clustered the table by b"):
        optimize_beside_clustering(table, "b")
    assert table.version == 2
    assert len([info for info in table.env.store.walk() if info.key.endswith(".parquet")]) == 2, (
        "the new file is deleted"
    )


def test_optimize_keeps_files_that_have_them() -> None:
    table = made(2, {"delta.dataSkippingNumIndexedCols": "1", "delta.feature.clustering": "supported"})
    report = optimize_beside_clustering(table, "a")
    assert (report.version, report.bins_dropped) == (3, 0)
    assert lacking(table) == []


def with_lost_vector() -> tahoe.Table:
    """A clustered table with a file whose deletion vector does not exist."""
    table = made(1, {"delta.enableDeletionVectors": "true"})
    cluster(table, "b")
    entry = next(iter(table.snapshot().live.adds()))
    vector = DeletionVectorDescriptor(
        storage_type=RELATIVE, path_or_inline="ab^-aqEH.-t@S}K{vb[*k^", offset=1, size_bytes=36, cardinality=1
    )
    marked = entry.replace(
        deletion_vector=vector, stats=str(entry.stats)[:-1] + ',"tightBounds":false}', data_change=True
    )
    put_commit(
        table.env, table.version + 1, [Remove(path=entry.path, deletion_timestamp_ms=1, data_change=True), marked]
    )
    return table


def test_repair_restores_rows_with_their_statistics_in_one_commit() -> None:
    table = with_lost_vector()
    before = table.version
    report = table.repair(unreadable_vectors="restore_rows")
    assert report.version == table.version == before + 1
    assert lacking(table) == []
    (entry,) = table.snapshot().live.adds()
    expected = {
        "numRecords": 2,
        "minValues": {"a": 0, "b": 0},
        "maxValues": {"a": 10, "b": 20},
        "nullCount": {"a": 0, "b": 0},
    }
    assert json.loads(str(entry.stats)) == expected


def test_repair_restores_rows_of_a_file_whose_statistics_cannot_be_computed(caplog: pytest.LogCaptureFixture) -> None:
    table = with_lost_vector()
    (entry,) = table.snapshot().live.adds()
    table.env.store.put(entry.path, b"not a Parquet file")
    assert table.repair(unreadable_vectors="restore_rows").version == table.version
    (restored,) = table.snapshot().live.adds()
    assert (restored.deletion_vector, restored.stats) == (None, None)
    assert "statistics could not be computed" in caplog.text


@pytest.mark.parametrize("stored", ['["a"]', '[["a"]]'])
def test_a_clustering_column_is_a_name_or_a_list_of_names(stored: str) -> None:
    """In the protocol's example it is a name."""
    env = memory_env()
    table = tahoe.Table(env.store.url, env=env)
    table.append(pa.table({"a": [1], "b": [1]}), properties={"delta.feature.clustering": "supported"})
    put_commit(env, 1, [DomainMetadata(domain=DOMAIN, configuration=f'{{"clusteringColumns":{stored}}}')])
    table.append(pa.table({"a": [2], "b": [2]}))
    assert table.snapshot().clustering_columns == (("a",),)
    assert not lacking(table)
