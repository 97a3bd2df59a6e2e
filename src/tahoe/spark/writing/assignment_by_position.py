"""Matches data with a table's columns by position: INSERT without a column list, and `insertInto`, including nested
fields.

The rule is the reference's. Struct fields are matched by position too, at every depth, regardless of their names. The
exception is data whose columns have the table's names, and whose fields have the table's names and types: its fields
are matched by name, so that rows of a table with the same fields in another order are stored unchanged.

A column list names columns but not fields: INSERT INTO t (id, c) VALUES (1, array(struct(1, 2))) gives fields `col1`
and `col2`. There, a struct without any of the table's field names is matched by position too. Pure: this module
compares types and uses no session.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, MapType, NullType, StructField, StructType
from pyspark.sql.types import DataType as SparkType

from tahoe.errors import ColumnCountMismatchError, SchemaMismatchError, UnsupportedDataTypeError
from tahoe.protocol.changes.evolution import Widens
from tahoe.protocol.types.schema import parse_type

_REMEDY = "Give a value for each field, or name the columns and fields: INSERT INTO t BY NAME ..."


def named_by_position(given: StructType, wanted: StructType, *, table: str, widens: Widens | None = None) -> StructType:
    """The data's columns with the table's names by position. Columns and fields beyond the table's keep their names.

    Args:
        given: the data's columns; there may be more or fewer than the table has.
        widens: whether the table's column is widened to the data's type, which then counts as fitting.

    Raises:
        SchemaMismatchError: a struct has fewer fields than the table's; or the columns have the table's names, but a
            struct that would be matched by position has the table's field names in another order, so that positions and
            names contradict each other.
    """
    count = min(len(given), len(wanted))
    data, table_columns = StructType(given.fields[:count]), StructType(wanted.fields[:count])
    if data.names == table_columns.names:
        if _fits(data, table_columns, widens):
            return given
        for path in _misplaced_structs(data, table_columns, ()):
            raise SchemaMismatchError(
                table=table,
                detail=(
                    f"the fields of {path} have the table's names in another order, but columns and fields are matched "
                    "by position where a type differs from the table's"
                ),
                remedy="Put the fields into the table's order, or write by name: INSERT INTO t BY NAME ...",
            )
    by_position = _struct_by_position(data, table_columns, (), table)
    return StructType([*by_position.fields, *given.fields[count:]])


def named_inside(given: StructType, wanted: StructType, *, table: str) -> StructType:
    """The columns of a statement with a column list: a struct without any of the table's field names gets these names
    by position.

    Args:
        given: the data's columns, under the table's names in any order.

    Raises:
        ColumnCountMismatchError: such a struct has fewer fields than the table's.
    """
    return _fields_by_name(given, wanted, (), table)


def _fields_by_name(given: StructType, wanted: StructType, path: tuple[str, ...], table: str) -> StructType:
    """The fields, each with its structs named as in the field of the same name."""
    own = {field.name.lower(): field.dataType for field in wanted}
    return StructType(
        [
            StructField(
                field.name,
                _type_by_name(field.dataType, own.get(field.name.lower()), (*path, field.name), table),
                field.nullable,
                field.metadata,
            )
            for field in given
        ]
    )


def _type_by_name(given: SparkType, wanted: SparkType | None, path: tuple[str, ...], table: str) -> SparkType:
    """A type in which structs are matched by name. A struct without any of the table's field names is matched by
    position, with all that is in it.
    """
    match given, wanted:
        case StructType(), StructType():
            if {name.lower() for name in given.names}.isdisjoint(name.lower() for name in wanted.names):
                return _struct_by_position(given, wanted, path, table)
            return _fields_by_name(given, wanted, path, table)
        case ArrayType(), ArrayType():
            return ArrayType(
                _type_by_name(given.elementType, wanted.elementType, (*path, "element"), table), given.containsNull
            )
        case MapType(), MapType():
            key = _type_by_name(given.keyType, wanted.keyType, (*path, "key"), table)
            return MapType(
                key, _type_by_name(given.valueType, wanted.valueType, (*path, "value"), table), given.valueContainsNull
            )
        case _:
            return given


def _struct_by_position(given: StructType, wanted: StructType, path: tuple[str, ...], table: str) -> StructType:
    """A struct with the table's field names by position. Fields beyond the table's keep their names."""
    if len(given) < len(wanted):
        raise ColumnCountMismatchError(
            table=table,
            detail=f"column {'.'.join(path)} has too few fields: {', '.join(given.names)} in the data, "
            f"but {', '.join(wanted.names)} in the table",
            remedy=_REMEDY,
        )
    fields = [
        StructField(
            own.name,
            _type_by_position(field.dataType, own.dataType, (*path, own.name), table),
            field.nullable,
            field.metadata,
        )
        for field, own in zip(given, wanted, strict=False)
    ]
    return StructType([*fields, *given.fields[len(wanted) :]])


def _type_by_position(given: SparkType, wanted: SparkType, path: tuple[str, ...], table: str) -> SparkType:
    """A type in which all structs are matched by position."""
    match given, wanted:
        case StructType(), StructType():
            return _struct_by_position(given, wanted, path, table)
        case ArrayType(), ArrayType():
            return ArrayType(
                _type_by_position(given.elementType, wanted.elementType, (*path, "element"), table), given.containsNull
            )
        case MapType(), MapType():
            key = _type_by_position(given.keyType, wanted.keyType, (*path, "key"), table)
            return MapType(
                key,
                _type_by_position(given.valueType, wanted.valueType, (*path, "value"), table),
                given.valueContainsNull,
            )
        case _:
            return given


def _fits(given: SparkType, wanted: SparkType, widens: Widens | None) -> bool:
    """Whether data has all fields of a type, with the same names and types. Additional fields are allowed."""
    match given, wanted:
        case StructType(), StructType():
            types = {field.name: field.dataType for field in given}
            has_all = all(own.name in types and _fits(types[own.name], own.dataType, widens) for own in wanted)
            return has_all and len({name.lower() for name in given.names}) == len(given)
        case ArrayType(), ArrayType():
            return _fits(given.elementType, wanted.elementType, widens)
        case MapType(), MapType():
            return _fits(given.keyType, wanted.keyType, widens) and _fits(given.valueType, wanted.valueType, widens)
        case _, NullType():
            return True
        case _:
            return given == wanted or (widens is not None and _widens(given, wanted, widens))


def _widens(given: SparkType, wanted: SparkType, widens: Widens) -> bool:
    try:
        return widens(parse_type(wanted.json()), parse_type(given.json()))
    except UnsupportedDataTypeError:  # the data has a type that Delta does not support
        return False


def _misplaced_structs(given: SparkType, wanted: SparkType, path: tuple[str, ...]) -> Iterator[str]:
    """The paths of structs that have a field under a name that the table uses at another position."""
    match given, wanted:
        case StructType(), StructType():
            places = {name.lower(): place for place, name in enumerate(wanted.names)}
            if any(places.get(name.lower(), place) != place for place, name in enumerate(given.names)):
                yield ".".join(path)
            for field, own in zip(given, wanted, strict=False):
                yield from _misplaced_structs(field.dataType, own.dataType, (*path, own.name))
        case ArrayType(), ArrayType():
            yield from _misplaced_structs(given.elementType, wanted.elementType, (*path, "element"))
        case MapType(), MapType():
            yield from _misplaced_structs(given.keyType, wanted.keyType, (*path, "key"))
            yield from _misplaced_structs(given.valueType, wanted.valueType, (*path, "value"))
