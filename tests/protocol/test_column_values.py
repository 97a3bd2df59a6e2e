"""Where values come from that rows do not bring: which rules hold, and how the numbers of identity columns go on."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import (
    ColumnDefaultsNotEnabledError,
    GeneratedColumnTypeError,
    IdentityColumnTypeError,
    IdentityOverflowError,
    IdentityUpdateError,
    IdentityValueGivenError,
    InvalidIdentityColumnError,
    MetadataChangedException,
    PartitionedByIdentityError,
)
from tahoe.protocol.changes.column_values import (
    LONG_MAX,
    Identity,
    as_declared,
    check_assigned,
    check_given,
    check_new_columns,
    column_values,
    identity_columns,
    moved_high_water_marks,
    with_high_water_marks,
)
from tahoe.protocol.changes.conflict import Intent, Winner, find_conflict
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.column_metadata import (
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_HIGH_WATER_MARK,
)
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, VARIANT, Field, Struct

ALL = Protocol(
    reader_version=1,
    writer_version=7,
    writer_features=frozenset({"generatedColumns", "identityColumns", "allowColumnDefaults"}),
)


def numbers(start=1, step=1, explicit=False, **metadata):
    return {
        "delta.identity.start": start,
        "delta.identity.step": step,
        "delta.identity.allowExplicitInsert": explicit,
        **metadata,
    }


def field(name="i", kind=LONG, **metadata):
    return Field(name=name, type=kind, metadata=metadata)


COUNTED = field(**numbers(10, 5))
DEFAULTED = field("d", STRING, **{CURRENT_DEFAULT: "'x'", EXISTS_DEFAULT: "'y'"})
GENERATED = field("g", LONG, **{GENERATION_EXPRESSION: "i * 2"})
SCHEMA = Struct((COUNTED, DEFAULTED, GENERATED, field("plain")))


def test_rules_hold_where_the_protocol_supports_their_features():
    found = column_values(ALL, SCHEMA)
    assert found.generated == {"g": "i * 2"}
    assert found.defaults == {"d": "'x'"}
    assert found.identity == {"i": Identity(start=10, step=5)}
    assert [name for name in SCHEMA.names if found.has(name)] == ["i", "d", "g"]
    # Spark carries a column's metadata from table to table, and old writers have stored it where it means nothing
    assert not column_values(Protocol(reader_version=1, writer_version=2), SCHEMA)
    assert column_values(Protocol(reader_version=1, writer_version=4), SCHEMA).generated
    assert not column_values(Protocol(reader_version=1, writer_version=4), SCHEMA).identity
    assert column_values(Protocol(reader_version=1, writer_version=6), SCHEMA).identity


@given(
    start=st.integers(-100, 100),
    step=st.integers(-7, 7).filter(bool),
    values=st.lists(st.integers(-1000, 1000), max_size=8),
)
def test_a_mark_is_never_short_of_a_value_and_never_goes_back(start, step, values):
    # the reference refuses to go on from a mark that no number of steps leads to
    identity = Identity(start=start, step=step)
    marks = [identity.high_water_mark]
    for value in values:
        identity = identity.moved_to(value)
        marks.append(identity.high_water_mark)
        sign = 1 if step > 0 else -1
        assert (identity.high_water_mark - value) * sign >= 0
        assert (identity.high_water_mark - start) % step == 0
        assert (identity.next - identity.high_water_mark) == step
    moved = [mark * step for mark in marks if mark is not None]
    assert moved == sorted(moved)


@pytest.mark.parametrize("key", ["start", "step", "highWaterMark"])
@pytest.mark.parametrize("value", ["x", "1", 1.9, True, [], 2**63])
def test_an_identity_column_of_another_writer_needs_integers(key, value):
    schema = Struct((field("c", **{**numbers(), f"delta.identity.{key}": value}),))
    with pytest.raises(
        InvalidIdentityColumnError, match=f"Column c of t .*expected delta.identity.{key} to be an integer"
    ) as raised:
        column_values(ALL, schema, table="t")
    assert json.dumps(value) in str(raised.value)


def test_only_the_high_water_mark_of_an_identity_column_may_be_null():
    for key in ("start", "step"):
        with pytest.raises(InvalidIdentityColumnError, match="found null"):
            dict(identity_columns(Struct((field(**{**numbers(), f"delta.identity.{key}": None}),))))
    (found,) = identity_columns(Struct((field(**numbers(**{IDENTITY_HIGH_WATER_MARK: None})),)))
    assert found == ("i", Identity(start=1, step=1))


def test_the_first_number_is_the_start():
    assert Identity(start=10, step=5).next == 10
    assert Identity(start=10, step=5).moved_to(10).next == 15


@given(start=st.integers(-100, 100), step=st.integers(-7, 7).filter(bool), mark=st.integers(-1000, 1000))
def test_the_next_number_is_one_of_the_column_whatever_mark_another_writer_left(start, step, mark):
    """A mark between two numbers shifted all later ones, and a mark before the start gave numbers before it."""
    following = Identity(start=start, step=step, high_water_mark=mark).next
    possible = (start + k * step for k in range(2000))
    assert following == next(number for number in possible if (number - mark) * step > 0)


def test_numbers_that_no_long_holds_are_refused():
    full = Identity(start=1, step=1, high_water_mark=LONG_MAX - 2)
    full.check_room(2, table="t", column="i")
    with pytest.raises(IdentityOverflowError, match=str(LONG_MAX - 2)):
        full.check_room(3, table="t", column="i")
    with pytest.raises(IdentityOverflowError):
        Identity(start=0, step=-1, high_water_mark=-LONG_MAX - 1).check_room(1, table="t", column="i")


def test_marks_are_kept_in_the_schema():
    moved = with_high_water_marks(SCHEMA, {"i": 20})
    assert dict(identity_columns(moved))["i"].high_water_mark == 20
    assert with_high_water_marks(moved, {"i": 15}) == moved
    assert as_declared(moved).find("i") == COUNTED
    assert as_declared(moved).find("d").metadata == {CURRENT_DEFAULT: "'x'"}


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (field(**{"delta.identity.start": 1}), InvalidIdentityColumnError),
        (field(**numbers(step=0)), InvalidIdentityColumnError),
        (field(**numbers(), **{GENERATION_EXPRESSION: "1"}), InvalidIdentityColumnError),
        (field(**numbers(), **{CURRENT_DEFAULT: "1"}), InvalidIdentityColumnError),
        (field(kind=INTEGER, **numbers()), IdentityColumnTypeError),
        (field("p", **numbers()), PartitionedByIdentityError),
        (field(kind=VARIANT, **{GENERATION_EXPRESSION: "v"}), GeneratedColumnTypeError),
    ],
)
def test_columns_that_cannot_be_are_refused(column, error):
    with pytest.raises(error, match=column.name):
        check_new_columns(ALL, Struct((column, field("x"))), ["p"], table="t")


def test_defaults_must_be_asked_for():
    check_new_columns(ALL, SCHEMA, [], table="t")
    with pytest.raises(ColumnDefaultsNotEnabledError, match=r"delta\.feature\.allowColumnDefaults"):
        check_new_columns(Protocol(reader_version=1, writer_version=6), SCHEMA, [], table="t")


def test_who_may_give_numbers():
    always, by_default = (
        column_values(ALL, Struct((COUNTED,))),
        column_values(ALL, Struct((field(**numbers(explicit=True)),))),
    )
    check_given(always, {"g"}, table="t")
    check_given(by_default, {"i"}, table="t")
    with pytest.raises(IdentityValueGivenError, match="column i"):
        check_given(always, {"i"}, table="t")
    for values in (always, by_default):
        check_assigned(values, {"g"}, table="t")
        with pytest.raises(IdentityUpdateError, match="column i"):
            check_assigned(values, {"i"}, table="t")


# --- conflicts

BEFORE = Metadata(id="m", schema_string=SCHEMA.to_json())
AFTER = Metadata(id="m", schema_string=with_high_water_marks(SCHEMA, {"i": 30}).to_json())


def conflict(mine, *actions):
    return find_conflict(mine, Winner(version=7, actions=actions), str, lambda _: None, table="t")


def test_moved_high_water_marks():
    assert moved_high_water_marks(BEFORE, AFTER) == ("i",)
    assert moved_high_water_marks(AFTER, AFTER) == ()


def test_a_winner_that_only_gave_numbers_is_no_conflict_for_who_gives_none():
    mine = Intent(metadata=BEFORE, protocol=Protocol(reader_version=1, writer_version=7), removed_paths={"f"})
    assert conflict(mine, AFTER) is None
    changed = Struct((*with_high_water_marks(SCHEMA, {"i": 30}), field("new")))
    assert isinstance(conflict(mine, Metadata(id="m", schema_string=changed.to_json())), MetadataChangedException)


def test_two_that_give_numbers_conflict():
    # both have given the same ones
    found = conflict(Intent(metadata=None, minted=("i",)), AFTER)
    assert isinstance(found, MetadataChangedException)
    assert "identity column i" in str(found)
    assert IDENTITY_HIGH_WATER_MARK not in str(found)
