"""A table's configuration (protocol and metadata), and the changes to it as pure functions.

Protocol: "Change Metadata", "Protocol Evolution", "Writer Requirements for Column Mapping". A change also raises the
protocol to what it requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace

from tahoe.errors import (
    ConstraintExistsError,
    ConstraintNotFoundError,
    FeatureInUseError,
    InternalPropertyError,
    InvalidPropertyError,
    NotAnIdentityColumnError,
    PropertyNotSetError,
    SchemaMismatchError,
)
from tahoe.errors.root import nearest
from tahoe.protocol.changes.column_values import identity_columns, makes_values, with_high_water_marks
from tahoe.protocol.changes.constraints import PREFIX as CONSTRAINT
from tahoe.protocol.changes.evolution import Widens, widening_of
from tahoe.protocol.configuration.bloom_filter_columns import checked_filters
from tahoe.protocol.configuration.bloom_filters import BloomFilter, encode_bloom_filters
from tahoe.protocol.configuration.column_mapping import (
    MAX_COLUMN_ID,
    MODE,
    Mode,
    assign_mapping,
    column_id,
    highest_id,
    mapping_mode,
    without_mapping,
)
from tahoe.protocol.configuration.declared_keys import (
    Key,
    check_constraint_name,
    check_new_key,
    checked_key,
    constraint_names,
    constraint_property,
    constraint_text,
    followed_keys,
    is_key,
    with_key,
)
from tahoe.protocol.configuration.feature_drop import protocol_without, uses_of
from tahoe.protocol.configuration.feature_upgrade import (
    MIN_READER_VERSION,
    MIN_WRITER_VERSION,
    properties_for,
    split_features,
    upgrade,
    upgrade_for,
)
from tahoe.protocol.configuration.features import Feature, numbers_nested, supports
from tahoe.protocol.configuration.properties import (
    BLOOM_FILTERS,
    OF_MANAGERS,
    PROTECTED_CHECKPOINTS_BEFORE,
    find_property,
    normalise,
)
from tahoe.protocol.configuration.row_tracking import with_materialised_columns
from tahoe.protocol.configuration.universal_format import with_formats
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.statistics.listed_columns import check_listed, followed
from tahoe.protocol.types.schema import VOID, Array, DataType, Field, Map, Struct, check_unique_names
from tahoe.protocol.types.type_widening import is_widening, with_type_changes

# The property under which SQL statements give a table's description.
COMMENT = "comment"

SHOWS_OLD_VALUES = "without column mapping, a new column of that name would show the old values"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfiguration:
    """A table's protocol and metadata. `table` is its url, for errors."""

    table: str
    protocol: Protocol
    metadata: Metadata

    @property
    def schema(self) -> Struct:
        return self.metadata.schema

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.configuration

    @property
    def column_mapping_mode(self) -> Mode:
        return mapping_mode(self.protocol, self.properties)

    # --- properties

    def with_properties(self, properties: Mapping[str, str], new_id: Callable[[], str]) -> TableConfiguration:
        """Set properties, both known and user-defined. `delta.feature.<name>` = supported enables a feature.

        Args:
            properties: `comment` is the table's description and not stored as a property.
            new_id: returns a unique name.

        Raises:
            InvalidPropertyError: an unknown or internal property, one of a catalog, an invalid value, or a constraint,
                which needs a check of the rows.
        """
        _check_may_be_set(self, properties)
        values, features = split_features(normalise(properties, table=self.table))
        description = values.pop(COMMENT) or None if COMMENT in values else self.metadata.description
        configuration = {**self.properties, **values}
        protocol = self.upgraded(self.schema, {**values, **features})
        configuration = with_materialised_columns(protocol, configuration, new_id, table=self.table)
        changed = self._remapped(protocol, configuration, description)
        check_listed(values, self.schema, self.metadata.partition_columns, table=self.table)
        return (
            changed.with_filters(BLOOM_FILTERS.get(configuration, table=self.table))
            if BLOOM_FILTERS.name in values
            else changed
        )

    def with_filters(self, definitions: Iterable[BloomFilter]) -> TableConfiguration:
        """Replace the definitions of Bloom filters.

        Raises:
            BloomFilterColumnError: a column does not exist, or cannot have filters.
        """
        partitions, mode = self.metadata.partition_columns, self.column_mapping_mode
        spelled = checked_filters(definitions, self.schema, partitions, mode, table=self.table)
        rest = {name: value for name, value in self.properties.items() if name != BLOOM_FILTERS.name}
        configuration = {**rest, **({BLOOM_FILTERS.name: encode_bloom_filters(spelled)} if spelled else {})}
        return replace(self, metadata=self.metadata.replace(configuration=configuration))

    def without_properties(self, names: Iterable[str], *, if_exists: bool = False) -> TableConfiguration:
        """Unset properties, so that their defaults apply. The protocol does not change.

        Raises:
            InvalidPropertyError: a property that is not set, or one that only writers or a catalog set.
        """
        configuration, description = dict(self.properties), self.metadata.description
        for name in names:
            known = find_property(name)
            stored = name if known is None else known.name
            if known is not None and known.is_internal:
                raise InternalPropertyError(property=stored, table=self.table)
            if stored not in configuration and stored != COMMENT and not if_exists:
                near = nearest(stored, configuration)
                error = PropertyNotSetError(property=stored, table=self.table)
                raise error.suggesting(None if near is None else f"Did you mean {near}?")
            _check_not_of_catalog(self, stored, "unset")
            configuration.pop(stored, None)
            description = None if stored == COMMENT else description
        return self._remapped(self.protocol, configuration, description)

    def _remapped(
        self, protocol: Protocol, configuration: Mapping[str, str], description: str | None
    ) -> TableConfiguration:
        """Replace properties and description. With column mapping enabled so, names in files become physical names."""
        configuration = with_formats(protocol, self.properties, configuration, table=self.table)
        before, after = self.column_mapping_mode, mapping_mode(protocol, configuration)
        metadata = self.metadata.replace(configuration=dict(configuration), description=description)
        if before != after and (before, after) != ("none", "name"):
            detail = f"the table's files were written with mode {before}"
            raise self._invalid(MODE, configuration.get(MODE, "none"), detail)
        nested = after != "none" and numbers_nested(protocol, configuration)
        if before != after or nested:
            used = highest_id(configuration, table=self.table)
            start = self.schema if before == after else without_mapping(self.schema)
            schema, highest = assign_mapping(start, after, lambda field: field.name, used, numbers_nested=nested)
            metadata = metadata.replace(
                schema_string=schema.to_json(), configuration={**configuration, MAX_COLUMN_ID: str(highest)}
            )
        return replace(self, protocol=protocol, metadata=metadata)

    def _invalid(self, name: str, value: str, detail: str) -> InvalidPropertyError:
        return InvalidPropertyError(property=name, table=self.table, value=value, detail=detail)

    def with_identity_at(self, column: str, value: int) -> TableConfiguration:
        """Raise an identity column's high-water mark to a value, or to the next value after it that steps can reach. It
        never goes back.

        Raises:
            NotAnIdentityColumnError: the table has no identity column of that name.
        """
        found = next(
            (
                (name, i)
                for name, i in identity_columns(self.schema, table=self.table)
                if name.lower() == column.lower()
            ),
            None,
        )
        if found is None:
            raise NotAnIdentityColumnError(table=self.table, column=column)
        name, identity = found
        if identity.is_before_start(value) or identity.moved_to(value) == identity:
            return self
        schema = with_high_water_marks(self.schema, {name: value})
        return replace(self, metadata=self.metadata.replace(schema_string=schema.to_json()))

    # --- constraints

    def with_constraint(self, name: str, expression: str) -> TableConfiguration:
        """Add a CHECK constraint. The caller must have checked the existing rows.

        Raises:
            ConstraintExistsError: the table already has a constraint of that name.
            InvalidArgumentError: the name is empty.
        """
        check_constraint_name(name, table=self.table)
        known = constraint_text(self.properties, name)
        if known is not None:
            raise ConstraintExistsError(table=self.table, constraint=name, expression=known)
        configuration = {**self.properties, CONSTRAINT + name: expression}
        protocol = self.upgraded(self.schema, {CONSTRAINT + name: expression})
        return replace(self, protocol=protocol, metadata=self.metadata.replace(configuration=configuration))

    def with_key(self, key: Key) -> TableConfiguration:
        """Declare a key. The protocol does not change.

        Raises:
            InvalidKeyError: its columns do not fit the table, or it is a second primary key.
            ConstraintExistsError: the table already has a constraint of that name.
            InvalidArgumentError: the name is empty.
        """
        check_constraint_name(key.name, table=self.table)
        checked = checked_key(key, self.schema, table=self.table)
        check_new_key(checked, self.properties, table=self.table)
        return replace(self, metadata=self.metadata.replace(configuration=with_key(self.properties, checked)))

    def without_constraint(self, name: str, *, if_exists: bool = False) -> TableConfiguration:
        """Drop a CHECK constraint or a key. The protocol does not change.

        Raises:
            ConstraintNotFoundError: the table has no constraint of that name.
        """
        stored = constraint_property(self.properties, name)
        if stored is None and not if_exists:
            known = ", ".join(constraint_names(self.properties))
            raise ConstraintNotFoundError(table=self.table, constraint=name, constraints=known or "none")
        configuration = {key: value for key, value in self.properties.items() if key != stored}
        return replace(self, metadata=self.metadata.replace(configuration=configuration))

    # --- the protocol

    def upgraded(self, schema: Struct, given: Mapping[str, str]) -> Protocol:
        """The protocol raised to what a new schema and given properties require. The properties that the table has ask
        for nothing.

        Raises:
            InvalidPropertyError: an unknown version or feature.
        """
        stored, _ = split_features(self.properties)
        known = {name: value for name, value in stored.items() if name not in given}
        return upgrade_for(self.protocol, schema, {**known, **given}, known=(self.schema, known), table=self.table)

    def with_protocol(
        self, reader_version: int | None, writer_version: int | None, features: Iterable[str], new_id: Callable[[], str]
    ) -> TableConfiguration:
        """Raise the protocol to at least these versions and features. It is never lowered.

        Args:
            new_id: returns a unique name.

        Raises:
            InvalidPropertyError: an unknown version or feature.
        """
        versions = {MIN_READER_VERSION: reader_version, MIN_WRITER_VERSION: writer_version}
        asked = {name: str(version) for name, version in versions.items() if version is not None} | properties_for(
            features
        )
        return self.with_properties(asked, new_id)

    def without_feature(self, feature: Feature, *, protected_before: int | None = None) -> TableConfiguration:
        """Drop a feature that no column or property uses.

        Args:
            protected_before: the version of the drop. Checkpoints before it are kept, for readers that do not support
                the feature. Protocol: "Checkpoint Protection".

        Raises:
            FeatureInUseError: a property or a column uses it.
        """
        configuration = {key: value for key, value in self.properties.items() if key not in feature.properties}
        used = uses_of(feature, self.schema, configuration)
        if used:
            remedy = "Drop these columns, constraints or properties first: dropping a feature never changes data."
            raise FeatureInUseError(
                feature=feature.name, table=self.table, detail=f"it is used by {', '.join(used)}", remedy=remedy
            )
        protocol = protocol_without(self.protocol, feature)
        if protected_before is not None:
            protocol = upgrade(protocol, ["checkpointProtection"])
            configuration[PROTECTED_CHECKPOINTS_BEFORE.name] = str(protected_before)
        return replace(self, protocol=protocol, metadata=self.metadata.replace(configuration=configuration))

    # --- the schema

    def with_schema(self, schema: Struct, new_name: Callable[[], str]) -> TableConfiguration:
        """Replace the schema by one that can still read the existing files.

        Columns may be added (nullable), moved, made nullable, and widened if `delta.enableTypeWidening` is true. With
        column mapping they may also be dropped and renamed; columns are then matched by their `delta.columnMapping.id`.
        Without it, columns keep the case of their names.

        Args:
            new_name: returns a physical name that the table has never used.

        Raises:
            SchemaMismatchError: a change that the existing files do not allow; the error names the column.
            DuplicateColumnsError: two names differ only in case.
        """
        check_unique_names(schema, table=self.table)
        evolved = self._evolved_struct(self.schema, schema, ())
        partitions = {name: evolved.find(name) for name in self.metadata.partition_columns}
        gone = [name for name, column in partitions.items() if column is None]
        if gone:
            raise self._mismatch(f"the table is partitioned by {', '.join(gone)}, which the new schema lacks")
        changed = self.with_columns(evolved, new_name)
        configuration = followed_keys(changed.properties, self.schema, evolved, table=self.table)
        configuration = followed(configuration, self.schema, evolved, table=self.table)
        spelled = tuple(column.name for column in partitions.values() if column is not None)
        return replace(
            changed, metadata=changed.metadata.replace(partition_columns=spelled, configuration=configuration)
        )

    def with_columns(self, schema: Struct, new_name: Callable[[], str]) -> TableConfiguration:
        """Set a schema that is known to fit: assign ids to new columns, and raise the protocol."""
        mode, configuration = self.column_mapping_mode, dict(self.properties)
        if mode != "none":
            used, nested = highest_id(configuration, table=self.table), numbers_nested(self.protocol, configuration)
            schema, highest = assign_mapping(schema, mode, lambda _: f"col-{new_name()}", used, numbers_nested=nested)
            configuration[MAX_COLUMN_ID] = str(highest)
        metadata = self.metadata.replace(schema_string=schema.to_json(), configuration=configuration)
        return replace(self, protocol=self.upgraded(schema, {}), metadata=metadata)

    def _evolved_struct(self, known: Struct, given: Struct, path: tuple[str, ...]) -> Struct:
        """The given struct. Each of its columns changes a known one, or is added."""
        claimed = {column_id(f) for f in given} - {None}
        pairs = [(f, self._same_column(known, f, claimed)) for f in given]
        kept = {before.name for _, before in pairs if before is not None}
        dropped = [".".join((*path, f.name)) for f in known if f.name not in kept]
        if dropped and self.column_mapping_mode == "none":
            raise self._mismatch(f"column {', '.join(dropped)} would be dropped: {SHOWS_OLD_VALUES}")
        columns = (
            self._added_column(f, path) if old is None else self._changed_column(old, f, path) for f, old in pairs
        )
        return Struct(tuple(columns))

    def _same_column(self, known: Struct, given: Field, claimed: Set[int | None]) -> Field | None:
        """The existing column that matches a given one: by id, else by name, unless another given column has that
        column's id.
        """
        if self.column_mapping_mode == "none":
            return known.find(given.name)
        number = column_id(given)
        if number is not None:
            return next((f for f in known if column_id(f) == number), None)
        named = known.find(given.name)
        return None if named is None or column_id(named) in claimed else named

    def _added_column(self, given: Field, path: tuple[str, ...]) -> Field:
        name = ".".join((*path, given.name))
        if not given.nullable:
            raise self._mismatch(f"the new column {name} is NOT NULL, but existing rows have no value for it")
        if makes_values(given):
            kinds, why = "a generated or identity column, or has a default", "existing rows would not follow its rule"
            raise self._mismatch(f"the new column {name} is {kinds}: {why}")
        return given

    def _changed_column(self, known: Field, given: Field, path: tuple[str, ...]) -> Field:
        """The known column as the given one changes it. Keys of its metadata that the given column does not have are
        kept.
        """
        name = ".".join((*path, known.name))
        if known.nullable and not given.nullable:
            raise self._mismatch(f"column {name} is nullable and would become NOT NULL")
        is_mapped = self.column_mapping_mode != "none"
        changed = replace(
            given,
            # Without column mapping, files and their statistics have the name in this spelling.
            name=given.name if is_mapped else known.name,
            metadata={**known.metadata, **given.metadata},
            type=self._evolved_type(known.type, given.type, (*path, known.name)),
        )
        return with_type_changes(changed, known.type)

    def _evolved_type(self, known: DataType, given: DataType, path: tuple[str, ...]) -> DataType:
        """The given type, with the fields of its structs matched to known ones. A nullable element or value stays
        nullable; VOID may become any type, because no file has values of it.
        """
        match known, given:
            case Struct(), Struct():
                return self._evolved_struct(known, given, path)
            case Array(), Array() if given.contains_null or not known.contains_null:
                return replace(given, element=self._evolved_type(known.element, given.element, (*path, "element")))
            case Map(), Map() if given.value_contains_null or not known.value_contains_null:
                key = self._evolved_type(known.key, given.key, (*path, "key"))
                return replace(given, key=key, value=self._evolved_type(known.value, given.value, (*path, "value")))
            case _ if known in (given, VOID) or (self.widens is not None and self.widens(known, given)):
                return given
            case _:
                why = (
                    "type widening is not enabled (delta.enableTypeWidening)"
                    if self.widens is None and is_widening(known, given)
                    else "existing files could not be read with that type"
                )
                raise self._mismatch(f"column {'.'.join(path)} is {known} and would become {given}: {why}")

    @property
    def widens(self) -> Widens | None:
        """Which types columns may be widened to; None if type widening is not enabled."""
        return widening_of(self.protocol, self.metadata, table=self.table)

    def _mismatch(self, detail: str) -> SchemaMismatchError:
        return SchemaMismatchError(
            table=self.table,
            detail=detail,
            remedy="Use a schema that can read the existing files. Nothing was changed.",
        )


def _check_may_be_set(of: TableConfiguration, properties: Mapping[str, str]) -> None:
    """Refuse properties that are not set as such."""
    for name, value in properties.items():
        _check_not_of_catalog(of, name, value)
        detail = None
        if name.lower().startswith(CONSTRAINT):
            detail = "existing rows must be checked: use ADD CONSTRAINT, or add_constraint()"
        elif is_key(name):
            detail = "its columns must be checked: use ADD CONSTRAINT, or add_key()"
        if detail is not None:
            raise InvalidPropertyError(property=name, table=of.table, value=value, detail=detail)


def _check_not_of_catalog(of: TableConfiguration, name: str, value: str) -> None:
    """Refuse to change a property by which a catalog knows the table that it manages."""
    is_changed = of.properties.get(name) != value
    if is_changed and name.startswith(OF_MANAGERS) and supports(of.protocol, "catalogManaged"):
        detail = "the catalog that manages the table knows it by this property"
        error = InvalidPropertyError(property=name, table=of.table, value=value, detail=detail)
        raise error.restate("Leave the property as it is.")
