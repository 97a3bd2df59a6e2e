"""Checks and converts the arguments of this ring's public methods.

    @takes(columns=NAMES, filter=FILTER)
    def to_arrow(self, columns=None, filter=None): ...

A rule is a record: a description of the expected value, and a function that returns the value as the code needs it, or
refuses it. A parameter's default is always accepted. This module knows no table: whether a column or a version exists
is checked later.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import wraps
from typing import Any, TypeVar, get_args

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import DeltaError, InvalidArgumentError, InvalidTimeTravelError
from tahoe.protocol.configuration.declared_keys import BY_LOCATION, KINDS
from tahoe.protocol.types.names import parse_column_list
from tahoe.protocol.types.predicate import Predicate
from tahoe.protocol.types.schema import Struct
from tahoe.protocol.types.time_zones import zone_of
from tahoe.storage.env import Env
from tahoe.table.arrow.given_rows import Unfit, described, rows_of, stream_of
from tahoe.table.calls import Signature, table_told
from tahoe.table.log.file_parts import COLUMNS

Method = TypeVar("Method", bound=Callable[..., Any])

_LONGS = range(-(2**63), 2**63)

_NAME = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule for an argument.

    Attributes:
        expected: the description of valid values in errors.
        clean: converts the value to what the code needs; raises Unfit.
        remedy: the next step for a value that is refused.
        refused: makes the error from the argument's name, the table, the value found, and the rule.
    """

    expected: str
    clean: Callable[[Any], Any]
    remedy: str
    refused: Callable[[str, str, str, Rule], DeltaError] = lambda argument, table, found, rule: InvalidArgumentError(
        argument=argument, table=table, found=found, expected=rule.expected, remedy=rule.remedy
    )

    def __call__(self, value: object, argument: str, *, table: str) -> Any:
        """Check and convert a value.

        Raises:
            InvalidArgumentError, InvalidTimeTravelError: the value is not what is expected.
        """
        try:
            return self.clean(value)
        except Unfit as unfit:
            more = f" ({unfit})" if str(unfit) else ""
            rule = replace(self, expected=unfit.expected or self.expected, remedy=unfit.remedy or self.remedy)
            raise rule.refused(argument, table, described(value) + more, rule) from unfit.__cause__

    def accepts(self, value: object) -> bool:
        try:
            self.clean(value)
        except Unfit:
            return False
        return True


def takes(**rules: Rule) -> Callable[[Method], Method]:
    """Check and convert arguments of a method, by name, and refuse unknown ones. The object's `url` names the table in
    errors.
    """

    def decorate(method: Method) -> Method:
        signature = Signature(method)
        places = [
            (at, parameter, rules[parameter.name])
            for at, parameter in enumerate(signature.parameters)
            if parameter.name in rules
        ]
        assert len(places) == len(rules), (
            f"{method.__qualname__} has no argument of one of these names: {', '.join(rules)}"
        )

        @wraps(method)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            signature.check(self, args, kwargs)
            by_position = list(args)
            for at, parameter, rule in places:
                given: Any = by_position if at < len(args) else kwargs
                key = at if at < len(args) else parameter.name
                if (given is by_position or key in kwargs) and given[key] is not parameter.default:
                    later = (
                        {other.name: its for place, other, its in places if place > at} if given is by_position else {}
                    )
                    given[key] = _checked(given[key], parameter.name, rule, later, table=table_told(self))
            return method(self, *by_position, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


def _checked(value: Any, name: str, rule: Rule, later: Mapping[str, Rule], *, table: str) -> Any:
    """A value as the code needs it.

    Args:
        later: the arguments that may have been meant: those behind a position. Texts could be any of them.
    """
    try:
        return rule(value, name, table=table)
    except InvalidArgumentError as error:
        is_any = isinstance(value, bool) or (isinstance(value, str) and value.isidentifier())  # a flag, or a name
        if is_any or not isinstance(value, str | int | float | list | dict):
            raise
        meant = next((name for name, other in later.items() if other is not TEXT and other.accepts(value)), None)
        error.suggesting(None if meant is None else f"Did you mean {meant}={value!r}?")
        raise


def or_none(rule: Rule) -> Rule:
    """The rule for a required argument that may be None."""
    return replace(
        rule, expected=f"{rule.expected}, or None", clean=lambda value: None if value is None else rule.clean(value)
    )


# --- conversions


def instance_of(*kinds: type) -> Callable[[Any], Any]:
    def clean(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise Unfit
        return value

    return clean


def _one_of(known: Container[str]) -> Callable[[Any], str]:
    def clean(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise Unfit
        return value

    return clean


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Unfit(str(error)) from error
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unfit
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise Unfit
    try:
        return operator.index(value)
    except TypeError as error:
        raise Unfit from error


def _long(value: Any) -> int:
    number = _whole(value)
    if number not in _LONGS:
        raise Unfit
    return number


def _count(value: Any) -> int:
    number = _whole(value)
    if number < 0:
        raise Unfit
    return number


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit
    return value


def _finite(value: Any) -> float:
    number = _number(value)
    if not math.isfinite(number):
        raise Unfit
    return number


def _callable(value: Any) -> Any:
    if not callable(value):
        raise Unfit
    return value


def _items(value: Any, clean: Callable[[Any], Any]) -> list[Any]:
    """The items of an iterable. A string is refused: it is one value, not a list of its characters."""
    if isinstance(value, str | bytes | Mapping):
        raise Unfit
    try:
        items = iter(value)
    except TypeError as error:
        raise Unfit from error
    return [_item(item, clean) for item in items]


def _item(item: Any, clean: Callable[[Any], Any]) -> Any:
    try:
        return clean(item)
    except Unfit as unfit:
        raise Unfit(str(unfit) or f"an item is {described(item)}") from unfit.__cause__


def list_of(clean: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda value: _items(value, clean)


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Unfit
    for name, item in value.items():
        if not isinstance(name, str) or not isinstance(item, str):
            raise Unfit(f"{name!r} is {described(item)}")
    return {_text(name): _text(item) for name, item in value.items()}


def _assignments(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
        raise Unfit
    return {_text(name): _text(item) if isinstance(item, str) else item for name, item in value.items()}


def _keys(value: Any) -> str | list[str]:
    """A condition as it is; the name of a column as a list of one."""
    if isinstance(value, str):
        is_name = _NAME.fullmatch(_text(value)) is not None and value.lower() not in ("true", "false", "null")
        return [value] if is_name else value
    names = _items(value, _text)
    if not names:
        raise Unfit
    return names


def _location(value: Any) -> str:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or "\0" in path:
        raise Unfit
    return path


def _reference(value: Any) -> tuple[str, ...]:
    """The parts of a table's name; those of a location as SQL has it, delta.`/path`."""
    if isinstance(value, str | os.PathLike):
        location = _text(_location(value))
        if not location.startswith("/") and "://" not in location:
            raise Unfit
        return (BY_LOCATION, location)
    parts = _items(value, _text)
    if not all(parts):
        raise Unfit
    return tuple(parts)


def _zone(value: Any) -> str:
    name = _text(value)
    try:
        zone_of(name)
    except ValueError as error:
        raise Unfit(str(error)) from error
    return name


def _version(value: Any) -> int | str:
    return _text(value) if isinstance(value, str) else _whole(value)


def _txn(value: Any) -> tuple[str, int]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Unfit
    return _text(value[0]), _long(value[1])


def _path(value: Any) -> tuple[str, ...]:
    try:
        ((first, *others),) = parse_column_list(_text(value)) if isinstance(value, str) else [_items(value, _text)]
    except ValueError as error:  # no name, or several columns
        raise Unfit from error
    return (first, *others)


def _filter(value: Any) -> Any:
    if isinstance(value, (str, pc.Expression, *get_args(Predicate))):
        return value
    if not isinstance(value, list | tuple) or not value:
        raise Unfit
    groups = [value] if all(_is_condition(each) for each in value) else value
    if not all(
        isinstance(group, list | tuple) and group and all(_is_condition(each) for each in group) for group in groups
    ):
        raise Unfit
    return [list(group) for group in groups]


def _is_condition(value: Any) -> bool:
    """Whether a value is a column, an operator and a value."""
    return isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], str) and isinstance(value[1], str)


# --- the rules


def _no_time(argument: str, table: str, found: str, rule: Rule) -> DeltaError:
    return InvalidTimeTravelError(table=table, detail=f"{argument} cannot be {found}: it must be {rule.expected}")


_LEAVE_OUT = "Give a valid value, or leave out the argument."

TEXT = Rule(expected="a string", clean=_text, remedy="Pass a string.")
FLAG = Rule(expected="True or False", clean=_flag, remedy="Pass True or False.")
LONG = Rule(expected="a 64-bit integer", clean=_long, remedy="Pass an integer.")
COUNT = Rule(expected="a non-negative integer", clean=_count, remedy=_LEAVE_OUT)
HOURS = Rule(expected="a number of hours", clean=_finite, remedy=_LEAVE_OUT)
CALL = Rule(expected="a function", clean=_callable, remedy=_LEAVE_OUT)
SHARE = Rule(expected="a number from 0 to 1", clean=_number, remedy=_LEAVE_OUT)
POSITIONS = Rule(expected="a list of non-negative integers", clean=list_of(_count), remedy="Pass a list of integers.")
NAMES = Rule(expected="a list of names", clean=list_of(_text), remedy='For a single name, pass ["name"].')
TEXTS = Rule(
    expected="a dictionary of strings", clean=_texts, remedy='Pass numbers and booleans as strings: {"name": "true"}.'
)
OPTIONS = replace(
    TEXTS,
    remedy=(
        'Pass {"aws_region": "eu-west-1"}. A version of the table is read by table.snapshot(3) or to_arrow(version=3).'
    ),
)
TXN = Rule(
    expected="an application id (a string) and a version (an integer)", clean=_txn, remedy='Pass ("application", 7).'
)
VERSION = Rule(expected="an integer or the name of a tag", clean=_version, remedy="", refused=_no_time)
TIMESTAMP = Rule(expected="a string or a datetime", clean=instance_of(str, date, datetime), remedy="", refused=_no_time)
FILTER = Rule(
    expected="an SQL condition over the table's columns, a condition of pyarrow.compute, or a list of tuples",
    clean=_filter,
    remedy='Pass a string: "n > 990 AND name = \'x\'", or tuples: [("n", ">", 990)].',
)
ROWS = Rule(
    expected="a pyarrow.Table, or a DataFrame of pandas, polars or another library that exports Arrow data",
    clean=rows_of,
    remedy=(
        "Use pyarrow.Table.from_pylist(rows) for a list of dictionaries, or pyarrow.table(columns) for a dictionary "
        "of lists."
    ),
)
STREAM = replace(
    ROWS,
    expected=(
        "a pyarrow.Table, a stream of batches, or a DataFrame of pandas, polars or another library that exports Arrow "
        "data"
    ),
    clean=stream_of,
)
SCHEMA = Rule(expected="a schema", clean=instance_of(Struct, pa.Schema), remedy="Pass a pyarrow.Schema.")
PATH = Rule(
    expected="a column, or a field of a struct",
    clean=_path,
    remedy=(
        'Pass "name" for a column, and "struct.field" for a field of a struct; a name with a dot is quoted in '
        "backticks."
    ),
)
VECTORS = Rule(
    expected="report, restore_rows or remove_files",
    clean=_one_of(("report", "restore_rows", "remove_files")),
    remedy="Leave out the argument to have such files reported.",
)
PARTITIONS = Rule(expected='"all" or "dynamic"', clean=_one_of(("all", "dynamic")), remedy=_LEAVE_OUT)
SET = Rule(
    expected="a dictionary of new values by column",
    clean=_assignments,
    remedy='Pass SQL texts or other values: {"price": "price * 1.1", "checked": True}.',
)
KEYS = Rule(
    expected="a column, a list of columns, or an SQL condition",
    clean=_keys,
    remedy='Pass "id", ["id", "day"], or "target.id = source.id AND source.day > target.day".',
)
PATHS = Rule(expected="a list of columns", clean=list_of(_path), remedy=PATH.remedy)
LOCATION = Rule(expected="a path or a url", clean=_location, remedy='Pass a string: "/data/t", "s3://bucket/t".')
REFERENCE = Rule(
    expected="an absolute path or a url, or a list with the parts of a table's name",
    clean=_reference,
    remedy='Pass "/data/orders", or ["spark_catalog", "shop", "orders"].',
)
KEY_KIND = Rule(expected=", ".join(KINDS), clean=_one_of(KINDS), remedy="Leave out the argument for a primary key.")
ZONE = Rule(
    expected="the name of a time zone",
    clean=_zone,
    remedy='Pass a name such as "Europe/Paris", or leave it out for UTC.',
)
FILE_COLUMN = Rule(
    expected=f"one of {', '.join(COLUMNS)}",
    clean=_one_of(COLUMNS),
    remedy="Use Scan.files or Scan.listing for other columns.",
)
OUTSIDE = Rule(
    expected="a tahoe.storage.Env", clean=instance_of(Env), remedy="Leave out the argument to use the default."
)
