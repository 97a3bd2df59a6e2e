"""Declared keys without Spark: what keeps them, and which rows violate them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tahoe.errors import (
    ConstraintExistsError,
    ConstraintNotFoundError,
    InvalidArgumentError,
    InvalidKeyError,
    InvalidPropertyError,
)
from tahoe.protocol.configuration.declared_keys import with_column_moved
from tahoe.protocol.types.column_metadata import COLLATIONS
from tahoe.protocol.types.schema import LONG, STRING, Field, Struct
from tahoe.table.table import Table
from tahoe.table.verify import keys
from tahoe.table.verify.keys import key_findings
from tests.table.builders import memory_env, put_commit

NAN = float("nan")


def make(rows: Mapping[str, Any], location: Path | None = None, properties: Mapping[str, str] | None = None) -> Table:
    env = None if location is not None else memory_env()
    table = Table(location or env.store.url, env=env)  # type: ignore[union-attr]
    table.append(pa.table(dict(rows)), properties={"delta.columnMapping.mode": "name", **(properties or {})})
    return table


def declare(table: Table, name: str, *columns: str, **more: Any) -> None:
    with table.transaction() as changes:
        changes.add_key(name, columns, **more)


def names(table: Table) -> list[str]:
    return table.inspect.constraints()["name"].to_pylist()


# --- declaring


def test_keys_are_declared_shown_and_dropped() -> None:
    table = make({"id": [1], "day": ["a"]})
    with table.transaction() as changes:
        changes.add_key("pk", ["ID"], rely=True)
        changes.add_key("uq", ["day", "id"], "UNIQUE")
        changes.add_key("fk", ["day"], "FOREIGN KEY", references="/data/days", referenced_columns=["day"])
        changes.add_constraint("positive", "id > 0")
    before = table.protocol
    told = table.inspect.constraints().to_pylist()
    assert [(row["name"], row["type"], row["columns"], row["is_enforced"], row["rely"]) for row in told] == [
        ("pk", "PRIMARY KEY", ["id"], False, True),
        ("uq", "UNIQUE", ["day", "id"], False, False),
        ("fk", "FOREIGN KEY", ["day"], False, False),
        ("positive", "CHECK", None, True, True),
    ]
    assert (told[2]["referenced_table"], told[2]["referenced_columns"]) == ("/data/days", ["day"])
    with table.transaction() as changes:
        changes.drop_constraint("PK")
    assert names(table) == ["uq", "fk", "positive"]
    assert table.history()[0]["operationParameters"]["expr"] == "PRIMARY KEY (`id`)"
    with pytest.raises(ConstraintNotFoundError, match="positive, fk, uq"), table.transaction() as changes:
        changes.drop_constraint("pk")
    assert table.protocol == before


def test_a_key_asks_for_no_feature() -> None:
    plain = Table(memory_env().store.url, env=memory_env())
    plain.append(pa.table({"id": [1]}))
    before = plain.protocol
    declare(plain, "pk", "id")
    assert plain.protocol == before


def test_what_cannot_be_a_key_is_refused() -> None:
    table = make({"id": [1], "s": [{"x": 1}]})
    declare(table, "pk", "id")
    for error, name, column, more in (
        (InvalidKeyError, "k", "nothing", {"kind": "UNIQUE"}),
        (InvalidKeyError, "k", "s.x", {"kind": "UNIQUE"}),
        (InvalidKeyError, "k", "id", {}),
        (ConstraintExistsError, "PK", "id", {"kind": "UNIQUE"}),
        (InvalidArgumentError, "", "id", {"kind": "UNIQUE"}),
        (InvalidArgumentError, "k", "id", {"kind": "INDEX"}),
        (InvalidArgumentError, "k", "id", {"kind": "FOREIGN KEY", "references": "relative/path"}),
    ):
        with pytest.raises(error):
            declare(table, name, column, **more)
    with pytest.raises(ConstraintExistsError, match="PRIMARY KEY"), table.transaction() as changes:
        changes.add_constraint("pk", "id > 0")
    with pytest.raises(InvalidPropertyError, match="use ADD CONSTRAINT"), table.transaction() as changes:
        changes.set_properties({"tahoe.keys.k": '{"kind":"UNIQUE","columns":["nothing"]}'})
    with pytest.raises(InvalidKeyError, match="no column nothing"):
        Table("memory://new", env=memory_env()).create(
            pa.schema([("id", pa.int64())]), properties={"tahoe.keys.k": '{"kind":"UNIQUE","columns":["nothing"]}'}
        )


# --- what keeps them


def test_keys_go_with_their_columns(tmp_path: Path) -> None:
    table = make({"id": [1], "day": ["a"], "note": ["x"]}, tmp_path / "t")
    declare(table, "pk", "id")
    declare(table, "uq", "day", kind="UNIQUE")
    with table.transaction() as changes:
        changes.rename_column("id", "number")
        changes.drop_columns(["day"])
    (left,) = table.inspect.constraints().to_pylist()
    assert (left["name"], left["columns"]) == ("pk", ["number"])
    table.restore(2)
    assert names(table) == ["pk", "uq"]
    table.clone(tmp_path / "clone")
    assert names(Table(tmp_path / "clone")) == ["pk", "uq"]
    with pytest.raises(InvalidPropertyError, match="columns of the source are not checked"):
        table.clone(tmp_path / "other", properties={"tahoe.keys.k": "x"})
    table.overwrite(pa.table({"id": [5]}), overwrite_schema=True)
    assert names(table) == ["pk"]
    table.optimize()
    assert names(table) == ["pk"]


def write_property(table: Table, text: str) -> None:
    """What another program may write."""
    start = table.snapshot()
    metadata = start.metadata.replace(configuration={**start.properties, "tahoe.keys.k": text})
    put_commit(table.env, start.version + 1, [metadata])


def test_a_key_of_a_column_that_another_writer_took_is_not_checked() -> None:
    table = make({"id": [1]})
    write_property(table, '{"kind":"UNIQUE","columns":["gone"]}')
    (report,) = table.check_keys()
    assert report.violations is None
    assert report.is_kept is None
    assert "has no column gone" in str(report)
    table.append(pa.table({"id": [2], "more": [3]}), merge_schema=True)  # keys that nothing can have any more go
    assert table.check_keys() == []


def test_a_text_of_another_program_that_is_no_key_can_be_removed() -> None:
    table = make({"id": [1]})
    write_property(table, "PRIMARY KEY (id)")
    for look in (table.check_keys, table.inspect.constraints):
        with pytest.raises(InvalidPropertyError, match=r"tahoe\.keys\.k.*must be a key"):
            look()
    table.report()
    table.append(pa.table({"id": [2]}))
    with table.transaction() as changes:
        changes.unset_properties(["tahoe.keys.k"])
    assert table.check_keys() == []


def test_the_report_shows_them(tmp_path: Path) -> None:
    table = make({"id": [1]}, tmp_path / "t")
    declare(table, "pk", "id", rely=True)
    table.report().save(tmp_path / "page.html")
    assert "pk: PRIMARY KEY (`id`)" in (tmp_path / "page.html").read_text()


# --- the rows


def found(table: Table) -> dict[str, tuple[int | None, list[dict[str, Any]]]]:
    return {
        each.key.name: (each.violations, [dict(example) for example in each.examples]) for each in table.check_keys()
    }


def test_repeated_values_and_nulls_are_counted() -> None:
    table = make({"id": [1, 1, 2, None, None, 3, 3, 3], "day": list("aabbbccd")})
    declare(table, "pk", "id")
    declare(table, "uq", "id", kind="UNIQUE")
    declare(table, "both", "day", "id", kind="UNIQUE")
    told = found(table)
    assert told["pk"] == (5, [{"id": 3}, {"id": 1}, {"id": None}])
    assert told["uq"] == (3, [{"id": 3}, {"id": 1}])
    assert told["both"] == (2, [{"day": "a", "id": 1}, {"day": "c", "id": 3}])
    assert next(each for each in table.check_keys() if each.key.name == "pk").nulls == 2


def test_floating_values_are_equal_as_in_sql() -> None:
    table = make({"x": [0.0, -0.0, NAN, NAN, 1.0]})
    declare(table, "uq", "x", kind="UNIQUE")
    assert found(table)["uq"][0] == 2


def test_the_rows_of_a_foreign_key_are_looked_for(tmp_path: Path) -> None:
    days = make({"id": pa.array([1, 2], pa.int32()), "day": ["a", "b"]}, tmp_path / "days")
    table = make({"day": [1, 1, 2, 7, 7, None], "up": [1, None, 7, 2, 2, 9]}, tmp_path / "t")
    declare(table, "by_name", "day", kind="FOREIGN KEY", references=["spark_catalog", "shop", "days"])
    declare(table, "by_path", "day", kind="FOREIGN KEY", references=str(tmp_path / "days"), referenced_columns=["id"])
    declare(table, "by_key", "day", kind="FOREIGN KEY", references=f"file://{tmp_path}/days")
    declare(table, "nothing", "day", kind="FOREIGN KEY", references=str(tmp_path / "nothing"))
    declare(table, "itself", "up", kind="FOREIGN KEY", references=table.url, referenced_columns=["day"])
    told = found(table)
    assert told["by_path"] == (2, [{"day": 7}])
    assert told["itself"] == (1, [{"up": 9}])
    assert {name for name, (violations, _) in told.items() if violations is None} == {"by_name", "by_key", "nothing"}
    reasons = {each.key.name: each.reason for each in table.check_keys()}
    assert "only Spark knows" in str(reasons["by_name"])
    assert "has no primary key of 1 column" in str(reasons["by_key"])
    declare(days, "pk", "id")
    assert found(table)["by_key"] == (2, [{"day": 7}])


def test_groups_are_combined_as_they_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_GROUPS_MAX", 2)
    table = make({"id": [1, 2, 3]})
    for _ in range(3):
        table.append(pa.table({"id": [3, 4, 5]}))
    declare(table, "pk", "id")
    assert found(table)["pk"] == (7, [{"id": 3}, {"id": 4}, {"id": 5}])


def test_an_empty_table_keeps_every_key() -> None:
    table = make({"id": [1]})
    declare(table, "pk", "id")
    with table.transaction() as changes:
        changes.delete("true")
    assert found(table) == {"pk": (0, [])}


def test_findings_say_the_key_the_rows_and_what_to_do() -> None:
    table = make({"id": [1, 1], "s": ["it's", "x"]})
    declare(table, "pk", "id")
    declare(table, "fk", "s", kind="FOREIGN KEY", references=["main", "t"])
    violated, unchecked = key_findings(table.check_keys())
    assert (violated.kind.value, violated.severity.value) == ("violated-key", "error")
    assert violated.detail == "pk PRIMARY KEY (`id`): violated by 1 row, for example id = 1"
    assert (unchecked.kind.value, unchecked.severity.value) == ("unchecked-key", "warning")
    assert "only Spark knows the table main.t" in unchecked.detail


def test_a_key_that_refers_to_its_own_table_follows_a_rename(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    table = make({"id": [1, 2], "parent": [1, 1]}, tmp_path / "t", mapped)
    declare(table, "parent", "parent", kind="FOREIGN KEY", references=table.url, referenced_columns=["id"])
    with table.transaction() as changes:
        changes.rename_column("id", "key")
    assert [report.violations for report in table.check_keys()] == [0]


def test_a_property_of_another_spelling_follows_its_column() -> None:
    spelled = {"TAHOE.keys.pk": '{"kind":"PRIMARY KEY","columns":["id"]}'}
    assert with_column_moved(spelled, ("id",), ("key",), table="t") == {
        "TAHOE.keys.pk": '{"kind":"PRIMARY KEY","columns":["key"]}'
    }
    assert with_column_moved(spelled, ("id",), None, table="t") == {}


def test_values_that_cannot_be_compared_do_not_end_the_check(tmp_path: Path) -> None:
    other = make({"id": ["1"]}, tmp_path / "other")
    table = make({"id": [1, 1]}, tmp_path / "t")
    declare(table, "pk", "id")
    declare(table, "fk", "id", kind="FOREIGN KEY", references=other.url, referenced_columns=["id"])
    primary, foreign = table.check_keys()
    assert primary.violations == 1
    assert foreign.violations is None
    assert "cannot be compared" in str(foreign.reason)


@pytest.mark.parametrize("collated", ["this table", "the other table"])
def test_texts_with_a_collation_are_not_compared_by_their_bytes(tmp_path: Path, collated: str) -> None:
    """`a` and `A` are the same by this collation, which Arrow does not have."""
    tables = []
    for name in ("this table", "the other table"):
        table = Table(str(tmp_path / name))
        metadata = {COLLATIONS: {"day": "ICU.UNICODE_CI"}} if name == collated else {}
        table.create(Struct((Field(name="day", type=STRING, metadata=metadata), Field(name="id", type=LONG))))
        table.append(pa.table({"day": ["a", "A"], "id": [1, 2]}))
        tables.append(table)
    table, other = tables
    declare(table, "pk", "day")
    declare(table, "other", "id", kind="UNIQUE")
    declare(table, "fk", "day", kind="FOREIGN KEY", references=other.url, referenced_columns=["day"])
    reports = {report.key.name: report for report in table.check_keys()}
    where = next(
        each for each in tables if each.url.endswith(collated.replace(" ", "%20")) or each.url.endswith(collated)
    )
    reason = f"only Spark compares texts by the collation of day in {where.url}; DeltaTable.checkKeys() checks the key"
    assert reports["fk"].reason == reason
    assert reports["pk"].reason == (reason if collated == "this table" else None)
    assert reports["other"].is_kept
