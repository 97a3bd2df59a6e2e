"""Type changes: one that is let in by mistake reads wrong values."""

import pytest

from tahoe.errors import UnsupportedTypeChangeError
from tahoe.protocol.types.schema import INTEGER, LONG, Array, Field, Map, Struct, parse_type
from tahoe.protocol.types.type_widening import check_type_changes, is_widening, recorded_changes, with_type_changes

ALLOWED = [
    ("byte", "short"),
    ("byte", "long"),
    ("short", "integer"),
    ("integer", "long"),
    ("float", "double"),
    ("byte", "double"),
    ("integer", "double"),
    ("date", "timestamp_ntz"),
    ("decimal(6,2)", "decimal(10,4)"),
    ("decimal(6,2)", "decimal(7,2)"),
    ("byte", "decimal(10,0)"),
    ("integer", "decimal(12,2)"),
    ("long", "decimal(20,0)"),
    ("void", "struct"),
]
REFUSED = [
    ("long", "integer"),
    ("long", "double"),
    ("integer", "float"),
    ("double", "float"),
    ("date", "timestamp"),
    ("timestamp_ntz", "date"),
    ("decimal(6,2)", "decimal(6,2)"),
    ("decimal(6,2)", "decimal(6,3)"),
    ("decimal(6,2)", "decimal(7,4)"),
    ("decimal(6,2)", "decimal(7,1)"),
    ("integer", "decimal(9,0)"),
    ("integer", "decimal(11,2)"),
    ("long", "decimal(19,0)"),
    ("float", "decimal(20,5)"),
    ("decimal(6,2)", "double"),
    ("string", "integer"),
    ("integer", "string"),
    ("integer", "integer"),
    ("void", "void"),
    ("interval", "long"),
]


def widening(before, after):
    kinds = [
        Struct((Field(name="a", type=INTEGER),)) if name == "struct" else parse_type(name) for name in (before, after)
    ]
    return is_widening(*kinds)


@pytest.mark.parametrize(("before", "after"), ALLOWED)
def test_the_changes_of_the_protocol_are_allowed(before, after):
    assert widening(before, after)


@pytest.mark.parametrize(("before", "after"), [pair for pair in REFUSED if "interval" not in pair])
def test_no_other_change_is(before, after):
    assert not widening(before, after)


def changed(before, after, field_path=None):
    change = {"fromType": before, "toType": after, **({"fieldPath": field_path} if field_path else {})}
    nested = Map(
        key=INTEGER,
        value=Array(element=Struct((Field(name="deep", type=INTEGER, metadata={"delta.typeChanges": [change]}),))),
    )
    return Struct((Field(name="m", type=nested),))


@pytest.mark.parametrize(("before", "after"), REFUSED)
def test_a_schema_that_records_another_change_is_refused_with_column_and_types(before, after):
    with pytest.raises(UnsupportedTypeChangeError) as raised:
        check_type_changes(changed(before, after, "element.value"), table="t")
    assert raised.value.parameters == {
        "table": "t",
        "column": "m.value.element.deep.element.value",
        "from_type": before,
        "to_type": after,
    }


def test_the_changes_that_the_reference_records_are_accepted():
    for before, after in ALLOWED[:-1]:
        check_type_changes(changed(before, after), table="t")
    check_type_changes(
        changed("decimal(6, 2)", "decimal(10, 4)", "element.value"), table="t"
    )  # spelled with a space, as in the protocol


def test_recorded_changes_give_paths_whose_names_may_have_dots():
    widened = with_type_changes(Field(name="b.c", type=LONG), INTEGER)
    schema = Struct((widened, Field(name="a.b", type=Array(element=Struct((widened,))))))
    assert list(recorded_changes(schema)) == [(("b.c",), INTEGER, LONG), (("a.b", "element", "b.c"), INTEGER, LONG)]
