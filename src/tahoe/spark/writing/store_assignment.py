"""Store assignment: matches columns by name, casts them as INSERT does, and checks nulls and lengths while the rows are
written.

Protocol: "Writer Version Requirements" (column invariants: NOT NULL). The checks are expressions in the plan that is
written, so they need no additional pass. Only public functions of PySpark are used; the rules on types are in
`tahoe.protocol.types.assignment_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's users know it by this name
from pyspark.sql.types import ArrayType, CharType, MapType, StringType, StructType, VarcharType
from pyspark.sql.types import DataType as SparkType

from tahoe._cached import cached_property
from tahoe.errors import (
    CheckConstraintViolatedError,
    DeltaError,
    NotNullViolationError,
    ReplaceWhereMismatchError,
    TextTooLongError,
    UnfitValueError,
)
from tahoe.protocol.changes.column_type_changes import TEXT_TYPE
from tahoe.protocol.changes.constraints import Constraint
from tahoe.protocol.types import predicate as p
from tahoe.protocol.types.assignment_rules import (
    Policy,
    always_fits,
    check_assignable,
    conforms,
    conforms_inside,
    error_of_cast,
)
from tahoe.protocol.types.column_metadata import COLLATIONS
from tahoe.protocol.types.names import quoted
from tahoe.protocol.types.partitions import format_partition_value
from tahoe.protocol.types.schema import (
    STRING,
    VARIANT,
    VOID,
    Array,
    DataType,
    Field,
    Geospatial,
    Map,
    Primitive,
    Struct,
    as_nullable,
    holds_geospatial,
    walk_fields,
)
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.plans import Value, java_column, projected
from tahoe.spark.jvm.types import delta_schema, spark_schema
from tahoe.spark.writing.foreign_types import casts_of, holds_foreign, without_foreign_types
from tahoe.sql.predicates import columns_named

# The prefix of every refusal's reason. `delta.Quiet` keeps messages with this prefix out of the driver's log.
REFUSED = "tahoe refuses a row: "

# How much of a refused value an error shows.
_SHOWN_CHARACTERS = 100


class Refusals:
    """Creates expressions that refuse rows, and finds the error for the user when Spark reports such a failure.

    Attributes:
        policy: how values of another type than the column's are cast.
        are_assigned: whether the values come from UPDATE or MERGE, whose overflows have a condition of their own.
    """

    def __init__(self, table: str, policy: Policy = "ANSI", *, are_assigned: bool = False) -> None:
        self.table, self.policy, self.are_assigned = table, policy, are_assigned
        self._errors: dict[str, Callable[[str], DeltaError]] = {}

    def column(self, reason: str, *, make_error: Callable[[str], DeltaError], found: Column | None = None) -> Column:
        """An expression that fails the job when it is evaluated.

        Args:
            reason: a sentence that is unique among these refusals; executors log it.
            make_error: creates the user's error from the text of the refused value.
            found: the refused value.
        """
        self._errors[reason] = make_error
        if found is None:
            return F.raise_error(F.lit(REFUSED + reason))
        shown = F.coalesce(F.substring(found.cast("string"), 1, _SHOWN_CHARACTERS), F.lit("null"))
        return F.raise_error(F.concat(F.lit(f"{REFUSED}{reason} Found: "), shown))

    def recognise(self, message: str) -> DeltaError | None:
        """The error for Spark's message if one of these refusals caused it, else None."""
        for reason, make_error in self._errors.items():
            _, at, rest = message.partition(reason)
            if at:
                return make_error(rest.removeprefix(" Found: ").split(" SQLSTATE:")[0].split("\n")[0].strip())
        return None

    def null(self, path: tuple[str, ...]) -> Column:
        name = ".".join(path)
        reason = f"Column {name} of {self.table} is NOT NULL, but the data contains a null value for it."
        return self.column(reason, make_error=lambda _: NotNullViolationError(column=name, table=self.table))

    def value(
        self, path: tuple[str, ...], wanted: str, found: Column, kind: Callable[[str], type[UnfitValueError]]
    ) -> Column:
        """
        Args:
            wanted: the type, as a text.
            kind: the class of the error for the text of a value.
        """
        name = ".".join(path)
        reason = f"A value for column {name} of {self.table} does not fit in {wanted}."
        return self.column(
            reason,
            make_error=lambda value: kind(value)(value=value, column=name, table=self.table, type=wanted),
            found=found,
        )


def assign(frame: DataFrame, wanted: Struct, refusals: Refusals, keep: Iterable[str] = ()) -> DataFrame:
    """The data with exactly the wanted columns, in the wanted order, spelling and types.

    Missing columns become null; additional columns are dropped.

    Args:
        keep: additional columns of the data that are kept unchanged, after the wanted columns.

    Raises:
        SchemaMismatchError: the data's types do not fit; names every column that does not fit.
    """
    others = list(keep)
    frame = _with_types_of_delta(frame, wanted, refusals.policy)
    given = _schema_of(frame, lambda name: name not in others, refusals)
    check_assignable(given, wanted, table=refusals.table, policy=refusals.policy)
    if not others and conforms_inside(given, wanted) and not any(TEXT_TYPE in f.metadata for f in wanted):
        return frame
    return _assign_columns(frame, given, wanted, set(wanted.names), others, refusals, refusals.policy)


def assign_some(
    frame: DataFrame, wanted: Struct, names: Set[str], refusals: Refusals, keep: Iterable[str] = ()
) -> DataFrame:
    """Like `assign`, but only for the columns in `names`; all wanted columns must be present, and the other columns
    must fit already.

    Always uses the ANSI policy, because the values come from the table's rules and not from the user.
    """
    given = _schema_of(frame, set(wanted.names).__contains__, refusals)
    check_assignable(given, Struct(tuple(f for f in wanted if f.name in names)), table=refusals.table)
    return _assign_columns(frame, given, wanted, names, keep, refusals, "ANSI")


def _with_types_of_delta(frame: DataFrame, wanted: Struct, policy: Policy) -> DataFrame:
    """The data with intervals, times and collated strings cast to types of Delta, where Spark can cast them to the
    wanted columns.
    """
    if not holds_foreign(frame.schema):
        return frame
    return retyped(
        frame, without_foreign_types(frame.schema, spark_schema(wanted), casts_of(frame.sparkSession, policy))
    )


def retyped(frame: DataFrame, schema: StructType) -> DataFrame:
    """The data with the names and types of a schema, matched by position. Names of nested fields change too."""
    given = frame.schema
    if given.names != schema.names:
        frame = frame.toDF(*schema.names)
    same = [before.dataType == after.dataType for before, after in zip(given, schema, strict=True)]
    if all(same):
        return frame
    at = [quoted(name) for name in frame.columns]
    if len({name.lower() for name in frame.columns}) < len(
        at
    ):  # ambiguous names; the check of the full schema refuses them
        at = list(map(str, range(len(at))))
        frame = frame.toDF(*at)
    cast = [
        F.col(place).alias(field.name) if is_same else F.col(place).cast(field.dataType).alias(field.name)
        for place, field, is_same in zip(at, schema, same, strict=True)
    ]
    return frame.select(*cast)


def _schema_of(frame: DataFrame, has: Callable[[str], bool], refusals: Refusals) -> Struct:
    return delta_schema(StructType([f for f in frame.schema if has(f.name)]), table=refusals.table)


def _assign_columns(
    frame: DataFrame,
    given: Struct,
    wanted: Struct,
    names: Set[str],
    keep: Iterable[str],
    refusals: Refusals,
    policy: Policy,
) -> DataFrame:
    """The wanted columns in one projection. A column that is not in `names`, or that fits already, is passed on
    unchanged.
    """
    assigner = _Assigner(refusals, policy, Gateway(frame.sparkSession))

    def value(column: Field) -> Value:
        source = given.find(column.name)
        stays = source is not None and conforms(source, column) and declared_text(column) is None
        return (
            column.name
            if stays or column.name not in names
            else assigner.field(lambda name: F.col(quoted(name)), given, column, ())
        )

    return projected(frame, [*map(value, wanted), *keep])


class _Assigner:
    """Builds the expression for each column. `path` is the column's or field's path in the table."""

    def __init__(self, refusals: Refusals, policy: Policy, gateway: Gateway) -> None:
        self.refusals, self.policy, self._gateway = refusals, policy, gateway

    def field(
        self,
        at: Callable[[str], Column],
        given: Struct,
        wanted: Field,
        path: tuple[str, ...],
        declared: SparkType | None = None,
    ) -> Column:
        """The expression for a column or a struct field, under its wanted name; null if the data does not have it."""
        source, path = given.find(wanted.name), (*path, wanted.name)
        if source is None:
            return F.lit(None).cast(spark_type(wanted.type)).alias(wanted.name)
        declared = declared_text(wanted) or declared
        column = at(source.name)
        if declared is None and conforms(source, wanted):
            return column
        return self.convert_and_check(
            column, source.type, source.nullable, wanted.type, wanted.nullable, path, declared
        ).alias(wanted.name)

    def convert_and_check(
        self,
        column: Column,
        given: DataType,
        given_nullable: bool,
        wanted: DataType,
        wanted_nullable: bool,
        path: tuple[str, ...],
        declared: SparkType | None,
    ) -> Column:
        """The converted value, refused if it is null and must not be."""
        value = (
            column
            if declared is None and conforms_inside(given, wanted)
            else self.convert(column, given, wanted, path, declared)
        )
        becomes_null = self._becomes_null(given, wanted)
        if wanted_nullable or not (given_nullable or becomes_null):
            return value
        return F.when((value if becomes_null else column).isNull(), self.refusals.null(path)).otherwise(value)

    def _becomes_null(self, given: DataType, wanted: DataType) -> bool:
        """Whether the conversion may turn a value that is not null into null."""
        is_legacy = self.policy == "LEGACY" and given != wanted and not always_fits(given, wanted)
        return (is_legacy or given == VARIANT != wanted) and not (
            type(given) is type(wanted) and isinstance(given, Struct | Array | Map)
        )

    def convert(
        self, column: Column, given: DataType, wanted: DataType, path: tuple[str, ...], declared: SparkType | None
    ) -> Column:
        """The value in the wanted type. Nested values are built part by part, because each part may have a check of its
        own; a null struct stays null.
        """
        match given, wanted:
            case Struct(), Struct():
                inside = [
                    self.field(lambda name: column.getField(name), given, f, path, _declared_field(declared, f.name))
                    for f in wanted
                ]
                return F.when(column.isNotNull(), F.struct(*inside))
            case Array(), Array():
                element = _declared_part(declared, "elementType")
                return F.transform(
                    column,
                    lambda item: self.convert_and_check(
                        item,
                        given.element,
                        given.contains_null,
                        wanted.element,
                        wanted.contains_null,
                        (*path, "element"),
                        element,
                    ),
                )
            case Map(), Map():
                return self._convert_map(column, given, wanted, path, declared)
            case _, Struct() | Array() | Map() if (
                given == VARIANT
            ):  # the result of the cast is then checked like given data
                loose = as_nullable(wanted)
                return self.convert(self._cast(column, given, loose, path), loose, wanted, path, declared)
            case _:
                cast = self._cast(column, given, wanted, path)
                return cast if declared is None else self._with_length_limit(cast, declared, path)

    def _convert_map(
        self, column: Column, given: Map, wanted: Map, path: tuple[str, ...], declared: SparkType | None
    ) -> Column:
        """A map with converted keys and values. Keys that fit already stay as they are."""
        of_key, of_value = _declared_part(declared, "keyType"), _declared_part(declared, "valueType")
        nulls = given.value_contains_null, wanted.value_contains_null
        result = column
        if of_key is not None or not conforms_inside(given.key, wanted.key):
            result = F.transform_keys(
                result,
                lambda key, _: self.convert_and_check(key, given.key, False, wanted.key, False, (*path, "key"), of_key),
            )
        return F.transform_values(
            result,
            lambda _, value: self.convert_and_check(
                value, given.value, nulls[0], wanted.value, nulls[1], (*path, "value"), of_value
            ),
        )

    def _cast(self, column: Column, given: DataType, wanted: DataType, path: tuple[str, ...]) -> Column:
        """The cast under the policy, independent of the session's ANSI mode.

        Under ANSI and STRICT a value that does not fit is refused, and the error shows the value.
        """
        if given == wanted:
            return column
        if always_fits(given, wanted):
            return column.cast(spark_type(wanted))
        if self.policy == "LEGACY":
            return self._gateway.column_of(
                self._gateway.java_class("delta.Columns").castAsOfOld(java_column(column), spark_type(wanted).json())
            )
        has_value = column.isNotNull() & ~F.is_variant_null(column) if given == VARIANT else column.isNotNull()
        kind = partial(error_of_cast, given, wanted, are_assigned=self.refusals.are_assigned)
        return F.coalesce(
            column.try_cast(spark_type(wanted)), F.when(has_value, self.refusals.value(path, str(wanted), column, kind))
        )

    @cached_property
    def _has_strings_only(self) -> bool:
        """Whether the session takes char and varchar for string. Then Spark does not pad what it compares with them
        either.
        """
        return self._gateway.spark.conf.get("spark.sql.legacy.charVarcharAsString", "false") == "true"

    def _with_length_limit(self, column: Column, declared: SparkType, path: tuple[str, ...]) -> Column:
        """A char or varchar value: trailing blanks beyond the limit are cut off, longer text is refused, char is
        padded.
        """
        if not isinstance(declared, CharType | VarcharType) or self._has_strings_only:
            return column
        limit = declared.length
        cut = F.when(F.char_length(F.rtrim(column)) <= limit, F.substring(column, 1, limit))
        refused = F.when(
            column.isNotNull(), self.refusals.value(path, declared.simpleString(), column, lambda _: TextTooLongError)
        )
        value = F.when(F.char_length(column) <= limit, column).otherwise(F.coalesce(cut, refused))
        return F.rpad(value, limit, " ") if isinstance(declared, CharType) else value


def declared_text(field: Field) -> SparkType | None:
    """The declared type of a column with char or varchar, which the table's schema stores as string; None for other
    columns.
    """
    text = field.metadata.get(TEXT_TYPE)
    return None if text is None else SparkType.fromDDL(text)


def declares(field: Field) -> bool:
    """Whether a column's type matches its declared type. A computed column may carry the declaration of another
    column.
    """
    declared = declared_text(field)
    return declared is not None and _is_like(declared, spark_type(field.type))


def _is_like(declared: SparkType, found: SparkType) -> bool:
    """Whether a type is the declared one with string for each char and varchar."""
    match declared, found:
        case CharType(), StringType():
            return True
        case VarcharType(), StringType():
            return True
        case StructType(), StructType():
            return declared.names == found.names and all(
                _is_like(a.dataType, b.dataType) for a, b in zip(declared, found, strict=True)
            )
        case ArrayType(), ArrayType():
            return _is_like(declared.elementType, found.elementType)
        case MapType(), MapType():
            return _is_like(declared.keyType, found.keyType) and _is_like(declared.valueType, found.valueType)
        case _:
            return declared == found


def _declared_field(declared: SparkType | None, name: str) -> SparkType | None:
    return declared[name].dataType if isinstance(declared, StructType) and name in declared.names else None


def _declared_part(declared: SparkType | None, part: str) -> SparkType | None:
    return getattr(declared, part) if isinstance(declared, ArrayType | MapType) else None


def spark_type(data_type: DataType) -> SparkType:
    """A Delta type as a Spark type."""
    return spark_schema(Struct((Field(name="x", type=data_type),))).fields[0].dataType


def without_void(schema: Struct) -> Struct:
    """The columns that are stored in data files. Protocol: "Void Type": such a column is in the schema only."""
    return Struct(tuple(_field_without_void(f) for f in schema if f.type != VOID))


def _field_without_void(field: Field) -> Field:
    if not isinstance(field.type, Struct):
        return field
    return Field(name=field.name, type=without_void(field.type), nullable=field.nullable, metadata=field.metadata)


# --- conditions on rows


def _as_json(names: Iterable[str], schema: Struct) -> Column:
    """Columns of a row as a text for messages. JSON has no geometries: they are shown as bytes, and not inside other
    types.
    """
    shown = []
    for name in names:
        column, field = F.col(quoted(name)), schema.find(name)
        if field is None or not holds_geospatial(field.type):
            shown.append(column)
        elif isinstance(field.type, Geospatial):
            shown.append(F.st_asbinary(column).alias(name))
    return F.to_json(F.struct(*shown), {"ignoreNullFields": "false"}) if shown else F.lit("{}")


def with_collations(frame: DataFrame, schema: Struct) -> DataFrame:
    """The data with the collations of a table's columns, by which conditions on them compare."""
    names = {path[0] for path, field in walk_fields(schema) if COLLATIONS in field.metadata}
    types = [(f.name, f.dataType) for f in spark_schema(Struct(tuple(f for f in schema if f.name in names)))]
    return frame.withColumns({name: F.col(quoted(name)).cast(kind) for name, kind in types}) if types else frame


def require(frame: DataFrame, predicate: p.Predicate, text: str, schema: Struct, refusals: Refusals) -> DataFrame:
    """The data, with a check that refuses rows that do not satisfy the replaceWhere predicate.

    The check is a projection and not a filter: Spark pushes filters down, where they would also see rows that a join or
    another filter removes later.
    """
    columns = list(dict.fromkeys(c.path[0] for c in p.columns_of(predicate))) or [schema.names[0]]
    found = _as_json(columns, schema)
    reason = f"A row for {refusals.table} does not satisfy replaceWhere {text}."
    refused = refusals.column(
        reason,
        make_error=lambda row: ReplaceWhereMismatchError(
            table=refusals.table, predicate=text, detail=f"for example {row}"
        ),
        found=found,
    )
    first = columns[0]
    return frame.withColumn(first, F.when(predicate_column(predicate, schema), F.col(quoted(first))).otherwise(refused))


def enforce(frame: DataFrame, constraints: Iterable[Constraint], schema: Struct, refusals: Refusals) -> DataFrame:
    """The data, with a check that refuses rows for which a constraint is false or null. As in `require`, the check is a
    projection.
    """
    for constraint in constraints:
        named = columns_named(constraint.expression)
        columns = [name for name in frame.columns if name.lower() in named] or frame.columns
        found = _as_json(columns, schema)
        reason = f"A row for {refusals.table} does not satisfy {constraint.name} {constraint.expression}."
        refused = refusals.column(reason, make_error=_violation(refusals.table, constraint), found=found)
        first = F.col(quoted(columns[0]))
        frame = frame.withColumn(columns[0], F.when(F.expr(constraint.expression), first).otherwise(refused))
    return frame


def _violation(table: str, constraint: Constraint) -> Callable[[str], DeltaError]:
    return lambda row: CheckConstraintViolatedError(
        table=table, constraint=constraint.name, expression=constraint.expression, values=row
    )


def predicate_column(predicate: p.Predicate, schema: Struct) -> Column:
    """A predicate as a Spark Column, with the semantics of `tahoe.protocol.types.predicate.evaluate`."""
    match predicate:
        case p.Constant(value):
            return F.lit(value).cast("boolean")
        case p.Not(part):
            return ~predicate_column(part, schema)
        case p.And(parts):
            return _join_parts(parts, schema, lambda left, right: left & right, True)
        case p.Or(parts):
            return _join_parts(parts, schema, lambda left, right: left | right, False)
        case p.IsNull(column):
            return _reference(column).isNull()
        case p.StartsWith(column, prefix):
            return _reference(column).startswith(prefix)
        case p.In(column, values):
            return _reference(column).isin([_literal(v, column, schema) for v in values])
        case p.Comparison():
            return _COMPARISONS[predicate.operator](
                _reference(predicate.column), _literal(predicate.literal.value, predicate.column, schema)
            )
        case p.Unknown(text) | p.Computed(text=text):
            return F.expr(text)


_COMPARISONS: dict[str, Callable[[Column, Column], Column]] = {
    "=": lambda left, right: left == right,
    "<=>": lambda left, right: left.eqNullSafe(right),
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _join_parts(
    parts: tuple[p.Predicate, ...], schema: Struct, join: Callable[[Column, Column], Column], empty: bool
) -> Column:
    result = F.lit(empty)
    for position, part in enumerate(parts):
        column = predicate_column(part, schema)
        result = column if position == 0 else join(result, column)
    return result


def _reference(column: p.Column) -> Column:
    result = F.col(quoted(column.path[0]))
    for name in column.path[1:]:
        result = result.getField(name)
    return result


def _literal(value: Any, column: p.Column, schema: Struct) -> Column:
    """A constant of the column's type."""
    fields = schema.resolve(column.path)
    return F.lit(value) if not fields else typed_literal(value, fields[-1].type)


def typed_literal(value: Any, kind: DataType) -> Column:
    """A literal of a type. Dates and timestamps are cast from text, so that the session's time zone does not change
    them.
    """
    if isinstance(kind, Primitive) and kind.name in ("date", "timestamp", "timestamp_ntz") and value is not None:
        return F.lit(format_partition_value(value, kind)).cast(spark_type(kind))
    if kind == STRING and isinstance(value, str):
        return F.lit(value)  # a cast would have a collation of its own
    return F.lit(value).cast(spark_type(kind))
