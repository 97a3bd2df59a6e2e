"""The definition of a new table: the methods of `DeltaTableBuilder`, and the generator of identity columns."""

# ruff: noqa: N802, N803  the names are the reference's

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Self, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from tahoe.errors import InvalidOptionError, TableExistsError, TableNotFoundError
from tahoe.protocol.types.column_metadata import generated, identity
from tahoe.protocol.types.names import parse_column_list
from tahoe.spark.ddl.catalog import name_not_found
from tahoe.spark.ddl.creation import NewTable, declared_schema, make_table, named_or_path, place_of
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.statements.catalog_entries import declared_columns
from tahoe.spark.jvm.table_cache import open_table
from tahoe.table.table import Table


@dataclass(frozen=True)
class IdentityGenerator:
    """The start and the step of an identity column's values."""

    start: int = 1
    step: int = 1


Creation: TypeAlias = Literal["create", "createIfNotExists", "replace", "createOrReplace"]


class TableBuilder:
    """The table's name or location, columns, partitioning, comment and properties. `DeltaTableBuilder.execute` creates
    the table.
    """

    def __init__(self, spark: SparkSession, creation: Creation) -> None:
        self._spark = spark
        self._creation: Creation = creation
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._columns: list[StructField] = []
        self._partition_columns: tuple[str, ...] = ()
        self._clustering_columns: tuple[str, ...] = ()
        self._properties: dict[str, str] = {}

    def __repr__(self) -> str:
        names = ", ".join(field.name for field in self._columns)
        return f"DeltaTableBuilder({self._creation}, {self._name or self._location!r}, columns=[{names}])"

    def tableName(self, identifier: str) -> Self:
        """Set the name: a name in the session's catalog, with or without a database, or ``delta.`/data/t` ``."""
        if type(identifier) is not str:
            _raise_type_error("Identifier must be str.", [identifier])
        self._name = identifier
        return self

    def location(self, location: str) -> Self:
        """Set the folder of the table."""
        if type(location) is not str:
            _raise_type_error("Location must be str.", [location])
        self._location = location
        return self

    def comment(self, comment: str) -> Self:
        if type(comment) is not str:
            _raise_type_error("Table comment must be str.", [comment])
        self._comment = comment
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> Self:
        """Add a column.

        Args:
            dataType: a type, or its name in SQL.
            generatedAlwaysAs: the SQL expression of a generated column, or the generator of an identity column.
            generatedByDefaultAs: the generator of an identity column that also accepts explicit values.
        """
        if type(colName) is not str:
            _raise_type_error("Column name must be str.", [colName])
        if type(dataType) is not str and not isinstance(dataType, DataType):
            _raise_type_error("Column data type must be str or DataType.", [dataType])
        if type(nullable) is not bool:
            _raise_type_error("Column nullable must be bool.", [nullable])
        metadata = _generation(generatedAlwaysAs, generatedByDefaultAs)
        if comment is not None:
            if type(comment) is not str:
                _raise_type_error("Column comment must be str.", [comment])
            metadata["comment"] = comment
        kind = DataType.fromDDL(dataType) if isinstance(dataType, str) else dataType
        self._columns.append(StructField(colName, kind, nullable, metadata))
        return self

    def addColumns(self, cols: StructType | list[StructField]) -> Self:
        """Add the columns of a schema."""
        if isinstance(cols, list):
            for col in cols:
                if type(col) is not StructField:
                    _raise_type_error("Column in existing schema must be StructField.", [col])
            cols = StructType(cols)
        if type(cols) is not StructType:
            _raise_type_error("Schema must be StructType or a list of StructField.", [cols])
        self._columns.extend(cols.fields)
        return self

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> Self:
        """Set the partition columns."""
        self._partition_columns = column_names("Partitioning column must be str.", cols)
        return self

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> Self:
        """Set the clustering columns; a name with dots is a field of a struct."""
        self._clustering_columns = column_names("Clustering column must be str.", cols)
        return self

    def property(self, key: str, value: str) -> Self:
        """Set a table property."""
        if type(key) is not str or type(value) is not str:
            _raise_type_error("Key and value of property must be string.", [key, value])
        self._properties[key] = value
        return self

    def _make(self) -> tuple[Table, str | None]:
        """Create or replace the table; `createIfNotExists` keeps an existing one. Returns the table, and its name in
        the catalog if any.
        """
        gateway = Gateway(self._spark)
        new = self._new_table(gateway)
        place = place_of(gateway, new)
        # an existing table may get a name
        exists = open_table(self._spark, place.url).exists() if new.name is None else place.is_known
        if self._creation == "replace" and not exists:
            raise TableNotFoundError(table=place.url) if new.name is None else name_not_found(gateway, self._name or "")
        if self._creation == "create" and exists:
            raise TableExistsError(table=self._name or place.url)
        if not exists or self._creation != "createIfNotExists":
            try:
                make_table(gateway, new, replaces=self._creation in ("replace", "createOrReplace"))
            except TableExistsError:  # another session has created it meanwhile
                if self._creation != "createIfNotExists":
                    raise
        return open_table(self._spark, place_of(gateway, new).url), None if new.name is None else self._name

    def _new_table(self, gateway: Gateway) -> NewTable:
        """The table that the builder's methods have defined."""
        if self._name is None and self._location is None:
            detail = "a new table needs a name or a location"
            raise InvalidOptionError(option="tableName", value="missing", table="a new table", detail=detail)
        name, location = named_or_path(gateway, self._name) if self._name is not None else (None, None)
        table = self._name or self._location or ""
        return NewTable(
            name=name,
            location=location or self._location,
            schema=declared_schema(declared_columns(gateway, gateway.struct(StructType(self._columns))), table=table),
            partition_by=self._partition_columns,
            cluster_by=tuple(path for name in self._clustering_columns for path in parse_column_list(name)),
            properties=self._properties,
            comment=self._comment,
        )


def _generation(always: str | IdentityGenerator | None, by_default: IdentityGenerator | None) -> dict[str, Any]:
    """The metadata of a generated or identity column. Protocol: "Generated Columns", "Identity Columns"."""
    if always is not None and by_default is not None:
        raise ValueError("generatedByDefaultAs and generatedAlwaysAs cannot both be set.", [by_default, always])
    if by_default is not None:
        if not isinstance(by_default, IdentityGenerator):
            _raise_type_error("Generated by default expression must be IdentityGenerator.", [by_default])
        return _identity(by_default, allow_explicit_insert=True)
    if always is None:
        return {}
    if isinstance(always, IdentityGenerator):
        return _identity(always, allow_explicit_insert=False)
    if type(always) is not str:
        _raise_type_error("Generated always as expression must be str or IdentityGenerator.", [always])
    return generated(always)


def _identity(generator: IdentityGenerator, *, allow_explicit_insert: bool) -> dict[str, Any]:
    if generator.step == 0:
        raise ValueError("Column identity generation requires step to be non-zero.")
    return identity(generator.start, generator.step, allow_explicit_insert=allow_explicit_insert)


def column_names(message: str, cols: Sequence[str | list[str] | tuple[str, ...]]) -> tuple[str, ...]:
    """Column names, given as several arguments or as one list."""
    given: Sequence[Any] = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
    for name in given:
        if type(name) is not str:
            _raise_type_error(message, [name])
    return tuple(given)


def _raise_type_error(message: str, found: Iterable[Any]) -> NoReturn:
    raise TypeError(message + "".join(f" Found {value} with type {type(value)}" for value in found))
