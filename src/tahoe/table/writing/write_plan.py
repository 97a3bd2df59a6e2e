"""Planning a write, whoever writes the rows: what the table will look like, what goes, and the commit.

Protocol: "Actions", "Table Features for New and Existing Tables". A plan is made before any row is written, so that bad input costs
nothing; `WritePlan.commit` takes the files that were written. Spark and the small Arrow writer share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, TypeAlias

from tahoe.errors import (
    ColumnNotFoundError,
    DuplicateColumnsError,
    InvalidColumnNameError,
    InvalidOptionError,
    InvalidPredicateError,
    PartitionMismatchError,
    PathIsFileError,
    PathIsNotEmptyError,
    ReplaceWhereMismatchError,
    SchemaMismatchError,
    TableExistsError,
    UnsupportedDataTypeError,
)
from tahoe.protocol import clustering
from tahoe.protocol.actions import Add, DomainMetadata, Metadata, Protocol, Remove
from tahoe.protocol.clustering import check_clustering, clustering_columns, clustering_domain
from tahoe.protocol.column_mapping import MAX_COLUMN_ID, assign_mapping, mapping_mode, physical_schema, stored_name
from tahoe.protocol.column_values import ColumnValues, as_declared, check_new_columns, column_values, with_high_water_marks
from tahoe.protocol.conflict import EVERYTHING, FilesRead
from tahoe.protocol.constraints import constraints_of
from tahoe.protocol.evolution import losses, merge_schemas, new_columns, widening_of
from tahoe.protocol.feature_upgrade import needed_features, protocol_for_new_table, split_features, upgrade, upgrade_for
from tahoe.protocol.features import active_features, check_writable, keeps_partitions_in_files
from tahoe.protocol.partitions import encode_path, parse_partition_value
from tahoe.protocol.predicate import Predicate, Unknown, columns_of, evaluate, has_unknown, is_nan
from tahoe.protocol.properties import normalise
from tahoe.protocol.row_tracking import MATERIALISED, with_materialised_columns
from tahoe.protocol.schema import VARIANT, VOID, Array, Map, Struct, as_nullable, check_unique_names, types_in, walk_fields
from tahoe.sql.predicates import columns_named, parse_predicate
from tahoe.table.commit.draft import Draft, Told
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.reading.table_reader import TableReader

Mode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]

_MODE_NAMES: Mapping[Mode, str] = {"append": "Append", "overwrite": "Overwrite", "error": "ErrorIfExists", "ignore": "Ignore"}

# The operation of every write that does not make a table.
WRITE = "WRITE"
TRUNCATE = "TRUNCATE"

# Characters that Parquet column names of an unmapped table cannot have.
_FORBIDDEN_IN_NAMES = frozenset(" ,;{}()\n\t=")


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """What the user asked for.

    Attributes:
        schema: of the data, with logical names.
        partition_by: None where nothing was said.
        cluster_by: the paths of columns by which a new table is clustered; None where nothing was said.
        properties: `delta.*` options and other table properties; used for a new or a replaced table.
        default_properties: what a new table gets besides.
        replace_where: SQL text: only matching rows are replaced. Over partition columns, unless `finds_rows`.
        finds_rows: whether the engine that writes can find and delete rows, so that replace_where may name any column.
        matching: how the engine that writes finds the rows that are replaced, by rows of the data: for the history.
        dynamic_partitions: only partitions that the data has are replaced.
        txn: application id and version; a version already recorded makes the write a no-op.
        reads_target: the rows are a query's that reads the table itself, so that what other writers do to it matters.
        is_managed: whether the folder belongs to a name in a catalog; only the history tells.
        keep_nullability: NOT NULL columns of the data stay so in a new table, as in DDL and Arrow; DataFrames make all columns nullable.
    """

    mode: Mode
    schema: Struct
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[tuple[str, ...], ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    default_properties: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    matching: str | None = None
    dynamic_partitions: bool = False
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    comment: str | None = None
    data_change: bool = True
    keep_nullability: bool = False
    reads_target: bool = False
    finds_rows: bool = False
    is_managed: bool = False
    operation: str = WRITE
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A data file that was written for a plan.

    Attributes:
        key: relative to the table, unescaped.
        partition_values: serialised, by physical name.
        statistics: JSON text, by physical names; None where there are none.
        minted: the value farthest from the start, of each identity column that the write gave numbers to, by logical name.
    """

    key: str
    size_bytes: int
    modification_time_ms: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    statistics: str | None = None
    minted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WritePlan:
    """A write that may begin.

    Attributes:
        schema: the table's after the write; the data must be cast to it.
        physical_schema: the same as data files hold it.
        replace_where: the parsed predicate, which every row must satisfy.
        clustering: the domain that names the columns by which the table is clustered; None where it is not.
    """

    table: TableReader
    request: WriteRequest
    snapshot: Snapshot | None
    protocol: Protocol
    metadata: Metadata
    replace_where: Predicate | None
    clustering: DomainMetadata | None = None

    @property
    def url(self) -> str:
        return self.table.url

    @property
    def replaces_rows(self) -> bool:
        """Whether rows of files are replaced, and not whole files: `commit` does not do that."""
        if self.snapshot is None:
            return False
        if self.request.matching is not None:
            return True
        return self.replace_where is not None and not _is_about(self.replace_where, self.partition_columns)

    @property
    def keeps_partitions_in_files(self) -> bool:
        """Whether data files hold the partition columns as well."""
        return bool(self.partition_columns) and keeps_partitions_in_files(self.protocol, self.metadata)

    @property
    def schema(self) -> Struct:
        return self.metadata.schema

    @property
    def column_values(self) -> ColumnValues:
        """Where values come from that the rows do not bring."""
        return column_values(self.protocol, self.schema, table=self.url)

    @property
    def column_mapping_mode(self) -> str:
        return mapping_mode(self.protocol, self.metadata.configuration)

    @property
    def physical_schema(self) -> Struct:
        return physical_schema(self.schema, self.column_mapping_mode)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def clustering_columns(self) -> tuple[tuple[str, ...], ...]:
        return clustering_columns(self.clustering, self.schema, self.column_mapping_mode)

    @property
    def physical_partition_columns(self) -> tuple[str, ...]:
        fields = [self.schema.find(name) for name in self.partition_columns]
        return tuple(stored_name(f, self.column_mapping_mode) for f in fields if f is not None)

    def check_writes_files(self) -> None:
        """Refuse to write data files that could not hold what the schema says. Protocol: "Void Type".

        Raises:
            UnsupportedDataTypeError: a void type where a file has no place for it.
        """
        _check_void(self.schema, table=self.url)

    def commit(
        self, files: Sequence[WrittenFile], metrics: Mapping[str, int] | None = None, discard: Callable[[], None] = lambda: None
    ) -> int | None:
        """Commit the files that were written; what the mode replaces is removed in the same version.

        Args:
            metrics: counts for the history; those of what is removed are added here.
            discard: deletes the files; called where it is certain that they were not committed.

        Returns:
            the version that was made; None where another writer has recorded this very write meanwhile.
        """
        with self._draft(files, discard) as draft:
            removed = draft.removed_files.values()
            counted = {"numRemovedFiles": len(removed), "numRemovedBytes": sum(file.size_bytes for file in removed)}
            told = Told(
                operation=self.request.operation,
                parameters=self._parameters(),
                metrics={**(metrics or {}), **(counted if self.request.mode == "overwrite" else {})},
                user_metadata=self.request.user_metadata,
                engine=self.request.engine,
            )
            return draft.commit(told)

    def draft(self) -> Draft:
        """A commit that makes the table what the plan says, without any files yet."""
        return Draft(
            log=self.table.log,
            base=self.snapshot,
            protocol=self.protocol,
            metadata=self.metadata,
            domains=self._changed_domains(),
            txn=self.request.txn,
            data_change=self.request.data_change,
            reads=EVERYTHING if self.request.reads_target else None,
        )

    def _draft(self, files: Sequence[WrittenFile], discard: Callable[[], None]) -> Draft:
        draft = self.draft()
        draft.on_discard(discard)
        with draft:  # so that the files go where what they replace cannot be told
            draft.metadata = with_minted(self.metadata, files)
            draft.adds += [self.add(file) for file in files]
            if self.snapshot is not None and self.request.mode == "overwrite":
                replaced = self._replaced(draft.adds)
                draft.remove(add for add in self.snapshot.live.adds() if replaced(add))
                draft.reads = draft.reads or FilesRead(self._or_unplaced(replaced), self.request.replace_where or "what it replaces")
        return draft

    def _changed_domains(self) -> dict[str, DomainMetadata]:
        """A new table may be clustered; one whose columns were replaced may have lost those that it was clustered by, or has them under
        other names.
        """
        before = None if self.snapshot is None else self.snapshot.domains.get(clustering.DOMAIN)
        after = self.clustering if self.clustering is not None or before is None else replace(before, removed=True)
        return {} if after is None or after == before else {clustering.DOMAIN: after}

    def add(self, file: WrittenFile) -> Add:
        """The action for a file that was written."""
        return Add(
            path=encode_path(file.key),
            partition_values=file.partition_values,
            size_bytes=file.size_bytes,
            modification_time_ms=file.modification_time_ms,
            data_change=self.request.data_change,
            stats=file.statistics,
        )

    def _parameters(self) -> dict[str, Any]:
        """What the history says of the operation, under the reference's names."""
        request = self.request
        asked = {
            "predicate": request.replace_where,
            "isDynamicPartitionOverwrite": request.dynamic_partitions or None,
            "canOverwriteSchema": (request.overwrite_schema and request.operation == WRITE) or None,
            "canMergeSchema": request.merge_schema or None,
        }
        return {**self._kind(), **{name: value for name, value in asked.items() if value is not None}}

    def _kind(self) -> dict[str, Any]:
        if self.request.operation == WRITE:
            return {"mode": _MODE_NAMES[self.request.mode], "partitionBy": list(self.partition_columns)}
        if self.request.operation == TRUNCATE:
            return {}
        described = {} if self.metadata.description is None else {"description": self.metadata.description}
        return {
            "isManaged": self.request.is_managed,
            **described,
            "partitionBy": list(self.partition_columns),
            "clusterBy": [".".join(path) for path in self.clustering_columns],
            "properties": dict(self.metadata.configuration),
        }

    # --- what an overwrite replaces

    def check_replaced(self, partition_values: Mapping[str, str | None]) -> None:
        """Refuse a file, by its partition values as they are stored, for whose rows `replace_where` does not hold.

        A predicate over other columns is for the engine that finds rows.

        Raises:
            ReplaceWhereMismatchError: with the values.
        """
        if self.replace_where is None or not _is_about(self.replace_where, self.partition_columns):
            return
        row = self._typed(partition_values)
        if evaluate(self.replace_where, row) is not True:
            text = self.request.replace_where or ""
            raise ReplaceWhereMismatchError(table=self.url, predicate=text, detail=f"for example {row}")

    def _replaced(self, adds: Sequence[Add]) -> Callable[[Add | Remove], bool]:
        """Which live files go: all, those of the partitions that were written, or those that `replace_where` holds for."""
        if self.request.dynamic_partitions and self.partition_columns:
            written = {self._partition_key(add) for add in adds}
            return lambda file: self._partition_key(file) in written
        if self.replace_where is not None:
            predicate = self.replace_where
            return lambda file: evaluate(predicate, self._partition_row(file)) is True
        return lambda _: True

    def _or_unplaced(self, test: Callable[[Add | Remove], bool]) -> Callable[[Add | Remove], bool]:
        """A test that is true as well of a file whose partition is not told: a remove may leave it out."""
        return lambda file: (file.partition_values is None and bool(self.partition_columns)) or test(file)

    def _partition_key(self, file: Add | Remove) -> tuple[Any, ...]:
        return tuple("NaN" if is_nan(value) else value for value in self._partition_row(file).values())

    def _partition_row(self, file: Add | Remove) -> dict[str, Any]:
        """Typed values by logical name, so that two spellings of one value are one partition."""
        return self._typed(file.partition_values or {})

    def _typed(self, values: Mapping[str, str | None]) -> dict[str, Any]:
        fields = [f for f in (self.schema.find(name) for name in self.partition_columns) if f is not None]
        mode = self.column_mapping_mode
        return {f.name: parse_partition_value(values.get(stored_name(f, mode)), f.type, zone=self.table.log.zone) for f in fields}


def with_minted(metadata: Metadata, files: Iterable[WrittenFile]) -> Metadata:
    """The metadata of a table once files are committed: the marks of identity columns are where the numbers in them end."""
    schema = metadata.schema
    for file in files:
        schema = with_high_water_marks(schema, file.minted)
    return metadata if schema == metadata.schema else replace(metadata, schema_string=schema.to_json())


def plan_write(table: TableReader, request: WriteRequest) -> WritePlan | None:
    """Check a write against the table as it is, before any work.

    Returns:
        the plan; None where there is nothing to do: mode ignore on a table that is there, or a `txn` that is already recorded.

    Raises:
        DeltaAnalysisError: what was asked for does not fit the table, with the option that would allow it.
        DeltaProtocolError: the table has a rule that tahoe does not enforce yet.
    """
    snapshot = table.snapshot_if_exists()
    if snapshot is None:
        return _plan_new(table, request)
    if request.mode == "error":
        raise TableExistsError(table=table.url)
    if request.mode == "ignore" or snapshot.has_recorded(request.txn):
        return None
    return plan_existing(table, request, snapshot)


# --- a new table


def _plan_new(table: TableReader, request: WriteRequest) -> WritePlan:
    if request.mode != "overwrite":
        _check_folder_is_free(table)
    protocol, metadata = new_table(table, request)
    return WritePlan(
        table=table,
        request=request,
        snapshot=None,
        protocol=protocol,
        metadata=metadata,
        replace_where=_replace_where(table, request, metadata),
        clustering=_new_clustering(table, request, protocol, metadata),
    )


def _new_clustering(table: TableReader, request: WriteRequest, protocol: Protocol, metadata: Metadata) -> DomainMetadata | None:
    """The domain that names the columns by which a new table is to be clustered."""
    if not request.cluster_by:
        return None
    schema, configuration = metadata.schema, metadata.configuration
    columns = check_clustering(request.cluster_by, schema, metadata.partition_columns, configuration, table=table.url)
    return clustering_domain(columns, schema, mapping_mode(protocol, configuration))


def _properties(table: TableReader, request: WriteRequest) -> dict[str, str]:
    """Those of a new table, and the feature that clustering needs."""
    asked = {f"delta.feature.{clustering.FEATURE}": "supported"} if request.cluster_by else {}
    return {**normalise(request.default_properties, table=table.url), **normalise(request.properties, table=table.url), **asked}


def _check_folder_is_free(table: TableReader) -> None:
    """A folder with files of another format is not taken over silently: its rows would seem to be lost."""
    if table.log.is_file():
        raise PathIsFileError(table=table.url)
    for info in table.env.store.walk():
        if not any(part.startswith(("_", ".")) for part in info.key.split("/")):
            raise PathIsNotEmptyError(table=table.url)


def new_table(table: TableReader, request: WriteRequest) -> tuple[Protocol, Metadata]:
    """Protocol and metadata of a table that is made from nothing."""
    schema = request.schema if request.keep_nullability else _as_nullable(request.schema)
    partition_columns = _partition_columns(schema, request.partition_by or (), table.url)
    return _described(table, schema, partition_columns, _properties(table, request), request.comment, None)


def _described(
    table: TableReader,
    schema: Struct,
    partition_columns: tuple[str, ...],
    properties: Mapping[str, str],
    comment: str | None,
    before: Snapshot | None,
) -> tuple[Protocol, Metadata]:
    """Protocol and metadata for a schema of which no file is there yet."""
    configuration, asked = split_features(properties)
    schema = as_declared(schema)
    if before is None:
        protocol = protocol_for_new_table(schema, {**configuration, **asked})
    else:
        protocol = upgrade_for(before.protocol, schema, {**configuration, **asked})
    check_new_columns(protocol, schema, partition_columns, table=table.url)
    return protocol, _metadata(table, protocol, schema, partition_columns, configuration, comment, before)


def _metadata(
    table: TableReader,
    protocol: Protocol,
    schema: Struct,
    partition_columns: tuple[str, ...],
    configuration: Mapping[str, str],
    comment: str | None,
    before: Snapshot | None,
) -> Metadata:
    """The metadata for a schema, with column mapping assigned and every rule on schemas checked."""
    configuration = dict(configuration)
    used = before.properties.get(MAX_COLUMN_ID) if before is not None else None
    if used is not None:  # ids are never used twice in the life of a table
        configuration[MAX_COLUMN_ID] = used
    if before is not None:
        configuration = {**{name: before.properties[name] for name in MATERIALISED if name in before.properties}, **configuration}
    configuration = with_materialised_columns(protocol, configuration, table.env.new_id, table=table.url)
    mode = mapping_mode(protocol, configuration)
    if mode != "none":
        schema, highest = assign_mapping(schema, mode, lambda _: f"col-{table.env.new_id()}", int(used or 0))
        configuration[MAX_COLUMN_ID] = str(highest)
    check_schema(schema, mode, table=table.url)
    metadata = Metadata(
        id=table.env.new_id() if before is None else before.metadata.id,
        name=None if before is None else before.metadata.name,
        description=comment if before is None else before.metadata.description,
        schema_string=schema.to_json(),
        partition_columns=partition_columns,
        configuration=configuration,
        created_time_ms=table.env.clock_ms() if before is None else before.metadata.created_time_ms,
    )
    check_writable(protocol, metadata, table=table.url)
    if before is not None and partition_columns != before.partition_columns and _is_for_iceberg(protocol, metadata):
        detail = "the partitioning of a table with Iceberg compatibility cannot be changed"
        raise InvalidOptionError(option="partitionBy", value=", ".join(partition_columns), table=table.url, detail=detail)
    return metadata


def _is_for_iceberg(protocol: Protocol, metadata: Metadata) -> bool:
    return any(feature.name.startswith("icebergCompat") for feature in active_features(protocol, metadata))


def _as_nullable(schema: Struct) -> Struct:
    nullable = as_nullable(schema)
    assert isinstance(nullable, Struct)
    return nullable


def _partition_columns(schema: Struct, names: Sequence[str], url: str) -> tuple[str, ...]:
    """The columns by which a new table is partitioned, spelled as in the schema."""
    found = []
    for name in names:
        column = schema.find(name)
        if column is None:
            raise ColumnNotFoundError(table=url, column=name, columns=", ".join(schema.names))
        if isinstance(column.type, Struct | Array | Map) or column.type in (VARIANT, VOID):
            raise UnsupportedDataTypeError(table=url, column=f"{name} (a partition column)", type=str(column.type))
        found.append(column.name)
    if len(set(found)) < len(found):
        raise DuplicateColumnsError(table=url, columns=", ".join(sorted({name for name in found if found.count(name) > 1})))
    if found and len(found) == len(schema):
        detail = "at least one column must not be a partition column"
        raise InvalidOptionError(option="partitionBy", value=", ".join(found), table=url, detail=detail)
    return tuple(found)


def check_schema(schema: Struct, mode: str, *, table: str) -> None:
    """Every rule on the schema of a table that is about to get data files.

    Raises:
        DuplicateColumnsError, InvalidColumnNameError, UnsupportedDataTypeError.
    """
    check_unique_names(schema, table=table)
    if mode == "none":
        for path, column in walk_fields(schema):
            if _FORBIDDEN_IN_NAMES & set(column.name):
                raise InvalidColumnNameError(table=table, column=".".join(path))
    _check_void(schema, table=table)


def _check_void(schema: Struct, *, table: str) -> None:
    """Protocol: "Void Type"."""
    for path, column in walk_fields(schema):
        _check_void_inside(path, column.type, table)
    if len(schema) and all(f.type == VOID for f in schema):
        raise UnsupportedDataTypeError(table=table, column=", ".join(schema.names), type="void in every column")


def _check_void_inside(path: tuple[str, ...], data_type: Any, table: str) -> None:
    match data_type:
        case Array() | Map() if any(t == VOID for t in types_in(data_type)):
            raise UnsupportedDataTypeError(table=table, column=".".join(path), type=f"{data_type}, which contains void")
        case Struct(fields) if fields and all(f.type == VOID for f in fields):
            raise UnsupportedDataTypeError(table=table, column=".".join(path), type=f"{data_type}, which contains only void")
        case _:
            pass


# --- a table that is there


def plan_existing(table: TableReader, request: WriteRequest, snapshot: Snapshot) -> WritePlan:
    """The plan of a write to a table that is there; see `plan_write`."""
    check_writable(snapshot.protocol, snapshot.metadata, table=table.url, removes_data=request.mode == "overwrite" and request.data_change)
    check_unique_names(request.schema, table=table.url)
    _check_options(table, request)
    if request.mode == "overwrite" and request.overwrite_schema:
        protocol, metadata = _replaced_schema(table, request, snapshot)
    else:
        _check_partitioning(request, snapshot)
        protocol, metadata = _evolved(table, request, snapshot)
    return WritePlan(
        table=table,
        request=request,
        snapshot=snapshot,
        protocol=protocol,
        metadata=metadata,
        replace_where=_replace_where(table, request, metadata),
        clustering=_clustering(snapshot, protocol, metadata),
    )


def _clustering(snapshot: Snapshot, protocol: Protocol, metadata: Metadata) -> DomainMetadata | None:
    """A table stays clustered as long as it has the columns and is not partitioned instead."""
    known = snapshot.domains.get(clustering.DOMAIN)
    mode = mapping_mode(protocol, metadata.configuration)
    if known is None or metadata == snapshot.metadata:
        return known
    moved = None if metadata.partition_columns else clustering_domain(snapshot.clustering_columns, metadata.schema, mode)
    same = moved is not None and clustering_columns(known, metadata.schema, mode) == snapshot.clustering_columns
    return known if same else moved


def _check_options(table: TableReader, request: WriteRequest) -> None:
    matching = "REPLACE" if request.matching is not None else None
    option = "replaceWhere" if request.replace_where is not None else matching
    partial = option or ("partitionOverwriteMode" if request.dynamic_partitions else None)
    if request.overwrite_schema and partial is not None and request.mode == "overwrite":
        detail = f"the schema can only be replaced if all rows are overwritten, but {partial} keeps some"
        raise InvalidOptionError(option="overwriteSchema", value="true", table=table.url, detail=detail)
    if option is None:
        return
    value = request.replace_where or request.matching
    if request.mode != "overwrite":
        raise InvalidOptionError(option=option, value=value, table=table.url, detail="it requires mode overwrite")
    if request.dynamic_partitions:
        detail = "it cannot be combined with partitionOverwriteMode=dynamic"
        raise InvalidOptionError(option=option, value=value, table=table.url, detail=detail)


def _check_partitioning(request: WriteRequest, snapshot: Snapshot) -> None:
    if request.partition_by is None:
        return
    expected = [name.lower() for name in snapshot.partition_columns]
    if [name.lower() for name in request.partition_by] != expected:
        raise PartitionMismatchError(
            table=snapshot.url,
            expected=", ".join(snapshot.partition_columns) or "nothing",
            found=", ".join(request.partition_by) or "nothing",
        )


def _replaced_schema(table: TableReader, request: WriteRequest, snapshot: Snapshot) -> tuple[Protocol, Metadata]:
    schema = request.schema if request.keep_nullability else _as_nullable(request.schema)
    names = snapshot.partition_columns if request.partition_by is None else request.partition_by
    kept = tuple(name for name in names if request.partition_by is not None or schema.find(name) is not None)
    properties = {**snapshot.properties, **normalise(request.properties, table=table.url)}
    return _described(table, schema, _partition_columns(schema, kept, table.url), properties, None, snapshot)


def _evolved(table: TableReader, request: WriteRequest, snapshot: Snapshot) -> tuple[Protocol, Metadata]:
    """The table as it is, with new columns and wider types where `mergeSchema` lets them in."""
    new = [".".join(path) for path, _ in new_columns(snapshot.schema, request.schema)]
    if new and not request.merge_schema:
        raise SchemaMismatchError(
            table=table.url,
            detail=f"the table has no column {', '.join(new)} (it has {', '.join(snapshot.schema.names)})",
            remedy="Drop the column from the data, or add it to the table with option mergeSchema=true.",
        )
    widens = widening_of(snapshot.protocol, snapshot.metadata, table=table.url) if request.merge_schema else None
    merged = merge_schemas(snapshot.schema, request.schema, widens, _fixed_columns(snapshot) if widens is not None else frozenset())
    if request.merge_schema:
        _check_losses(table, merged, request.schema, is_widened=widens is not None)
    if merged == snapshot.schema:
        return snapshot.protocol, snapshot.metadata
    # Properties that the protocol does not support mean nothing, and new columns do not change that.
    needed = needed_features(merged, snapshot.properties) - needed_features(snapshot.schema, snapshot.properties)
    protocol = upgrade(snapshot.protocol, needed)
    return protocol, _metadata(table, protocol, merged, snapshot.partition_columns, snapshot.properties, None, snapshot)


def _fixed_columns(snapshot: Snapshot) -> frozenset[str]:
    """The columns whose types cannot change of themselves: a rule names them, or makes their values."""
    values = column_values(snapshot.protocol, snapshot.schema, table=snapshot.url)
    constraints = [constraint.expression for constraint in constraints_of(snapshot.metadata, table=snapshot.url)]
    named = (columns_named(expression) for expression in [*constraints, *values.generated.values()])
    return frozenset(chain((name.lower() for name in [*values.generated, *values.identity]), *named))


def _check_losses(table: TableReader, schema: Struct, data: Struct, *, is_widened: bool) -> None:
    """Refuse data of which a write that may change the table would drop digits, or times of days, without a word."""
    found = [f"column {'.'.join(path)} is {known}, but {given} in the data" for path, known, given in losses(schema, data)]
    if found:
        why = "an expression of the table depends on the type" if is_widened else "type widening is not enabled"
        raise SchemaMismatchError(
            table=table.url,
            detail=f"{'; '.join(found)}; mergeSchema does not widen it, because {why}",
            remedy="Cast the column in the data." if is_widened else "Set delta.enableTypeWidening=true, or cast the column in the data.",
        )


def _replace_where(table: TableReader, request: WriteRequest, metadata: Metadata) -> Predicate | None:
    """The predicate of `replaceWhere`; what only the engine understands of it is unknown.

    Raises:
        InvalidPredicateError, ColumnNotFoundError: it cannot be understood, and the engine does not find rows.
        InvalidOptionError: it names a column by which the table is not partitioned, likewise.
    """
    if request.replace_where is None:
        return None
    try:
        predicate = parse_predicate(request.replace_where, metadata.schema, table=table.url, zone=table.log.zone)
    except InvalidPredicateError:
        if not request.finds_rows:
            raise
        return Unknown(request.replace_where)
    if not request.finds_rows and not _is_about(predicate, metadata.partition_columns):
        allowed = ", ".join(metadata.partition_columns) or "there are none"
        others = sorted({".".join(c.path) for c in columns_of(predicate)})
        detail = f"without Spark it may reference only partition columns ({allowed}), but references {', '.join(others)}"
        raise InvalidOptionError(option="replaceWhere", value=request.replace_where, table=table.url, detail=detail)
    return predicate


def _is_about(predicate: Predicate, columns: Iterable[str]) -> bool:
    """Whether a predicate is understood and names no other columns."""
    names = {name.lower() for name in columns}
    return not has_unknown(predicate) and all(c.path[0].lower() in names for c in columns_of(predicate))


# --- tables without rows


def create_table(table: TableReader, request: WriteRequest, *, replace_existing: bool = False) -> int | None:
    """Make a table without rows, or make one anew over what is there, keeping its history.

    Returns:
        the version made; None where the mode is ignore and the table was there.

    Raises:
        TableExistsError: it is there, and neither mode ignore nor replacing was asked for.
    """
    snapshot = table.snapshot_if_exists()
    if snapshot is not None and not replace_existing:
        if request.mode == "ignore":
            return None
        raise TableExistsError(table=table.url)
    if snapshot is None:
        return _plan_new(table, replace(request, mode="append")).commit([])
    return _plan_replaced(table, request, snapshot).commit([])


def plan_replacement(table: TableReader, request: WriteRequest) -> WritePlan:
    """Plan to make a table anew from a query, whether it is there or not: nothing of it stays but its history.

    Raises:
        DeltaAnalysisError, DeltaProtocolError: as `plan_write`.
    """
    snapshot = table.snapshot_if_exists()
    return _plan_new(table, replace(request, mode="overwrite")) if snapshot is None else _plan_replaced(table, request, snapshot)


def _plan_replaced(table: TableReader, request: WriteRequest, snapshot: Snapshot) -> WritePlan:
    check_writable(snapshot.protocol, snapshot.metadata, table=table.url, removes_data=True)
    schema = request.schema if request.keep_nullability else _as_nullable(request.schema)
    partition_columns = _partition_columns(schema, request.partition_by or (), table.url)
    protocol, metadata = _described(table, schema, partition_columns, _properties(table, request), request.comment, snapshot)
    return WritePlan(
        table=table,
        request=replace(request, mode="overwrite", overwrite_schema=True),
        snapshot=snapshot,
        protocol=protocol,
        metadata=replace(metadata, description=request.comment),
        replace_where=None,
        clustering=_new_clustering(table, request, protocol, metadata),
    )
