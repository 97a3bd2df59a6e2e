"""Whoever knows deltalake or delta-spark and uses their names is told ours, instead of Python's bare AttributeError or
TypeError.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Callable, Iterator
from typing import Any

import deltalake
import deltalake.table
import pyarrow as pa
import pytest

import tahoe
from tahoe.errors import InvalidArgumentError, MissingArgumentError, UnknownImportError, UnknownNameError
from tahoe.spark.api.merge_builder import DeltaMergeBuilder
from tahoe.table import other_names
from tahoe.table.inspection.inspector import Inspector
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.writing.merge_builder import MergeBuilder


def public(owner: object) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


# The names of the reference's DeltaTable are those of ours: `tests/interop/test_python_api.py` compares them.
OF_OTHERS = public(deltalake.DeltaTable) | public(tahoe.DeltaTable)
OF_THE_MODULE = {
    name for name in public(deltalake) if getattr(getattr(deltalake, name), "__module__", "").startswith("deltalake")
}
CASES = [
    *((owner, name) for owner in (tahoe.Table, tahoe.DeltaTable) for name in sorted(OF_OTHERS)),
    *((MergeBuilder, name) for name in sorted(public(deltalake.table.TableMerger) | public(DeltaMergeBuilder))),
    *((DeltaMergeBuilder, name) for name in sorted(public(deltalake.table.TableMerger))),
]


def asked(owner: object, name: str) -> Iterator[Callable[[], object]]:
    """A name as it is asked of a class, and of an object of it."""
    yield lambda: getattr(owner, name)
    if isinstance(owner, type):
        yield lambda: getattr(object.__new__(owner), name)


@pytest.mark.parametrize(("owner", "name"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_every_name_of_another_library_is_there_or_is_told_as_it_is_here(owner: type, name: str) -> None:
    if name in dir(owner):
        return
    for ask in list(asked(owner, name))[0 if owner in (tahoe.Table, tahoe.DeltaTable) else 1 :]:
        with pytest.raises(
            AttributeError, match=f"^{re.escape(f'[DELTA_UNKNOWN_NAME] {owner.__name__} has no {name}. In tahoe: ')}"
        ):
            ask()
    assert not hasattr(owner, name)


@pytest.mark.parametrize("name", sorted(OF_THE_MODULE - {"DeltaTable"}))
def test_every_name_of_deltalake_is_told_by_the_module(name: str) -> None:
    """`from tahoe import write_deltalake` hides the text of an AttributeError, so it must be an ImportError."""
    with pytest.raises(UnknownNameError, match="In tahoe: "):
        getattr(tahoe, name)
    assert not hasattr(tahoe, name)
    with pytest.raises(UnknownImportError, match="In tahoe: "):
        exec(f"from tahoe import {name}")


@pytest.mark.parametrize("part", ["compact", "z_order"])
@pytest.mark.parametrize("owner", [tahoe.Table, tahoe.DeltaTable])
def test_the_parts_of_optimize_are_told(owner: type, part: str) -> None:
    with pytest.raises(UnknownNameError, match=f"has no optimize.{part}. In tahoe: table.optimize"):
        getattr(object.__new__(owner).optimize, part)(["id"])


TABLES = [
    (tahoe.Table, other_names.TABLE),
    (tahoe.DeltaTable, other_names.DELTA_TABLE),
    (tahoe, other_names.MODULE),
]


@pytest.mark.parametrize(("owner", "names"), TABLES, ids=["Table", "DeltaTable", "tahoe"])
def test_no_name_of_the_tables_is_a_name_of_ours(owner: object, names: dict[str, str]) -> None:
    """It would never be told."""
    assert not public(owner).intersection(names)


OWN = re.compile(r"\b(table|tahoe\.Table\(path\)|changes|table\.snapshot\(\)|table\.inspect)\.(\w+)")


@pytest.mark.parametrize(
    ("table", "instead"),
    [(owner, each) for owner, names in TABLES for each in names.values()],
    ids=lambda each: str(each)[:60],
)
def test_what_is_told_exists(table: Any, instead: str) -> None:
    """Advice that raises the next AttributeError."""
    known = {
        "table": tahoe.DeltaTable if table is tahoe.DeltaTable else tahoe.Table,
        "tahoe.Table(path)": tahoe.Table,
        "changes": TransactionBuilder,
        "table.snapshot()": Snapshot,
        "table.inspect": Inspector,
    }
    for start, name in OWN.findall(instead):
        assert name in {*dir(known[start]), *getattr(known[start], "__dataclass_fields__", ())}, f"{start}.{name}"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: tahoe.Table(), r"Table\(\) needs location\. Write Table\(location\)\."),
        (
            lambda: tahoe.DeltaTable("/data/t"),
            r"Write DeltaTable\.forPath\(spark, path\), or tahoe\.Table\(path\) without Spark\.",
        ),
        (lambda: tahoe.DeltaTable.forPath("/data/t"), r"sparkSession must be a Spark session, not '/data/t'"),
        (lambda: tahoe.DeltaTable.forName("t"), r"sparkSession must be a Spark session, not 't'"),
        (lambda: tahoe.Table("/data/t").append(), r"append\(\) needs data\. Write append\(data\)\."),
        (lambda: tahoe.Table("/data/t").merge(pa.table({})), r"merge\(\) needs on\. Write merge\(source, on\)\."),
    ],
)
def test_a_call_without_what_it_needs_says_how_it_is_written(call: Callable[[], object], told: str) -> None:
    with pytest.raises((MissingArgumentError, InvalidArgumentError), match=told):
        call()


def test_names_that_nobody_has_are_told_by_python() -> None:
    """Python suggests a name that is spelled alike; and names of Python's own protocols must look as if they were not
    there.
    """
    for ask in asked(tahoe.Table, "histroy"):
        with pytest.raises(AttributeError, match="has no attribute 'histroy'") as raised:
            ask()
        assert not isinstance(raised.value, UnknownNameError)
        assert raised.value.name == "histroy"
    assert not hasattr(tahoe.Table("/data/t"), "__array__")


def test_the_error_of_a_property_is_its_own() -> None:
    """Python asks for a name elsewhere if its property raises an AttributeError: it would hide what the property
    lacks.
    """

    class Failing(tahoe.Table):
        @property
        def broken(self) -> object:
            return None.nothing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'nothing'"):
        _ = Failing("/data/t").broken


def test_a_class_of_a_user_may_be_a_table_and_abstract() -> None:
    class Both(tahoe.Table, ABC):
        pass

    assert Both("/data/t").url == "file:///data/t"
