"""Whatever is given to a public method, only tahoe's own errors come out, and they say what to give."""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tahoe.errors import (
    CalledOnClassError,
    ColumnNotFoundError,
    DeltaError,
    InternalPropertyError,
    InvalidArgumentError,
    InvalidPredicateError,
    InvalidTimeTravelError,
    NoColumnsError,
    PropertyNotSetError,
    SchemaMismatchError,
    SurplusArgumentError,
    UnknownArgumentError,
    UnknownPropertyError,
    UnsupportedDataTypeError,
)
from tahoe.protocol.changes.column_changes import ColumnChange, NewColumn
from tahoe.protocol.types.predicate import Column, IsNull
from tahoe.protocol.types.schema import STRING, Field
from tahoe.storage import Env
from tahoe.table.inspection.inspector import Inspector
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.table import Table
from tahoe.table.transactions.transaction_builder import TransactionBuilder
from tahoe.table.writing.merge_builder import MergeBuilder
from tests.table.builders import memory_env

ROWS = pa.table({"carrier": ["AA", "B6"], "n": [1, 2]})


@pytest.fixture
def env() -> Env:
    return memory_env()


def made(env: Env) -> Table:
    """A table of two versions, with a change feed."""
    table = Table(env.store.url, env=env)
    if not table.exists():
        table.append(ROWS, properties={"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"})
        table.append(ROWS)
    return table


# --- every method, every argument


def spellings(argument: str) -> set[str]:
    """How an argument is written by those who do not remember it: one of its words, in camelCase, with a letter too
    many or too few.
    """
    first, *words = argument.split("_")
    return {first, *words, first + "".join(map(str.title, words)), f"{argument}s", argument[:-1], argument[1:]}


@pytest.mark.parametrize(
    "owner", [Table, Snapshot, Scan, Inspector, TransactionBuilder, MergeBuilder], ids=lambda owner: owner.__name__
)
def test_an_argument_in_any_other_spelling_is_suggested(owner: type) -> None:
    """changes(start=1) said only: Check the spelling."""
    lacking = []
    for name, method in inspect.getmembers(owner, inspect.isfunction):
        arguments = list(inspect.signature(method).parameters)[1:]
        for argument in arguments if not name.startswith("_") else []:
            for spelling in spellings(argument) - {*arguments, ""}:
                error = UnknownArgumentError(table="t", method=name, argument=spelling, arguments=", ".join(arguments))
                if argument not in re.split(r"\W+", error.next_step):
                    lacking.append(f"{name}({spelling}=...): {error.next_step}")
    assert not lacking


# What a method needs besides the argument that is wrong.
NEEDED: dict[str, dict[str, Any]] = {
    "Table.__init__": {"location": "memory://elsewhere"},
    "Table.append": {"data": ROWS},
    "Table.erase": {"filter": "n > 0"},
    "Table.changes": {"start_version": 0},
    "Table.diff": {"from_version": 0},
    "Table.clone": {"target": "memory://clone"},
    "Table.create": {"schema": ROWS.schema},
    "Table.overwrite": {"data": ROWS},
    "Table.update": {"set": {"n": "n + 1"}},
    "Table.merge": {"source": ROWS, "on": "n"},
    "TransactionBuilder.update": {"set": {"n": "n + 1"}},
    "TransactionBuilder.merge": {"source": ROWS, "on": "n"},
    "TransactionBuilder.replace": {"data": ROWS, "where": "n > 0"},
    "Table.tag": {"name": "a"},
    "Table.untag": {"name": "a", "if_exists": True},
    "Table.drop_feature": {"feature": "changeDataFeed"},
    "Table.compact_logs": {"starting_version": 0, "ending_version": 1},
    "Scan.within": {"numbers": [0]},
    "Scan.column": {"name": "path"},
    "Snapshot.txn_version": {"app_id": "app"},
    "TransactionBuilder.append": {"data": ROWS},
    "TransactionBuilder.remove": {"paths": ["x"]},
    "TransactionBuilder.mark_deleted": {"path": "x", "rows": [0]},
    "TransactionBuilder.set_properties": {"properties": {}},
    "TransactionBuilder.unset_properties": {"names": ["x"]},
    "TransactionBuilder.set_schema": {"schema": ROWS.schema},
    "TransactionBuilder.add_columns": {"columns": [NewColumn(field=Field(name="new", type=STRING))]},
    "TransactionBuilder.rename_column": {"path": ("n",), "name": "m"},
    "TransactionBuilder.drop_columns": {"paths": [("n",)]},
    "TransactionBuilder.alter_columns": {"changes": [ColumnChange(path=("n",), comment="a number")]},
    "TransactionBuilder.replace_columns": {"columns": ROWS.schema},
    "TransactionBuilder.cluster_by": {"columns": [("n",)]},
    "TransactionBuilder.add_constraint": {"name": "c", "expression": "n > 0"},
    "TransactionBuilder.add_key": {"name": "k", "columns": ["n"]},
    "TransactionBuilder.drop_constraint": {"name": "c"},
    "TransactionBuilder.sync_identity": {"column": "n", "value": 1},
    "TransactionBuilder.drop_feature": {"feature": "changeDataFeed"},
    "TransactionBuilder.set_domain": {"domain": "d", "configuration": "x"},
    "TransactionBuilder.set_txn": {"app_id": "app", "version": 1},
}

# Not for users: the log gives it what it has parsed.
INSIDE = {"Snapshot.after"}


def methods() -> Iterator[tuple[str, str]]:
    """Every argument of every public method: `Table.append`, `data`."""
    for owner in (Table, Snapshot, Scan, Inspector, TransactionBuilder):
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            called = f"{owner.__name__}.{name}"
            if called not in INSIDE and (not name.startswith("_") or called == "Table.__init__"):
                yield from ((called, parameter) for parameter in list(inspect.signature(method).parameters)[1:])


def call(env: Env, method: str, arguments: dict[str, Any]) -> Any:
    given = NEEDED.get(method, {}) | arguments
    return Table(**given).env.store.url if method == "Table.__init__" else method_of(env, method)(**given)


def method_of(env: Env, method: str) -> Callable[..., Any]:
    """A method of an object."""
    owner, _, name = method.partition(".")
    table = made(env)
    subject: Callable[[], Any] = {
        "Table": lambda: table,
        "Snapshot": table.snapshot,
        "Scan": lambda: table.snapshot().scan(),
        "Inspector": lambda: table.inspect,
        "TransactionBuilder": table.transaction,
        "MergeBuilder": lambda: table.merge(ROWS, "n"),
    }[owner]
    return getattr(subject(), name)  # type: ignore[no-any-return]


ARGUMENTS = list(methods())

WRONG: list[Any] = [
    *(None, True, 0, -1, 1.5, float("nan"), 2**70, Decimal(1), object(), int, print),
    *("", "x", "\ud800", "a\0b", "0", "2026-13-45", b"x", Path("x")),
    *(
        [],
        [1],
        ["x"],
        [None],
        [[]],
        [["x"]],
        [("x", 1)],
        (),
        ("x",),
        ("x", "y"),
        ("x", 2**70),
        ("x", True),
        {"x"},
        {},
        {"x": 1},
        {1: "x"},
    ),
    *(
        iter(["x"]),
        range(3),
        dt.date(2026, 1, 1),
        dt.datetime(2026, 1, 1),
        dt.datetime.max.replace(tzinfo=dt.UTC),
        pd.NaT,
        dt.timedelta(),
    ),
    *(
        pa.array([1]),
        pa.chunked_array([[1]]),
        pa.scalar(1),
        pa.schema([]),
        pa.table({}),
        pd.DataFrame(),
        pd.DataFrame({1: [1]}),
        np.int64(-1),
    ),
    *(np.array(["x"]), np.array(1), IsNull(Column(("nowhere",))), Field(name="x", type=STRING)),
]


CALLBACKS = {"announce", "progress"}


@pytest.mark.parametrize(("method", "argument"), ARGUMENTS, ids=lambda name: name)
def test_nothing_but_our_own_errors_comes_out(
    env: Env, method: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a relative path is a location
    for value in WRONG:
        if callable(value) and argument in CALLBACKS:
            continue  # an error of the caller's own function reaches the caller
        try:
            call(env, method, {argument: value})
        except DeltaError:
            pass
        except Exception as error:
            pytest.fail(f"{method}({argument}={value!r}) raised {type(error).__name__}: {error}")


@pytest.mark.parametrize(("method", "argument"), ARGUMENTS, ids=lambda name: name)
def test_every_argument_has_a_rule(env: Env, method: str, argument: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTimeTravelError)) as raised:
        call(env, method, {argument: object()})
    assert argument in str(raised.value)
    assert "object" in str(raised.value)


def test_every_need_is_of_a_method_that_is_there() -> None:
    assert NEEDED.keys() <= {method for method, _ in ARGUMENTS}


# --- methods called on classes, and slips of arguments

CLASSES: dict[type, str] = {
    Table: 'Table("/data/t").',
    Snapshot: "table.snapshot().",
    Scan: "table.scan().",
    Inspector: "table.inspect.",
    TransactionBuilder: "table.transaction().",
    MergeBuilder: 'table.merge(rows, on="id").',
}


def public_methods() -> Iterator[tuple[type, str]]:
    for owner in CLASSES:
        yield from (
            (owner, name) for name, _ in inspect.getmembers(owner, inspect.isfunction) if not name.startswith("_")
        )


@pytest.mark.parametrize(("owner", "name"), public_methods(), ids=lambda each: getattr(each, "__name__", each))
def test_a_method_that_is_called_on_its_class_says_what_to_write(owner: type, name: str) -> None:
    """As users of deltalake write Table.create("/data/t", schema): Python takes the path for the table."""
    for arguments in ((), ("/data/t",), ("/data/t", ROWS.schema), (ROWS,)):
        with pytest.raises(CalledOnClassError) as raised:
            getattr(owner, name)(*arguments)
        assert f"Write {CLASSES[owner]}{name}(" in str(raised.value)


@pytest.mark.parametrize(("owner", "name"), public_methods(), ids=lambda each: getattr(each, "__name__", each))
def test_every_method_tells_arguments_that_it_does_not_take(env: Env, owner: type, name: str) -> None:
    if f"{owner.__name__}.{name}" in INSIDE:
        return
    method = method_of(env, f"{owner.__name__}.{name}")
    with pytest.raises(SurplusArgumentError, match="is one too many"):
        method(*range(20))
    with pytest.raises(UnknownArgumentError, match="has no argument xyz"):
        method(xyz=1)


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        (lambda t: Table.create("/data/t", ROWS.schema), r'Write Table\("/data/t"\)\.create\(schema\)\.'),
        (lambda t: Table(t.url, 3), r"storage_options must be .*, not 3 \(int\).*table\.snapshot\(3\)"),
        (lambda t: Table(t.url, version=3), r"has no argument version.*It is an argument of .*snapshot"),
        (lambda t: Table(t.url, "Europe/Berlin"), "Did you mean time_zone='Europe/Berlin'"),
        (
            lambda t: t.append(ROWS, "overwrite"),
            r"takes data by position; 'overwrite' is one too many. Did you mean overwrite\(data\)\?",
        ),
        (lambda t: t.append(ROWS, mode="overwrite"), r"no argument mode.*Did you mean overwrite\(data\)\?"),
        (lambda t: t.append(ROWS, ["n"]), "Give it by its name: partition_by, properties"),
        (lambda t: t.to_arrow("n > 3"), r"Did you mean filter='n > 3'\?"),
        (lambda t: t.optimize(["n"]), r"Did you mean z_order_by=\['n'\]\?"),
        (lambda t: t.update("n = 1", {"n": "2"}), r"set must be .*Did you mean filter='n = 1'\?"),
        (lambda t: t.delete(predicate="n = 1"), r"Did you mean filter\?"),
        (lambda t: t.merge(ROWS, predicate="target.n = source.n"), r"Did you mean on\?"),
        (lambda t: t.snapshot("2026-01-01"), "A time is given as a timestamp"),
        (lambda t: t.create_checkpoint(3), "takes no argument by position; 3 is one too many. Leave it out"),
    ],
)
def test_a_slip_is_told_with_what_was_probably_meant(env: Env, slip: Callable[[Table], object], meant: str) -> None:
    with pytest.raises(DeltaError, match=meant):
        slip(made(env))


def test_signatures_are_those_of_the_methods() -> None:
    """Editors, the documentation and type checkers show them."""
    assert list(inspect.signature(Table.overwrite).parameters)[:3] == ["self", "data", "filter"]
    assert Table.create.__doc__


def test_an_argument_that_is_missing_is_a_type_error_as_in_python(env: Env) -> None:
    with pytest.raises(TypeError, match=r"append\(\) needs data"):
        made(env).append()  # type: ignore[call-arg]


# --- what is right, and what is told


def test_a_text_is_no_list_of_names(env: Env) -> None:
    for attempt in (
        lambda t: t.to_arrow("carrier"),
        lambda t: t.to_arrow(columns="carrier"),
        lambda t: t.append(ROWS, partition_by="n"),
    ):
        with pytest.raises(
            InvalidArgumentError, match=r"""must be a list of names, not .*\. For a single name, pass \["name"\]\."""
        ):
            attempt(made(env))
    assert made(env).to_arrow(iter(["n"])).column_names == ["n"]


@pytest.mark.parametrize("version", [True, 1.0, b"0"])
def test_a_version_is_a_whole_number_or_a_tag(env: Env, version: Any) -> None:
    with pytest.raises(
        InvalidTimeTravelError, match=r"version cannot be .*: it must be an integer or the name of a tag\. Give"
    ):
        made(env).snapshot(version)
    assert made(env).snapshot(np.int64(0)).version == 0  # type: ignore[arg-type]


def test_a_time_may_be_a_day(env: Env) -> None:
    moment = dt.datetime.fromtimestamp(made(env).snapshot(0).timestamp_ms / 1000, dt.UTC)
    assert made(env).snapshot(timestamp=moment).version == 0
    with pytest.raises(DeltaError, match="2020-01-02 00:00:00"):
        made(env).snapshot(timestamp=dt.date(2020, 1, 2))
    with pytest.raises(InvalidTimeTravelError):
        made(env).snapshot(timestamp=5)  # type: ignore[arg-type]


def test_a_history_has_no_negative_length(env: Env) -> None:
    with pytest.raises(InvalidArgumentError, match=r"limit must be .*, not -1"):
        made(env).history(-1)
    assert made(env).history(0) == []
    assert len(made(env).history(1)) == 1


def test_a_filter_is_text_or_a_predicate(env: Env) -> None:
    with pytest.raises(InvalidArgumentError, match=r"filter must be an SQL condition .* not 1 \(int\)"):
        made(env).to_arrow(filter=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidPredicateError):
        made(env).to_arrow(filter="")
    assert made(env).to_arrow(filter=IsNull(Column(("n",)))).num_rows == 0
    with pytest.raises(
        InvalidArgumentError, match="set must be a dictionary of new values by column, not an empty dict"
    ):
        made(env).update({})


def test_a_location_may_be_a_path(tmp_path: Path) -> None:
    assert Table(tmp_path / "t").url == f"file://{tmp_path}/t"
    for location in (b"/t", 5, None, "/t\0"):
        with pytest.raises(InvalidArgumentError, match="location must be"):
            Table(location)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"time_zone must be .* not 'Mars/Olympus' \(str\).*Europe/Paris"):
        Table(tmp_path, time_zone="Mars/Olympus")
    with pytest.raises(
        InvalidArgumentError, match=r"storage_options must be .* not a value of type dict \('allow_http' is True\)"
    ):
        Table(tmp_path, {"allow_http": True})  # type: ignore[dict-item]


# --- rows of other libraries


class Frame:
    """A frame of another library: it hands out Arrow data, with the types that polars has."""

    def __init__(self, data: pa.Table) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


CATEGORIES_OF_POLARS = pa.DictionaryArray.from_arrays(
    pa.array([0, 1], pa.uint32()), ROWS["carrier"].combine_chunks().cast(pa.string_view())
)
VIEWS = pa.schema([("carrier", pa.string_view()), ("n", pa.int64())])
LARGE = pa.schema([("carrier", pa.large_string()), ("n", pa.int64())])
CATEGORIES = pa.schema([("carrier", pa.dictionary(pa.uint32(), pa.large_string())), ("n", pa.int64())])


@pytest.mark.parametrize(
    "data",
    [
        ROWS.to_batches()[0],
        ROWS.to_reader(),
        ROWS.to_pandas(),
        ROWS.to_pandas().astype({"carrier": "category"}),
        ROWS.to_pandas().set_index("carrier"),
        Frame(ROWS),
        Frame(ROWS.cast(VIEWS)),
        Frame(ROWS.cast(LARGE)),
        Frame(pa.table({"carrier": CATEGORIES_OF_POLARS, "n": ROWS["n"]})),
        type("Subclass", (pd.DataFrame,), {})(ROWS.to_pandas()),
        Frame(
            pa.table([ROWS["carrier"].dictionary_encode().cast(CATEGORIES.field(0).type), ROWS["n"]], schema=CATEGORIES)
        ),
    ],
    ids=[
        "a batch",
        "batches",
        "pandas",
        "categories of pandas",
        "an index",
        "a frame",
        "views",
        "large text",
        "categories of polars",
        "a subclass",
        "categories",
    ],
)
def test_rows_come_from_any_library(env: Env, data: Any) -> None:
    table = Table(env.store.url, env=env)
    table.append(data)
    assert sorted(table.to_arrow(["carrier", "n"]).to_pylist(), key=lambda row: row["n"]) == ROWS.to_pylist()
    assert table.schema.find("carrier").type == STRING  # type: ignore[union-attr]
    with table.transaction() as changes:
        changes.append(ROWS.to_pandas())
    assert table.to_arrow().num_rows == 4


def test_an_index_without_a_name_is_no_data(env: Env) -> None:
    table, frame = Table(env.store.url, env=env), ROWS.to_pandas()
    table.append(frame[frame.n > 1])
    assert table.to_arrow().to_pylist() == [{"carrier": "B6", "n": 2}]


def test_only_levels_of_an_index_that_have_names_are_data(env: Env) -> None:
    table = Table(env.store.url, env=env)
    table.append(pd.DataFrame({"n": [1]}, index=pd.MultiIndex.from_tuples([("AA", 7)], names=["carrier", None])))
    table.append(pd.DataFrame({"n": [2]}, index=pd.RangeIndex(1, name="carrier").astype(str)))
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["n"]) == [
        {"n": 1, "carrier": "AA"},
        {"n": 2, "carrier": "0"},
    ]
    with pytest.raises(InvalidArgumentError, match="its index and a column are both named n"):
        table.append(pd.DataFrame({"n": [1]}, index=pd.Index(["x"], name="n")))


def test_a_reader_that_a_failed_attempt_has_read_is_no_empty_table(env: Env) -> None:
    """It hands out its batches once, and none and no error afterwards: the rows would be gone without a word."""
    table, reader = made(env), ROWS.append_column("more", pa.array([1, 2])).to_reader()
    with pytest.raises(DeltaError, match="more"):
        table.append(reader)
    for attempt in (lambda: table.append(reader, merge_schema=True), lambda: table.transaction().append(reader)):
        with pytest.raises(
            InvalidArgumentError, match=r"an earlier call has already consumed its batches.*read_all\(\)"
        ):
            attempt()
    assert table.version == 1


def test_what_breaks_in_the_source_of_rows_is_told(env: Env) -> None:
    class Broken(Frame):
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            raise RuntimeError("the source broke")

    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise RuntimeError("the source broke")

    class Relation(Broken):  # of DuckDB: it has columns, but is not asked for some by a list
        columns = ("carrier", "n")

        def __getitem__(self, names: object) -> object:
            raise TypeError("a name, not a list")

    for broken in (Broken(ROWS), Relation(ROWS)):
        with pytest.raises(InvalidArgumentError, match="the source broke") as raised:
            Table(env.store.url, env=env).append(broken)
        assert "Traceback" not in str(raised.value)
    for data in (pa.RecordBatchReader.from_batches(ROWS.schema, batches()), batches()):
        with pytest.raises(RuntimeError, match="the source broke"):
            Table(env.store.url, env=env).append(data)
    assert not Table(env.store.url, env=env).exists()
    assert list(env.store.walk()) == []


def test_what_no_file_can_hold_is_told(env: Env) -> None:
    table = Table(env.store.url, env=env)
    for data in (pd.DataFrame({"v": [{}, {}]}), pa.table({"v": pa.array([[{}]], pa.list_(pa.struct([])))})):
        with pytest.raises(UnsupportedDataTypeError, match=r"column v .* a struct without fields"):
            table.append(data)
    assert not table.exists()


def test_dates_beyond_the_calendar_of_python_partition_a_table(env: Env) -> None:
    table = Table(env.store.url, env=env)
    days = pa.array([10**7, -(10**6)], pa.int32()).cast(pa.date32())
    moments = pa.array([2**59, -(2**59)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table.append(pa.table({"d": days, "t": moments, "n": [1, 2]}), partition_by=["d", "t"])
    assert "d=+29349-01-26" in " ".join(table.files().column("path").to_pylist())
    found = table.to_arrow().sort_by("n")
    assert (found["d"].combine_chunks(), found["t"].combine_chunks()) == (days, moments)


NO_ROWS = r"the argument data must be .*pandas, polars.*pyarrow\.Table\.from_pylist"


@pytest.mark.parametrize(
    ("data", "properties", "error", "told"),
    [
        *[(data, {}, InvalidArgumentError, NO_ROWS) for data in ([{"n": 1}], {"n": [1]}, "rows", pa.array([1]), None)],
        (pd.DataFrame({"mixed": [1, "x"]}), {}, InvalidArgumentError, "column mixed"),
        (pa.table({}), {}, NoColumnsError, None),
        (
            ROWS,
            {"delta.appendOnly": True},
            InvalidArgumentError,
            r"""\('delta.appendOnly' is True\).*: \{"name": "true"\}""",
        ),
    ],
)
def test_what_makes_no_table_is_told_what_would(
    env: Env, data: Any, properties: Any, error: type[DeltaError], told: str | None
) -> None:
    with pytest.raises(error, match=told):
        Table(env.store.url, env=env).append(data, properties=properties)
    assert not Table(env.store.url, env=env).exists()


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda t: t.append(pa.table({"n": [1]}), mergeSchema=True), "merge_schema"),
        (lambda t: t.snapshot(versionAsOf=0), "version"),
        (lambda t: t.to_arrow(timestampAsOf="2026-01-01"), "timestamp"),
        (lambda t: t.optimize(zOrderBy=["n"]), "z_order_by"),
        (lambda t: t.snapshot().to_arrow(column=["n"]), "columns"),
        (lambda t: t.repair(dryRun=True), "dry_run"),
        (lambda t: Table(t.url, storage_option={}), "storage_options"),
        (lambda t: t.changes(start=1), "start_version or start_timestamp"),
        (lambda t: t.changes(version=1), "start_version or end_version"),
        (lambda t: t.vacuum(hours=1), "retention_hours"),
    ],
)
def test_an_argument_in_another_spelling_is_told(call: Callable[[Table], object], meant: str) -> None:
    table = Table("/t", env=memory_env())
    table.append(pa.table({"n": [1]}))
    with pytest.raises(UnknownArgumentError, match=rf"Did you mean {meant}\? Check the spelling"):
        call(table)
    with pytest.raises(TypeError, match=r"append\(\) has no argument xyz; it has data, "):
        table.append(pa.table({"n": [1]}), xyz=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r" Table\(\) has no argument xyz; it has location, "):
        Table(table.url, xyz=1)  # type: ignore[call-arg]


NO_NAME = r"must be a list of names, not a value of type list \(an item is 3 \(int\)\)"
NO_FIELD = r"list of pyarrow.Field, .*\(an item is a value of type tuple\)"
NO_QUOTES = r"no column monday in .* A text in SQL is in single quotes: 'text'\."
MISSPELT = r"Delta has no property of this name\. Use the name delta\.enableDeletionVectors\."
UNKNOWN = r"tahoe has no property of this name\. Check the spelling"


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda t: t.to_arrow(["n", 3]), InvalidArgumentError, NO_NAME),
        (lambda t: t.transaction().add_columns([("m", pa.int64())]), InvalidArgumentError, NO_FIELD),
        (lambda t: t.update({"day": "monday"}), ColumnNotFoundError, NO_QUOTES),
        (lambda t: t.append(ROWS, properties={"delta.enableDeletionVector": "1"}), UnknownPropertyError, MISSPELT),
        (lambda t: t.append(ROWS, properties={"tahoe.somethingElse": "true"}), UnknownPropertyError, UNKNOWN),
        (
            lambda t: t.append(pa.table({"n": [1], "m": [1]})),
            SchemaMismatchError,
            "add it to the table: merge_schema=True",
        ),
    ],
    ids=[
        "an item of a list of names",
        "an item of a list of fields",
        "a text without quotes is no misspelt column",
        "a property of Delta in another spelling",
        "a property that tahoe does not have",
        "advice is in the spelling of Python",
    ],
)
def test_a_mistake_is_told_with_its_remedy(call: Callable[[Table], object], error: type[DeltaError], told: str) -> None:
    table = Table("/t", env=memory_env())
    if error is not UnknownPropertyError:  # which is about a table that does not exist yet
        table.append(pa.table({"n": [1], "day": ["a"]}))
    with pytest.raises(error, match=told):
        call(table)


def test_a_property_that_users_do_not_set_or_that_is_not_set_asks_for_no_valid_value() -> None:
    """No value is valid for it."""
    table = Table("/t", env=memory_env())
    table.append(pa.table({"n": [1]}), properties={"owner": "me"})
    with pytest.raises(InternalPropertyError, match=r"only writers set it, not users\. Leave the property out\."):
        Table("/u", env=memory_env()).append(pa.table({"n": [1]}), properties={"delta.columnMapping.maxColumnId": "9"})
    with pytest.raises(InternalPropertyError, match="only writers set it"), table.transaction() as changes:
        changes.unset_properties(["delta.columnMapping.maxColumnId"])
    with (
        pytest.raises(PropertyNotSetError, match=r"is not set on the table .* Did you mean owner\? "),
        table.transaction() as changes,
    ):
        changes.unset_properties(["owners"])
