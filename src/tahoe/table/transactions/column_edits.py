"""Changes of a table's columns and of its clustering, in a transaction.

Protocol: "Change Metadata", "Column Mapping", "Clustered Table". The rules are in `protocol.column_changes`. This
module has the checks that need the table's rows or files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tahoe.errors import (
    CheckConstraintViolatedError,
    ClusteringStatisticsError,
    ConstraintDependsError,
    DropClusteringColumnError,
    GeneratedColumnDependsError,
    NotNullViolationError,
    SchemaMismatchError,
)
from tahoe.protocol.changes import column_changes
from tahoe.protocol.changes.column_changes import ColumnChange, NewColumn, Path
from tahoe.protocol.changes.column_values import column_values
from tahoe.protocol.changes.constraints import Constraint, constraints_of
from tahoe.protocol.changes.table_configuration import TableConfiguration
from tahoe.protocol.configuration.column_mapping import column_id
from tahoe.protocol.configuration.features import check_writable, supported_features
from tahoe.protocol.log.actions import DomainMetadata
from tahoe.protocol.statistics import clustering
from tahoe.protocol.types.column_metadata import COLLATIONS
from tahoe.protocol.types.names import dotted, sql_path
from tahoe.protocol.types.schema import Field, Struct, walk_fields
from tahoe.sql.predicates import paths_named
from tahoe.table.arguments import FLAG, PATH, PATHS, SCHEMA, TEXT, Rule, instance_of, list_of, takes
from tahoe.table.arrow.types import delta_schema
from tahoe.table.transactions.table_edits import TableEdits
from tahoe.table.writing.planning import check_schema

_NEW_COLUMNS = Rule(
    expected="a list of pyarrow.Field",
    clean=list_of(instance_of(NewColumn, pa.Field)),
    remedy='Pass [pyarrow.field("name", pyarrow.string())].',
)
_CHANGES = Rule(
    expected="a list of ColumnChange",
    clean=list_of(instance_of(ColumnChange)),
    remedy="See tahoe.protocol.changes.column_changes.",
)


class ColumnEdits(TableEdits):
    """A transaction that can change the table's columns."""

    @takes(schema=SCHEMA)
    def set_schema(self, schema: Struct | pa.Schema) -> None:
        """Replace the schema by one that can still read the existing files; see `TableConfiguration.with_schema` for
        what may change.

        Raises:
            SchemaMismatchError, DuplicateColumnsError: existing files do not allow the change, or a constraint or the
                clustering needs a removed column.
        """
        wanted = schema if isinstance(schema, Struct) else delta_schema(schema, table=self.table.url)
        changed = self._configuration.with_schema(wanted, self.table.env.new_id)
        self._check_dependants(changed)
        self._define(changed, "UPDATE SCHEMA", {"schema": wanted.to_json()})

    @takes(columns=_NEW_COLUMNS)
    def add_columns(self, columns: Iterable[NewColumn | pa.Field]) -> None:
        """Add columns; existing rows have nulls in them.

        Args:
            columns: Arrow fields, which become the last columns, or `tahoe.protocol.changes.column_changes.NewColumn`,
                which can be anywhere in the schema.

        Raises:
            ColumnChangeError, ColumnNotFoundError, InvalidColumnNameError, UnsupportedDataTypeError: an invalid column.
            InvalidArgumentError: an argument is not a column.
        """
        new_columns = [column if isinstance(column, NewColumn) else self._last_column(column) for column in columns]
        changed = column_changes.add_columns(self._configuration, new_columns, self.table.env.new_id)
        check_schema(changed.schema, changed.column_mapping_mode, table=self.table.url)
        parameters = [
            {"column": column_changes.history_column(c.parent, c.field)}
            | ({} if c.position is None else {"position": str(c.position)})
            for c in new_columns
        ]
        self._define(changed, "ADD COLUMNS", {"columns": parameters})

    def _last_column(self, column: pa.Field) -> NewColumn:
        (field,) = delta_schema(pa.schema([column]), table=self.table.url)
        return NewColumn(field=field)

    @takes(path=PATH, name=TEXT)
    def rename_column(self, path: str | Path, name: str) -> None:
        """Rename a column. This requires column mapping: the physical name stays the same.

        Args:
            path: `"name"`, or `"struct.field"`.

        Raises:
            RenameColumnUnsupportedError: the table has no column mapping.
            ColumnNotFoundError, DuplicateColumnsError, ParentNotStructError, InvalidArgumentError: invalid names.
            ConstraintDependsError, GeneratedColumnDependsError: a constraint or a generated column depends on it.
        """
        old: Any = path  # `takes` has converted it
        changed = column_changes.rename_column(self._configuration, old, name)
        self._check_dependants(changed)
        parameters = {"oldColumnPath": dotted(old), "newColumnPath": dotted((*old[:-1], name))}
        self._define(changed, "RENAME COLUMN", parameters)

    @takes(paths=PATHS, if_exists=FLAG)
    def drop_columns(self, paths: Iterable[str | Path], *, if_exists: bool = False) -> None:
        """Drop columns. This requires column mapping: their values stay in the data files.

        Args:
            paths: of each `"name"`, or `"struct.field"`.

        Raises:
            DropColumnUnsupportedError: the table has no column mapping.
            ColumnNotFoundError, DropPartitionColumnError, DropClusteringColumnError, DropLastFieldError
            ConstraintDependsError, GeneratedColumnDependsError: a constraint or a generated column depends on one of
                them.
        """
        wanted: list[Any] = list(paths)
        changed = column_changes.drop_columns(self._configuration, wanted, if_exists=if_exists)
        self._check_dependants(changed)
        self._define(changed, "DROP COLUMNS", {"columns": [dotted(path) for path in wanted]})

    @takes(changes=_CHANGES)
    def alter_columns(self, changes: Iterable[ColumnChange]) -> None:
        """Change types, comments, defaults, nullability and positions of columns.

        If a column becomes NOT NULL, the existing rows are checked first.

        Raises:
            ColumnChangeError, ColumnNotFoundError: an invalid change.
            ConstraintDependsError, GeneratedColumnDependsError: a type change of a column on which a constraint or a
                generated column depends.
            NotNullViolationError: an existing row has a null.
        """
        self._check_open()
        requested, changed = list(changes), self._configuration
        for change in requested:
            before = column_changes.column_at(changed, change.path)[1]
            changed = column_changes.change_column(changed, change, self.table.env.new_id)
            after = column_changes.column_at(changed, change.path)[1]
            if (after.type, after.metadata.get(COLLATIONS)) != (before.type, before.metadata.get(COLLATIONS)):
                self._check_not_referenced(change.path)
        self._check_not_null(changed, requested)
        parameters = [
            column_changes.history_column(change.path[:-1], column_changes.column_at(changed, change.path)[1])
            | ({} if change.position is None else {"position": str(change.position)})
            for change in requested
        ]
        if len(parameters) == 1:
            position = parameters[0].pop("position", None)
            self._define(
                changed,
                "CHANGE COLUMN",
                {"column": parameters[0]} | ({} if position is None else {"position": position}),
            )
        else:
            self._define(changed, "CHANGE COLUMNS", {"columns": parameters})

    def _check_not_null(self, changed: TableConfiguration, wanted: Iterable[ColumnChange]) -> None:
        for change in wanted:
            spelled, before = column_changes.column_at(self._configuration, change.path)
            if before.nullable and not column_changes.column_at(changed, change.path)[1].nullable:
                # a null struct does not count as a null in its fields
                parents = [f"{sql_path(spelled[:depth])} IS NULL" for depth in range(1, len(spelled))]
                condition = " OR ".join([*parents, f"{sql_path(spelled)} IS NOT NULL"])
                try:
                    self._check_rows(Constraint(name="NOT NULL", expression=condition))
                except CheckConstraintViolatedError as error:
                    raise NotNullViolationError(table=self.table.url, column=dotted(spelled)) from error

    @takes(columns=SCHEMA)
    def replace_columns(self, columns: Struct | pa.Schema) -> None:
        """Replace the table's columns, matched by name, in this order; see `TableConfiguration.with_schema` for what
        may change.

        Raises:
            IdentityReplaceColumnsError, ColumnTypeChangeError, SchemaMismatchError: the existing rows do not allow the
                change.
            ConstraintDependsError, GeneratedColumnDependsError, DropClusteringColumnError: something depends on a
                removed column.
        """
        wanted = columns if isinstance(columns, Struct) else delta_schema(columns, table=self.table.url)
        changed = column_changes.replace_columns(self._configuration, wanted, self.table.env.new_id)
        check_schema(changed.schema, changed.column_mapping_mode, table=self.table.url)
        self._check_dependants(changed)
        self._define(
            changed, "REPLACE COLUMNS", {"columns": [column_changes.history_column((), field) for field in wanted]}
        )

    @takes(columns=PATHS)
    def cluster_by(self, columns: Iterable[str | Path]) -> None:
        """Set the clustering columns of the table; an empty list disables clustering.

        Existing files stay as they are: rows are clustered when they are written or optimised.

        Raises:
            InvalidClusteringError, ColumnNotFoundError: the table cannot be clustered by these columns.
        """
        self._check_open()
        definition = self._configuration
        paths: list[Any] = list(columns)
        if not paths and clustering.FEATURE not in supported_features(definition.protocol):
            return
        spelled_paths = clustering.check_clustering(
            paths,
            definition.schema,
            definition.metadata.partition_columns,
            definition.properties,
            table=self.table.url,
        )
        changed = definition.with_protocol(None, None, [clustering.FEATURE], self.table.env.new_id)
        mode = changed.column_mapping_mode
        before = self._clustering_columns(definition)
        domain = clustering.clustering_domain(spelled_paths, changed.schema, mode)
        assert domain is not None
        if changed == definition and before == spelled_paths:
            return
        check_writable(changed.protocol, changed.metadata, table=self.table.url)
        self._check_appended(domain)
        self._configuration = changed
        self._draft.domains[clustering.DOMAIN] = domain
        old, new = (",".join(dotted(path) for path in several) for several in (before, spelled_paths))
        self._did("CLUSTER BY", {"oldClusteringColumns": old, "newClusteringColumns": new})

    def _check_appended(self, domain: DomainMetadata) -> None:
        """Refuse clustering columns for which files that this transaction adds have no statistics."""
        lacking = ", ".join(clustering.columns_without_statistics(domain, self._draft.adds))
        if lacking:
            detail, remedy = (
                "this transaction has already added files without statistics for them",
                "Cluster the table before the append.",
            )
            raise ClusteringStatisticsError(table=self.table.url, columns=lacking, detail=detail, remedy=remedy)

    def _clustering_columns(self, definition: TableConfiguration) -> tuple[Path, ...]:
        domain = self._draft.domains.get(clustering.DOMAIN) or self.snapshot.domains.get(clustering.DOMAIN)
        return clustering.clustering_columns(domain, definition.schema, definition.column_mapping_mode)

    def _check_dependants(self, changed: TableConfiguration) -> None:
        """Refuse to drop or rename columns on which constraints, generated columns or the clustering depend."""
        lost_columns = {
            path: field
            for path, field in walk_fields(self._configuration.schema)
            if not _has_still(changed.schema, path, field)
        }
        remaining_ids = {column_id(field) for _, field in walk_fields(changed.schema)}
        for path, column in lost_columns.items():
            self._check_not_referenced(path)
            if path in self._clustering_columns(self._configuration) and column_id(column) not in remaining_ids:
                raise self._depends_error(DropClusteringColumnError, path, "the clustering of the table")

    def _check_not_referenced(self, path: Path) -> None:
        """Refuse to change a column if a constraint or a generated column names it, a part of it, or a struct around
        it.
        """
        constraints = [c.expression for c in constraints_of(self._configuration.metadata, table=self.table.url)]
        generated = column_values(self._configuration.protocol, self._configuration.schema).generated.values()
        folded = tuple(name.lower() for name in path)
        for error, expressions in ((ConstraintDependsError, constraints), (GeneratedColumnDependsError, generated)):
            for expression in expressions:
                if any(_overlap(named, folded) for named in paths_named(expression)):
                    raise self._depends_error(error, path, expression)

    def _depends_error(self, error: type[SchemaMismatchError], path: Path, what: str) -> SchemaMismatchError:
        return error(
            table=self.table.url,
            detail=f"column {dotted(path)} would be dropped or renamed, or its type changed, but {what} depends on it",
            remedy="Drop what depends on it first, or keep the column.",
        )


def _overlap(one: Path, other: Path) -> bool:
    """Whether two paths name the same column, or one leads to a part of the other."""
    return one[: len(other)] == other[: len(one)]


def _has_still(schema: Struct, path: tuple[str, ...], field: Field) -> bool:
    """Whether a path leads to the same column as before: with column mapping, to a column with the same id."""
    found = next((f for known, f in walk_fields(schema) if known == path), None)
    return found is not None and column_id(found) == column_id(field)
