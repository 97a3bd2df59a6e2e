"""Keys that a table declares: their text, what can be declared, and what changes of columns leave of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import ConstraintExistsError, InvalidKeyError, InvalidPropertyError
from tahoe.protocol.configuration.declared_keys import (
    FOREIGN,
    PRIMARY,
    UNIQUE,
    Key,
    check_new_key,
    checked_key,
    constraint_text,
    encode_key,
    followed_keys,
    keys_for,
    keys_of,
    parse_key,
    with_column_moved,
    with_key,
)
from tahoe.protocol.types.schema import LONG, STRING, VARIANT, Array, Field, Struct

SCHEMA = Struct(
    (
        Field(name="Id", type=LONG),
        Field(name="day", type=STRING),
        Field(name="a.b", type=STRING),
        Field(name="s", type=Struct((Field(name="x", type=LONG),))),
        Field(name="list", type=Array(element=LONG, contains_null=True)),
        Field(name="v", type=VARIANT),
    )
)
PK = Key(name="pk", kind=PRIMARY, columns=("id",), rely=True)
UQ = Key(name="uq", kind=UNIQUE, columns=("day", "Id"))
FK = Key(name="fk", kind=FOREIGN, columns=("day",), references=("spark_catalog", "shop", "days"))

NAMES = st.text(min_size=1, max_size=5)
SEVERAL = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
KEYS = st.builds(
    Key, name=NAMES, kind=st.sampled_from([PRIMARY, UNIQUE]), columns=SEVERAL, rely=st.booleans()
) | st.builds(Key, name=NAMES, kind=st.just(FOREIGN), columns=SEVERAL, references=SEVERAL, referenced_columns=SEVERAL)


def properties(*keys: Key) -> dict[str, str]:
    found: dict[str, str] = {"my.own": "1"}
    for key in keys:
        found = with_key(found, key)
    return found


@given(KEYS)
def test_a_key_is_read_as_it_was_written(key: Key) -> None:
    assert parse_key(key.name, encode_key(key)) == key


def test_the_text_is_one_that_other_programs_can_read() -> None:
    assert encode_key(PK) == '{"kind":"PRIMARY KEY","columns":["id"],"rely":true}'
    assert parse_key("pk", '{"kind":"UNIQUE","columns":["x"],"since":"a later version"}').columns == ("x",)


def test_a_key_is_said_as_in_sql() -> None:
    assert PK.ddl == "CONSTRAINT `pk` PRIMARY KEY (`id`) NOT ENFORCED RELY"
    assert UQ.ddl == "CONSTRAINT `uq` UNIQUE (`day`, `Id`) NOT ENFORCED NORELY"
    assert str(FK) == "FOREIGN KEY (`day`) REFERENCES `spark_catalog`.`shop`.`days`"
    path = Key(
        name="p", kind=FOREIGN, columns=("day",), references=("delta", "/data/days"), referenced_columns=("d`ay",)
    )
    assert str(path) == "FOREIGN KEY (`day`) REFERENCES `delta`.`/data/days` (`d``ay`)"
    assert (path.location, FK.location, PK.location) == ("/data/days", None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PRIMARY KEY (id)",
        "{}",
        '{"kind":"PRIMARY KEY","columns":[]}',
        '{"kind":"CHECK","columns":["id"]}',
        '{"kind":"FOREIGN KEY","columns":["id"]}',
        '{"kind":"PRIMARY KEY","columns":"id"}',
        '{"kind":"UNIQUE","columns":["id"],"references":["t"]}',
    ],
)
def test_a_text_that_is_no_key_is_told_with_its_property(text: str) -> None:
    with pytest.raises(InvalidPropertyError, match=r"tahoe\.keys\.k"):
        keys_of({"tahoe.keys.k": text}, table="t")
    assert constraint_text({"tahoe.keys.k": text}, "K") == text  # so that it can be dropped


def test_the_primary_key_comes_first() -> None:
    assert [key.name for key in keys_of(properties(FK, UQ, PK), table="t")] == ["pk", "uq", "fk"]


# --- declaring


def test_columns_are_spelled_as_in_the_schema() -> None:
    assert checked_key(PK, SCHEMA, table="t").columns == ("Id",)
    assert checked_key(Key(name="k", kind=UNIQUE, columns=("A.B",)), SCHEMA, table="t").columns == ("a.b",)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (Key(name="k", kind=PRIMARY, columns=("no",)), r"there is no column no \(the table has Id, day"),
        (Key(name="k", kind=PRIMARY, columns=("s.x",)), "s.x is a field inside a column"),
        (Key(name="k", kind=UNIQUE, columns=("s",)), "column s is of type struct"),
        (Key(name="k", kind=UNIQUE, columns=("list",)), "column list is of type array"),
        (Key(name="k", kind=UNIQUE, columns=("v",)), "column v is of type variant"),
        (Key(name="k", kind=UNIQUE, columns=("Id", "ID")), "names a column twice"),
        (Key(name="k", kind=UNIQUE, columns=()), "has no columns"),
        (Key(name="k", kind="INDEX", columns=("Id",)), "of kind 'INDEX'"),
        (Key(name="k", kind=FOREIGN, columns=("Id",)), "with a table that it references"),
        (Key(name="k", kind=PRIMARY, columns=("Id",), references=("t",)), "with a table that it references"),
        (
            Key(name="k", kind=FOREIGN, columns=("Id",), references=("t",), referenced_columns=("a", "b")),
            "has 1 columns and references 2",
        ),
    ],
)
def test_a_key_that_no_rows_could_have_is_refused_in_one_sentence(key: Key, text: str) -> None:
    with pytest.raises(InvalidKeyError, match=text):
        checked_key(key, SCHEMA, table="t")


def test_names_are_taken_once_by_keys_and_checks_alike() -> None:
    known = properties(PK) | {"delta.constraints.positive": "id > 0"}
    with pytest.raises(ConstraintExistsError, match=r"PRIMARY KEY \(`id`\)"):
        check_new_key(Key(name="PK", kind=UNIQUE, columns=("day",)), known, table="t")
    with pytest.raises(ConstraintExistsError, match="id > 0"):
        check_new_key(Key(name="Positive", kind=UNIQUE, columns=("day",)), known, table="t")
    with pytest.raises(InvalidKeyError, match="has the primary key pk already"):
        check_new_key(Key(name="other", kind=PRIMARY, columns=("day",)), known, table="t")
    check_new_key(UQ, known, table="t")


# --- changes of columns


def test_a_renamed_column_is_renamed_in_its_keys() -> None:
    moved = with_column_moved(properties(PK, UQ, FK), ("ID",), ("number",), table="t")
    assert [key.columns for key in keys_of(moved, table="t")] == [("number",), ("day", "number"), ("day",)]
    assert moved["my.own"] == "1"
    assert with_column_moved(properties(PK), ("s", "id"), ("s", "x"), table="t") == properties(PK)


def test_with_a_column_its_keys_go() -> None:
    moved = with_column_moved(properties(PK, UQ, FK), ("Id",), None, table="t")
    assert [key.name for key in keys_of(moved, table="t")] == ["fk"]


def test_keys_follow_a_new_schema() -> None:
    def column(name: str, number: int) -> Field:
        return Field(name=name, type=STRING, metadata={"delta.columnMapping.id": number})

    before, after = Struct((column("Id", 1), column("day", 2))), Struct((column("date", 2), column("Id", 3)))
    followed = followed_keys(properties(PK, UQ, FK), before, after, table="t")
    assert [(key.name, key.columns) for key in keys_of(followed, table="t")] == [("fk", ("date",))]


def test_a_schema_that_replaces_another_leaves_the_keys_that_it_can_have() -> None:
    known, narrow = properties(PK, UQ), Struct((Field(name="Id", type=LONG),))
    assert keys_of(keys_for(known, narrow, known, table="t"), table="t") == (
        Key(name="pk", kind=PRIMARY, columns=("Id",), rely=True),
    )
    with pytest.raises(InvalidKeyError, match="no column day"):
        keys_for(known, narrow, {}, table="t")
    with pytest.raises(InvalidKeyError, match="primary key"):
        keys_for(properties(PK, Key(name="pk2", kind=PRIMARY, columns=("Id",))), narrow, {}, table="t")
