"""`Table.diff`: what it tells of two versions is the difference of what both have."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import ColumnNotFoundError, DataFileMissingError, InvalidArgumentError
from tahoe.table.difference import rows as differing_rows
from tahoe.table.reading import rows as read_rows_module
from tests.table.builders import memory_env
from tests.table.feeds import random_life

VECTORS, COPIES = {"delta.enableDeletionVectors": "true"}, {"delta.enableDeletionVectors": "false"}
TRACKED = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
COLUMNS = ["id", "v", "part"]


def new_table() -> tahoe.Table:
    env = memory_env()
    return tahoe.Table(env.store.url, env=env)


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in rows.to_pylist())


def rows_at(table: tahoe.Table, version: int, columns: list[str] | None = None) -> list[dict[str, Any]]:
    return table.snapshot(version).to_arrow(columns).to_pylist()


@pytest.mark.parametrize("properties", [VECTORS, COPIES, VECTORS | MAPPED], ids=["vectors", "copies", "mapped"])
@pytest.mark.parametrize("seed", range(8))
def test_a_difference_is_that_of_the_rows_of_both_versions(
    seed: int, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whole rows, and by a key; in one unit, and in many that wait in files; forwards and backwards."""
    if seed % 2:
        monkeypatch.setattr(differing_rows, "_UNIT_FILE_BYTES", 1000)
        monkeypatch.setattr(differing_rows, "_MEMORY_BYTES", 1000)
    table, draw = random_life(new_table(), seed, properties), random.Random(seed)
    for _ in range(6):
        before, after = draw.randrange(table.version + 1), draw.randrange(table.version + 1)
        old, new = (Counter(repr(row) for row in rows_at(table, version)) for version in (before, after))
        found = table.diff(before, after)
        assert counted(found.inserted) == new - old
        assert counted(found.deleted) == old - new
        assert found.counts.inserted == (new - old).total()
        assert found.updated.num_rows == 0
        check_by_key(table, before, after)


def check_by_key(table: tahoe.Table, before: int, after: int) -> None:
    old, new = ({row["id"]: row for row in rows_at(table, version)} for version in (before, after))
    found = table.diff(before, after, keys=["ID"])
    assert {row["id"]: row for row in found.inserted.to_pylist()} == {k: new[k] for k in new.keys() - old.keys()}
    assert {row["id"]: row for row in found.deleted.to_pylist()} == {k: old[k] for k in old.keys() - new.keys()}
    updated = {k: (old[k], new[k]) for k in old.keys() & new.keys() if old[k] != new[k]}
    assert {row["after"]["id"]: (row["before"], row["after"]) for row in found.updated.to_pylist()} == updated
    assert (found.matched_by, found.counts.updated) == ("keys", len(updated))
    differ = Counter(name for was, now in updated.values() for name in now if was[name] != now[name])
    assert dict(found.updated_columns) == dict(differ)


@pytest.mark.parametrize("vectors", [VECTORS, COPIES], ids=["vectors", "copies"])
@pytest.mark.parametrize("seed", range(6))
def test_with_row_tracking_rows_are_matched_by_their_ids(seed: int, vectors: dict[str, str]) -> None:
    table = random_life(new_table(), seed, {**TRACKED, **vectors})
    for before in range(table.version):
        named = ["_metadata.row_id", *COLUMNS]
        old, new = (
            {row.pop("_metadata.row_id"): row for row in rows_at(table, version, named)}
            for version in (before, table.version)
        )
        found = table.diff(before)
        assert found.matched_by == "row ids"
        assert counted(found.inserted) == Counter(repr(new[k]) for k in new.keys() - old.keys())
        assert counted(found.deleted) == Counter(repr(old[k]) for k in old.keys() - new.keys())
        updated = Counter(
            repr({"before": old[k], "after": new[k]}) for k in old.keys() & new.keys() if old[k] != new[k]
        )
        assert counted(found.updated) == updated


def test_what_both_versions_share_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file whose deletion vector changed, the rows that it deleted."""
    table = new_table()
    for number in range(3):
        table.append(pa.table({"id": [*range(number * 10, number * 10 + 10)]}), properties=None if number else VECTORS)
    table.delete("id = 3")
    table.delete("id = 4")
    table.append(pa.table({"id": [100]}))
    opened: list[str] = []
    pieces = read_rows_module._pieces
    monkeypatch.setattr(
        read_rows_module,
        "_pieces",
        lambda snapshot, file, *a, **k: opened.append(file.path) or pieces(snapshot, file, *a, **k),
    )
    found = table.diff(3)
    assert (found.inserted.to_pylist(), found.deleted.to_pylist()) == ([{"id": 100}], [{"id": 4}])
    assert len(opened) == 2
    assert (len(found.files.added), len(found.files.changed_vectors), found.files.shared) == (1, 1, 2)
    assert table.diff(4, 4).is_empty


def test_rows_of_the_same_key_are_matched_once_each() -> None:
    table = new_table()
    table.append(pa.table({"k": ["a", "a", None], "v": [1, 2, 3]}))
    table.overwrite(pa.table({"k": ["a", "a", "a", None], "v": [2, 5, 6, 4]}))
    found = table.diff(0, keys=["k"])
    assert (found.counts.inserted, found.counts.deleted, found.counts.updated) == (1, 0, 2)
    pairs = {(row["before"]["v"], row["after"]["k"]) for row in found.updated.to_pylist()}
    assert pairs == {(1, "a"), (3, None)}


NESTED = [
    {"s": {"a": 1, "b": [1, 2]}, "m": [("x", 1.5)], "l": [[1], []], "t": "é", "d": b"\x00\xff", "f": math.nan},
    {"s": {"a": None, "b": []}, "m": [], "l": [], "t": "", "d": b"", "f": 0.0},
    {"s": None, "m": None, "l": None, "t": None, "d": None, "f": None},
    {"s": {"a": 1, "b": None}, "m": [("x", None)], "l": [None, [None]], "t": "é ", "d": b"\x00", "f": 1.0},
]
NESTED_TYPES = pa.schema(
    [
        ("s", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))])),
        ("m", pa.map_(pa.string(), pa.float64())),
        ("l", pa.list_(pa.list_(pa.int32()))),
        ("t", pa.string()),
        ("d", pa.binary()),
        ("f", pa.float64()),
    ]
)


@pytest.mark.parametrize("unit_bytes", [1 << 30, 10])
def test_nested_values_are_compared_by_what_they_hold(unit_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Null, empty and absent values differ; equal rows are equal whatever they hold, NaN and -0.0 too."""
    monkeypatch.setattr(differing_rows, "_UNIT_FILE_BYTES", unit_bytes)
    for left in range(len(NESTED)):
        table = new_table()
        table.append(pa.Table.from_pylist(NESTED, schema=NESTED_TYPES))
        others = [*NESTED[:left], *NESTED[left + 1 :], NESTED[left - 1]]
        table.overwrite(
            pa.Table.from_pylist(
                [{**row, "f": -0.0 if row["f"] == 0 else row["f"]} for row in others], schema=NESTED_TYPES
            )
        )
        found = table.diff(0)
        assert [repr(row) for row in found.deleted.to_pylist()] == [repr(NESTED[left])]
        assert found.counts.inserted == 1
        assert table.diff(0, 0).is_empty


def test_columns_are_told_apart_by_their_names_in_files() -> None:
    """A renamed column has its rows; an added one is null before; a dropped one is left out."""
    table = new_table()
    table.append(pa.table({"id": [1, 2], "old": ["a", "b"], "gone": [1, 2]}), properties=MAPPED)
    with table.transaction() as changes:
        changes.rename_column("old", "new")
    with table.transaction() as changes:
        changes.drop_columns(["gone"])
    with table.transaction() as changes:
        changes.add_columns([pa.field("extra", pa.string())])
    found = table.diff(0)
    assert [(c.column, c.kind, c.before, c.after) for c in found.schema] == [
        ("new", "renamed", "old", "new"),
        ("extra", "added", None, "string"),
        ("gone", "dropped", "long", None),
    ]
    assert found.counts.inserted + found.counts.deleted == 0
    table.update({"extra": "'x'"}, "id = 2")
    found = table.diff(0, keys=["id"])
    assert found.updated.to_pylist() == [
        {"before": {"id": 2, "new": "b", "extra": None}, "after": {"id": 2, "new": "b", "extra": "x"}}
    ]


def test_rows_before_column_mapping_was_enabled_have_their_values() -> None:
    """In both directions: files are read by the physical names, which one version tells."""
    table = new_table()
    table.append(pa.table({"id": [1, 2], "old": ["a", "b"]}), properties=COPIES)
    with table.transaction() as changes:
        changes.set_properties(MAPPED)
    with table.transaction() as changes:
        changes.rename_column("old", "new")
    table.update({"new": "'c'"}, "id = 2")
    assert table.diff(0, keys=["id"]).updated.to_pylist() == [
        {"before": {"id": 2, "new": "b"}, "after": {"id": 2, "new": "c"}}
    ]
    assert table.diff(table.version, 0, keys=["id"]).updated.to_pylist() == [
        {"before": {"id": 2, "old": "c"}, "after": {"id": 2, "old": "b"}}
    ]


def test_another_schema_is_compared_by_names() -> None:
    """Wider types on either side; a type that does not fit is null before; a new table of the same names."""
    table = new_table()
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["1", "2"], "w": [1, 2]}), properties=MAPPED)
    table.overwrite(pa.table({"id": pa.array([1, 2], pa.int64()), "v": [1, 2], "w": [1, 3]}), overwrite_schema=True)
    found = table.diff(0, keys=["id"])
    assert [row["before"] for row in found.updated.to_pylist()] == [
        {"id": 1, "v": None, "w": 1},
        {"id": 2, "v": None, "w": 2},
    ]
    back = table.diff(1, 0, keys=["id"])
    assert back.counts == found.counts
    assert back.updated.schema.field("after").type.field("id").type == pa.int64()


def test_settings_that_differ() -> None:
    table = new_table()
    table.append(pa.table({"id": [1], "p": [1]}), partition_by=["p"])
    with table.transaction() as changes:
        changes.set_properties({"delta.enableDeletionVectors": "true", "delta.appendOnly": "false"})
    found = table.diff(0)
    assert [(c.name, c.before, c.after) for c in found.properties] == [
        ("delta.appendOnly", None, "false"),
        ("delta.enableDeletionVectors", None, "true"),
    ]
    assert ("feature deletionVectors", None, "supported") in [(c.name, c.before, c.after) for c in found.protocol]
    table.overwrite(pa.table({"id": [1], "p": [1]}), overwrite_schema=True, partition_by=[])
    assert [(c.name, c.before, c.after) for c in table.diff(0).layout] == [("partitioned by", "p", None)]
    assert table.diff(0, 1).is_empty is False


def test_what_cannot_be_told_is_an_error() -> None:
    table = new_table()
    table.append(pa.table({"id": [1]}), properties=COPIES)
    table.overwrite(pa.table({"id": [2]}))
    with pytest.raises(ColumnNotFoundError, match="nope"):
        _ = table.diff(0, keys=["nope"]).counts
    other = new_table()
    other.append(pa.table({"id": [1]}), properties=COPIES)
    other.overwrite(pa.table({"id": ["1"], "new": [1]}), overwrite_schema=True)
    for key in ("id", "new"):
        with pytest.raises(InvalidArgumentError, match=f"keys.*both versions have.*there is none.*{key}"):
            _ = other.diff(0, keys=[key]).counts
    table.env.store.delete(table.snapshot(0).files()["path"][0].as_py())
    found = table.diff(0)
    assert found.files.shared == 0
    with pytest.raises(DataFileMissingError):
        _ = found.counts


def test_a_page_and_a_notebook_show_values_as_text() -> None:
    table = new_table()
    table.append(pa.table({"id": [1, 2, 3], "t": ["<script>", "b", "c"]}))
    table.update({"t": "'<b>'"}, "id = 1")
    found = table.diff(0, keys=["id"])
    for html in (found.html(), found._repr_html_()):
        assert "&lt;script&gt; → &lt;b&gt;" in html
        assert "<script" not in html
    assert "and 1 row more" in table.diff(1, 0).html(0)
    assert found.to_dict(0)["rows"]["counts"] == {"inserted": 0, "deleted": 0, "updated": 1}
