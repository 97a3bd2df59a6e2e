"""A Delta table's schema and partitioning as those of an Iceberg table: ids of column mapping are Iceberg's field ids.

Protocol: "Column Mapping", "Writer Requirements for IcebergCompatV2". Iceberg's specification: "Schemas and Data
Types", "Partitioning", "Column Projection".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UnknownType,
)

from tahoe.errors import UnsupportedDataTypeError, UnsupportedOperationError
from tahoe.protocol.configuration.column_mapping import column_id, nested_ids, physical_name
from tahoe.protocol.statistics.answers import exact_bounds
from tahoe.protocol.statistics.stats import has_bounds
from tahoe.protocol.types.schema import VARIANT, Array, DataType, Decimal, Field, Geospatial, Map, Struct
from tahoe.table.reading.snapshot_state import SnapshotState

_PRIMITIVES: Mapping[str, IcebergType] = {
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "variant": UnknownType(),  # see `type_names`
}

# The first version of the format with variants, geometries and geographies.
_V3_TYPES_SINCE = 3

# The property of a column that tells Spark with Iceberg's runtime which statistics it may answer aggregates from.
_METRICS = "write.metadata.metrics.column."


def iceberg_schema(schema: Struct, schema_id: int, *, version: int, table: str) -> Schema:
    """The schema with the names and comments of the table.

    Args:
        version: of Iceberg's format.

    Raises:
        UnsupportedDataTypeError: a column has a type that this version of Iceberg lacks, or no id.
        UnsupportedOperationError: two columns have the same name, since Iceberg joins those of nested ones by dots.
    """
    fields = _Columns(table, version).fields(schema)
    try:
        return Schema(*fields, schema_id=schema_id)
    except ValueError as error:
        raise UnsupportedOperationError(
            operation="Writing Iceberg's metadata",
            table=table,
            detail=str(error),
            remedy="Rename a column that has a dot in its name.",
        ) from error


class _Columns:
    """Translates columns of one table."""

    def __init__(self, table: str, version: int) -> None:
        self.table, self.version = table, version

    def fields(self, struct: Struct, *, nullable: bool = False) -> list[NestedField]:
        """Args: nullable: the struct can be null; then its fields are, too, and none is required."""
        return [self._field(column, nullable=nullable or column.nullable) for column in struct]

    def _field(self, column: Field, *, nullable: bool) -> NestedField:
        number = column_id(column)
        if number is None:
            raise UnsupportedDataTypeError(table=self.table, column=column.name, type=f"{column.type} without an id")
        kind = self._type(column.type, physical_name(column), nested_ids(column), nullable=nullable)
        comment = column.metadata.get("comment")
        return NestedField(
            field_id=number,
            name=column.name,
            field_type=kind,
            required=not nullable,
            doc=str(comment) if comment else None,
        )

    def _type(self, kind: DataType, path: str, ids: Mapping[str, int], *, nullable: bool) -> IcebergType:
        """A type; `path` is the key in `ids`, the ids of elements, keys and values."""
        match kind:
            case Struct():
                return StructType(*self.fields(kind, nullable=nullable))
            case Array():
                element = self._inner(kind.element, f"{path}.element", ids, nullable=kind.contains_null)
                return ListType(**_part("element", element), element_required=not kind.contains_null)
            case Map():
                key = self._inner(kind.key, f"{path}.key", ids, nullable=False)
                value = self._inner(kind.value, f"{path}.value", ids, nullable=kind.value_contains_null)
                required = not kind.value_contains_null
                return MapType(**_part("key", key), **_part("value", value), value_required=required)
            case Decimal():
                return DecimalType(kind.precision, kind.scale)
            case Geospatial("geometry", crs) if self.version >= _V3_TYPES_SINCE:
                return GeometryType(crs)
            case Geospatial(_, crs, algorithm) if self.version >= _V3_TYPES_SINCE:
                return GeographyType(crs, algorithm.lower())
            case _:
                found = _PRIMITIVES.get(str(kind))
                if found is None or (kind == VARIANT and self.version < _V3_TYPES_SINCE):
                    raise UnsupportedDataTypeError(table=self.table, column=path, type=str(kind))
                return found

    def _inner(self, kind: DataType, path: str, ids: Mapping[str, int], *, nullable: bool) -> tuple[int, IcebergType]:
        number = ids.get(path)
        if number is None:
            raise UnsupportedDataTypeError(table=self.table, column=path, type=f"{kind} without an id")
        return number, self._type(kind, path, ids, nullable=nullable)


def _part(name: str, given: tuple[int, IcebergType]) -> dict[str, object]:
    number, kind = given
    return {f"{name}_id": number, f"{name}_type": kind}


def name_mapping(schema: Struct) -> NameMapping:
    """How readers find the columns of files without ids: by physical names, which such files have."""
    return NameMapping([_mapped(column) for column in schema])


def rounded_bounds(schema: Struct) -> dict[str, str]:
    """The properties which say of columns that their bounds are not those of a row, as those of timestamps are not,
    which the log has in milliseconds: Spark with Iceberg's runtime would take them for the least and greatest values.
    """
    rounded = (
        path for path, column in schema.leaves() if has_bounds(column.type) and exact_bounds(column.type) is None
    )
    return {f"{_METRICS}{'.'.join(path)}": "counts" for path in rounded}


def _mapped(column: Field) -> MappedField:
    name = physical_name(column)
    inner = list(_mapped_inside(column.type, name, nested_ids(column)))
    return MappedField(field_id=column_id(column), names=[name], fields=inner)


def _mapped_inside(kind: DataType, path: str, ids: Mapping[str, int]) -> Iterator[MappedField]:
    match kind:
        case Struct():
            yield from map(_mapped, kind)
        case Array():
            parts = {"element": kind.element}
        case Map():
            parts = {"key": kind.key, "value": kind.value}
        case _:
            return
    if not isinstance(kind, Struct):
        for name, inner in parts.items():
            there = f"{path}.{name}"
            fields = list(_mapped_inside(inner, there, ids))
            yield MappedField(field_id=ids.get(there), names=[name], fields=fields)


def partition_spec(snapshot: SnapshotState, spec_id: int, before: PartitionSpec | None, first_id: int) -> PartitionSpec:
    """The partitioning by columns as they are: that before, if it is by the same columns, whatever their names are now.

    Args:
        first_id: the first id that no partition field of the table has.
    """
    columns = [column for name in snapshot.partition_columns if (column := snapshot.schema.find(name)) is not None]
    sources = [column_id(column) for column in columns]
    if before is not None and [field.source_id for field in before.fields] == sources:
        return before
    fields = [
        PartitionField(source_id=source, field_id=first_id + place, transform=IdentityTransform(), name=column.name)
        for place, (source, column) in enumerate(zip(sources, columns, strict=True))
        if source is not None
    ]
    return PartitionSpec(*fields, spec_id=spec_id)


def without_name_conflicts(spec: PartitionSpec, schema: Schema) -> PartitionSpec:
    """A partitioning whose fields have no name of another column: it was by that name once, or is that of files before.
    Iceberg's own library refuses a table with such a partitioning.
    """
    ids = {field.name: field.field_id for field in schema.fields}
    fields = [
        field.model_copy(update={"name": f"{field.name}_{field.source_id}"})
        if ids.get(field.name, field.source_id) != field.source_id
        else field
        for field in spec.fields
    ]
    return PartitionSpec(*fields, spec_id=spec.spec_id)
