"""SQL text to predicates: a misread one filters out the wrong rows, or replaces the wrong partitions."""

from datetime import UTC, date, datetime
from decimal import Decimal as PyDecimal
from zoneinfo import ZoneInfo

import pytest

from tahoe.errors import ColumnNotFoundError, InvalidPredicateError
from tahoe.protocol.types.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    evaluate,
)
from tahoe.protocol.types.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    Array,
    Decimal,
    Field,
    Geospatial,
    Struct,
)
from tahoe.sql.predicates import parse_predicate

SCHEMA = Struct(
    tuple(
        Field(name=name, type=data_type)
        for name, data_type in {
            "i": INTEGER,
            "tiny": BYTE,
            "n": LONG,
            "x": DOUBLE,
            "dec": Decimal(5, 2),
            "s": STRING,
            "flag": BOOLEAN,
            "day": DATE,
            "ts": TIMESTAMP,
            "ntz": TIMESTAMP_NTZ,
            "bin": BINARY,
            "list": Array(element=INTEGER),
            "shape": Geospatial("geometry", "OGC:CRS84"),
            "v": VARIANT,
            "a b": Struct(
                (Field(name="c.d", type=INTEGER), Field(name="e", type=Struct((Field(name="F", type=STRING),)))),
            ),
        }.items()
    )
)
BERLIN = ZoneInfo("Europe/Berlin")


def parse(text):
    return parse_predicate(text, SCHEMA, table="t", zone=BERLIN)


def compared(symbol, column, value):
    return Comparison(symbol, Column((column,)), Literal(value))


@pytest.mark.parametrize(
    ("text", "symbol", "column", "value"),
    [
        ("i = 1", "=", "i", 1),
        ("I == -1", "=", "i", -1),
        ("1 < i", ">", "i", 1),
        ("1 >= i", "<=", "i", 1),
        ("i <=> null", "<=>", "i", None),
        ("i = null", "=", "i", None),
        ("i = '12'", "=", "i", 12),
        ("n = 12L", "=", "n", 12),
        ("n > -(-3)", ">", "n", 3),
        ("i < 1e2", "<", "i", 100),
        ("x >= 1", ">=", "x", 1.0),
        ("x = 1.5D", "=", "x", 1.5),
        ("x = cast(0.1 as float)", "=", "x", 0.10000000149011612),
        ("x = cast('-Infinity' as double)", "=", "x", float("-inf")),
        ("dec = 1", "=", "dec", PyDecimal("1.00")),
        ("dec = 1.5BD", "=", "dec", PyDecimal("1.50")),
        ("dec < '2.25'", "<", "dec", PyDecimal("2.25")),
        ("s = 'it''s'", "=", "s", "it's"),
        ('s = "a\\"b"', "=", "s", 'a"b'),
        ("s = 'a' 'b'", "=", "s", "ab"),
        ("s = r'\\d'", "=", "s", "\\d"),
        ("s = cast(12 as string)", "=", "s", "12"),
        ("flag", "=", "flag", True),
        ("flag = 'FALSE'", "=", "flag", False),
        ("flag = ' y '", "=", "flag", True),
        ("day = '2024'", "=", "day", date(2024, 1, 1)),
        ("flag is true", "<=>", "flag", True),
        ("day = '2024-02-29'", "=", "day", date(2024, 2, 29)),
        ("day = DATE '2024-02-29'", "=", "day", date(2024, 2, 29)),
        ("CAST('2024-02-29' AS DATE) > day", "<", "day", date(2024, 2, 29)),
        ("day >= timestamp '2024-01-02 00:00:00'", ">=", "day", date(2024, 1, 2)),
        ("day < timestamp_ntz '2024-01-02 12:00:00'", "<=", "day", date(2024, 1, 2)),
        ("ts > '2024-01-01 00:00:00'", ">", "ts", datetime(2023, 12, 31, 23, tzinfo=UTC)),
        ("ts > timestamp '2024-01-01T00:00:00Z'", ">", "ts", datetime(2024, 1, 1, tzinfo=UTC)),
        ("ts = DATE '2024-07-01'", "=", "ts", datetime(2024, 6, 30, 22, tzinfo=UTC)),
        ("ntz = '2024-01-01 00:00:00.5'", "=", "ntz", datetime(2024, 1, 1, 0, 0, 0, 500000)),
        ("bin = X'0AFF'", "=", "bin", b"\x0a\xff"),
        (
            "bin = x'AbC'",
            "=",
            "bin",
            b"\x0a\xbc",
        ),  # as in Spark, which reads an odd number of digits with a zero before them
        ("bin = X'F'", "=", "bin", b"\x0f"),
        ("bin = X''", "=", "bin", b""),
    ],
)
def test_a_comparison_holds_a_value_of_the_columns_type(text, symbol, column, value):
    found = parse(text)
    assert found == compared(symbol, column, value)
    assert type(found.literal.value) is type(value)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("i != 1", Not(compared("=", "i", 1))),
        ("i <> 1", Not(compared("=", "i", 1))),
        ("i is distinct from 1", Not(compared("<=>", "i", 1))),
        ("i between 1 and 2", And((compared(">=", "i", 1), compared("<=", "i", 2)))),
        ("i not between 1 and 2", Not(And((compared(">=", "i", 1), compared("<=", "i", 2))))),
        ("i in (1, null, '3')", In(Column(("i",)), (1, None, 3))),
        ("i not in (1, 2.5)", Not(In(Column(("i",)), (1,)))),
        ("s like 'ab%'", StartsWith(Column(("s",)), "ab")),
        ("s like '%'", StartsWith(Column(("s",)), "")),
        ("s like 'a\\_b'", compared("=", "s", "a_b")),
        ("s like 'a!%%' escape '!'", StartsWith(Column(("s",)), "a%")),
        ("s not like 'ab%'", Not(StartsWith(Column(("s",)), "ab"))),
        ("startswith(s, 'x')", StartsWith(Column(("s",)), "x")),
        ("s is null", IsNull(Column(("s",)))),
        ("s is not null", Not(IsNull(Column(("s",))))),
        ("isnotnull(list)", Not(IsNull(Column(("list",))))),
        ("true", Constant(True)),
        ("null", Constant(None)),
        ("1 < 2", Constant(True)),
        ("'a' = null", Constant(None)),
        ("not flag", Not(compared("=", "flag", True))),
        ("`A b`.`c.d` = 1", Comparison("=", Column(("a b", "c.d")), Literal(1))),
        ("`a b`.e.f = 'x'", Comparison("=", Column(("a b", "e", "F")), Literal("x"))),
        (
            "i = 1 or x = 2 and s = 'y'",
            Or((compared("=", "i", 1), And((compared("=", "x", 2.0), compared("=", "s", "y"))))),
        ),
        (
            "(i = 1 or x = 2) and s = 'y'",
            And((Or((compared("=", "i", 1), compared("=", "x", 2.0))), compared("=", "s", "y"))),
        ),
    ],
)
def test_each_form_of_sql_is_read_as_what_it_means(text, predicate):
    assert parse(text) == predicate


@pytest.mark.parametrize("value", [None, -129, -128, 0, 1, 2, 127])
@pytest.mark.parametrize("symbol", ["<", "<=", "=", ">=", ">", "<=>"])
@pytest.mark.parametrize("number", ["1.5", "-0.5", "128", "-1e30", "1e300", "cast('NaN' as double)"])
def test_numbers_that_the_columns_type_does_not_have_are_compared_exactly(value, symbol, number):
    operators = {
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }
    literal = float("inf") if "NaN" in number else PyDecimal(number)
    if symbol == "<=>":
        expected = False
    elif value is None:
        expected = None
    else:
        expected = False if symbol == "=" else operators[symbol](value, literal)
    assert evaluate(parse(f"tiny {symbol} {number}"), {"tiny": value}) is expected
    assert evaluate(parse(f"NOT tiny {symbol} {number}"), {"tiny": value}) is (
        None if expected is None else not expected
    )


def test_numbers_keep_all_their_digits():
    digits = "12345678901234567890123456789012345678"
    wide = Struct((Field(name="d", type=Decimal(38, 0)),))
    assert parse_predicate(f"d = -{digits}", wide, zone=UTC) == compared("=", "d", PyDecimal(f"-{digits}"))
    assert parse_predicate(f"d = cast('{digits}' as decimal(38, 0))", wide, zone=UTC) == compared(
        "=", "d", PyDecimal(digits)
    )


def test_a_decimal_column_is_compared_beyond_its_scale():
    row = {"dec": PyDecimal("1.00")}
    assert evaluate(parse("dec < 1.001"), row) is True
    assert evaluate(parse("dec = 1.001"), row) is False
    assert evaluate(parse("dec >= 1.001"), row) is False
    assert evaluate(parse("dec < 1000"), row) is True
    assert evaluate(parse("dec in (1.001)"), row) is False
    assert evaluate(parse("dec in (1.001)"), {"dec": None}) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected one expression, found none"),
        ("i = 1; i = 2", "expected one expression"),
        ("i = ", "line 1, column 3, near '=': an operand is missing"),
        ("i = 'abc", "parsed"),
        ("i = (1", "line 1"),
        ("i in (select 1)", "list of values"),
        ("s = 1", r"cannot be compared with the number 1\."),
        ("s = date '2024-01-01'", "cannot be compared"),
        ("i = 'x'", "is not a valid integer"),
        ("i = '1.5'", "is not a valid integer"),  # as in Spark, which casts the text to a LONG
        ("i <> 'NaN'", "is not a valid integer"),
        ("i < '9223372036854775808'", "is not a valid integer"),
        ("day = 'soon'", "is not a valid date"),
        ("list = 1", "cannot be compared"),
        ("shape = shape", "compares values of type geometry.*, which have no order"),
        ("shape between shape and shape", "which have no order"),
        ("greatest(shape, shape) is null", "which have no order"),
        ("nullif(v, v) is null", "compares values of type variant, which have no order"),
        ("v <=> v", "which have no order"),
        ("i", "but a condition is expected"),
        ("i is 3", "expected NULL, TRUE or FALSE|line 1"),
        ("1 = 'a'", "compares a number with a text"),
        ("day = current_date()", "CURRENT_DATE cannot be computed without Spark"),
        ("i = 1 n", "near 'n'"),
        ("select 1", "near 'select'"),
        ("i = cast('x' as int)", "is not a valid integer"),
        ("i = cast(1.5 as int)", "not exactly"),
        ("dec = cast('1.5' as decimal)", "not exactly"),
        ("i = cast(1e30 as bigint)", "not exactly"),
        ("s = cast(true as string)", "write the string itself"),
        ("ts = cast(1 as timestamp)", "cannot be compared"),
        ("bin = X'1_F'", "expected hexadecimal digits, found X'1_F'"),
        ("bin = X'0x1F'", "expected hexadecimal digits, found X'0x1F'"),
        ("bin = X' 1F'", "expected hexadecimal digits"),
        ("bin = X'-1'", "expected hexadecimal digits"),
        ("bin in (X'AB', X'\u0663')", "expected hexadecimal digits"),
        ("i = 1e", "expected a number, found 1e"),
        ("i = 1e+", "parsed|expected"),
        ("dec = cast(1 as decimal(x))", "casts to a type that is not supported"),
        ("dec = cast(1 as decimal(-1))", "casts to a type that is not supported|not exactly|parsed"),
        ("dec = cast(1 as decimal(1, 2, 3))", "not supported|not exactly|parsed"),
    ],
)
def test_what_is_no_predicate_is_refused_with_the_reason(text, said):
    with pytest.raises(InvalidPredicateError, match=said) as raised:
        parse(text)
    assert raised.value.parameters["predicate"] == text


@pytest.mark.parametrize("text", ["nope = 1", "nope is null", "`a b`.nope = 1", "i = 1 and s.nope = 2", "i.j = 1"])
def test_an_unknown_column_is_named(text):
    with pytest.raises(ColumnNotFoundError, match=r"nope|i\.j"):
        parse(text)


def test_a_long_or_does_not_overflow_the_stack():
    found = parse(" or ".join(f"(i = {k} and n = {k})" for k in range(2000)))
    assert len(found.parts) == 2000
