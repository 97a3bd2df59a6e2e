"""Data of types that Delta does not support, written to existing columns: intervals, times of day, strings with
collations.

Such data is cast by Spark, under the session's policy. New columns of these types are refused elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
)
from pyspark.sql.types import DataType as SparkType

from tahoe.errors import UnsupportedDataTypeError
from tahoe.protocol.types.assignment_rules import Policy
from tahoe.protocol.types.schema import parse_type
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import type_casts

CanCast = Callable[[SparkType, SparkType], bool]

# A decimal type that represents every interval and every time without loss.
_ROOMY = DecimalType(38, 9)


def is_foreign(kind: SparkType) -> bool:
    """Whether Delta does not support a type. Structs, arrays and maps are supported, whatever they contain."""
    if isinstance(kind, StructType | ArrayType | MapType | UserDefinedType):
        return False
    if isinstance(kind, StringType):
        return kind != StringType()  # collated; char and varchar are types of their own
    try:
        parse_type(kind.json())
    except UnsupportedDataTypeError:
        return True
    return False


def holds_foreign(kind: SparkType) -> bool:
    """Whether a type is, or contains, a type that Delta does not support."""
    return holds(kind, is_foreign)


def holds(kind: SparkType, is_wanted: Callable[[SparkType], bool]) -> bool:
    """Whether a type is, or contains at any depth, a type for which a function holds. The function is asked for types
    without parts.
    """
    match kind:
        case StructType():
            return any(holds(field.dataType, is_wanted) for field in kind)
        case ArrayType():
            return holds(kind.elementType, is_wanted)
        case MapType():
            return holds(kind.keyType, is_wanted) or holds(kind.valueType, is_wanted)
        case _:
            return is_wanted(kind)


def without_foreign_types(given: StructType, wanted: StructType, can_cast: CanCast) -> StructType:
    """The data's schema, with unsupported types replaced by types of Delta if the table has a column that Spark can
    cast them to.

    The new types can hold every value. Columns are matched by name.

    Args:
        can_cast: whether Spark casts the first type to the second.
    """
    table_types = {field.name.lower(): field.dataType for field in wanted}
    return StructType(
        [
            StructField(f.name, _inside(f.dataType, table_types[f.name.lower()], can_cast), f.nullable, f.metadata)
            if f.name.lower() in table_types
            else f
            for f in given
        ]
    )


def without_known_collations(given: StructType, wanted: StructType) -> StructType:
    """The data's schema, with the collations left out of columns that have those of the table's columns."""
    same = {field.name.lower() for field in wanted if any(_is_same(field, other) for other in given)}
    known = StructType([field for field in wanted if field.name.lower() in same])
    return without_foreign_types(given, known, lambda _, __: False)


def _is_same(one: StructField, other: StructField) -> bool:
    return one.name.lower() == other.name.lower() and one.dataType == other.dataType


def _inside(given: SparkType, wanted: SparkType, can_cast: CanCast) -> SparkType:
    """A type with its unsupported parts replaced, where the table's type has a part that Spark can cast them to."""
    match given, wanted:
        case StructType(), StructType():
            return without_foreign_types(given, wanted, can_cast)
        case ArrayType(), ArrayType():
            return ArrayType(_inside(given.elementType, wanted.elementType, can_cast), given.containsNull)
        case MapType(), MapType():
            key = _inside(given.keyType, wanted.keyType, can_cast)
            return MapType(key, _inside(given.valueType, wanted.valueType, can_cast), given.valueContainsNull)
        case _ if is_foreign(given):
            return _delta_type(given, wanted, can_cast)
        case _:
            return given


def _delta_type(given: SparkType, wanted: SparkType, can_cast: CanCast) -> SparkType:
    if isinstance(given, StringType):
        return StringType()  # the same text, without the collation
    if not can_cast(given, wanted):
        return given
    if isinstance(wanted, IntegralType):
        return LongType()
    return _ROOMY if isinstance(wanted, DecimalType) else wanted


def casts_of(spark: SparkSession, policy: Policy) -> CanCast:
    """A function that tells whether Spark casts one type to another under a policy."""
    gateway = Gateway(spark)
    can_cast = type_casts(gateway, policy)
    parse = gateway.session.parseDataType
    return lambda given, wanted: bool(can_cast(parse(given.json()), parse(wanted.json())))
