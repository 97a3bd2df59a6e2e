"""What a table says of itself, and how that may be changed: pure functions from one protocol and metadata to the next.

Protocol: "Change Metadata", "Protocol Evolution", "Writer Requirements for Column Mapping". What a change asks of the protocol is upgraded
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace

from tahoe.errors import (
    ConstraintExistsError,
    ConstraintNotFoundError,
    FeatureInUseError,
    InvalidPropertyError,
    NotAnIdentityColumnError,
    SchemaMismatchError,
)
from tahoe.protocol.actions import Metadata, Protocol
from tahoe.protocol.column_mapping import (
    MAX_COLUMN_ID,
    MODE,
    Mode,
    assign_mapping,
    column_id,
    mapping_mode,
    without_mapping,
)
from tahoe.protocol.column_values import identity_columns, makes_values, with_high_water_marks
from tahoe.protocol.constraints import PREFIX as CONSTRAINT
from tahoe.protocol.evolution import Widens, widening_of
from tahoe.protocol.feature_drop import uses_of, without_feature
from tahoe.protocol.feature_upgrade import split_features, upgrade, upgrade_for
from tahoe.protocol.features import Feature
from tahoe.protocol.properties import PROTECTED_CHECKPOINTS_BEFORE, find_property, normalise
from tahoe.protocol.row_tracking import with_materialised_columns
from tahoe.protocol.schema import VOID, Array, DataType, Field, Map, Struct, check_unique_names
from tahoe.protocol.type_widening import is_widening, with_type_changes

# Under this name statements give a table's description among its properties.
COMMENT = "comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfiguration:
    """The two actions that say what a table is. `table` is its url, for errors."""

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
        """With properties set, known and the user's own; `delta.feature.<name>` = supported adds a feature.

        Args:
            properties: `comment` among them is the table's description, and not stored as a property.
            new_id: makes a name that nothing else has.

        Raises:
            InvalidPropertyError: one that does not exist, that only writers set, or whose value cannot be; a constraint, which is not set
                without a look at the rows.
        """
        for name, value in properties.items():
            if name.lower().startswith(CONSTRAINT):
                raise self._invalid(name, value, "the rows that are there must be looked at: use ADD CONSTRAINT, or add_constraint()")
        given, asked = split_features(normalise(properties, table=self.table))
        description = given.pop(COMMENT, self.metadata.description) or None
        configuration = {**self.properties, **given}
        protocol = upgrade_for(self.protocol, self.schema, {**configuration, **asked}, table=self.table)
        configuration = with_materialised_columns(protocol, configuration, new_id, table=self.table)
        return self._remapped(protocol, configuration)._described(description)

    def without_properties(self, names: Iterable[str], *, if_exists: bool = False) -> TableConfiguration:
        """With properties unset, so that their defaults hold. The protocol stays as it is.

        Raises:
            InvalidPropertyError: one that is not set, or that only writers set.
        """
        configuration = dict(self.properties)
        description = self.metadata.description
        for name in names:
            known = find_property(name)
            stored = name if known is None else known.name
            if known is not None and known.is_internal:
                raise self._invalid(stored, "unset", "writers keep it, and users cannot unset it")
            if stored not in configuration and stored != COMMENT and not if_exists:
                raise self._invalid(stored, "unset", "the table does not have it")
            configuration.pop(stored, None)
            description = None if stored == COMMENT else description
        return self._remapped(self.protocol, configuration)._described(description)

    def _described(self, description: str | None) -> TableConfiguration:
        return replace(self, metadata=replace(self.metadata, description=description))

    def _remapped(self, protocol: Protocol, configuration: Mapping[str, str]) -> TableConfiguration:
        """With other properties. Where column mapping begins, columns keep the names that their files have."""
        before, after = self.column_mapping_mode, mapping_mode(protocol, configuration)
        metadata = replace(self.metadata, configuration=dict(configuration))
        if before != after:
            if (before, after) != ("none", "name"):
                raise self._invalid(MODE, configuration.get(MODE, "none"), f"the table's files were written for {before}")
            used = int(configuration.get(MAX_COLUMN_ID, 0))
            schema, highest = assign_mapping(without_mapping(self.schema), after, lambda field: field.name, used)
            metadata = replace(metadata, schema_string=schema.to_json(), configuration={**configuration, MAX_COLUMN_ID: str(highest)})
        return replace(self, protocol=protocol, metadata=metadata)

    def _invalid(self, name: str, value: str, detail: str) -> InvalidPropertyError:
        return InvalidPropertyError(property=name, table=self.table, value=value, detail=detail)

    def with_identity_at(self, column: str, value: int) -> TableConfiguration:
        """With an identity column's mark moved to a value, or the next after it that a step leads to; it never goes back.

        Raises:
            NotAnIdentityColumnError: the table has no identity column of that name.
        """
        found = next(((name, i) for name, i in identity_columns(self.schema, table=self.table) if name.lower() == column.lower()), None)
        if found is None:
            raise NotAnIdentityColumnError(table=self.table, column=column)
        name, identity = found
        is_before = value < identity.start if identity.step > 0 else value > identity.start
        if is_before or identity.moved_to(value) == identity:
            return self
        schema = with_high_water_marks(self.schema, {name: value})
        return replace(self, metadata=replace(self.metadata, schema_string=schema.to_json()))

    # --- constraints

    def with_constraint(self, name: str, expression: str) -> TableConfiguration:
        """With a CHECK constraint, which the rows that are there must have been found to satisfy.

        Raises:
            ConstraintExistsError: there is one of that name already.
        """
        known = self._constraint(name)
        if known is not None:
            raise ConstraintExistsError(table=self.table, constraint=name, expression=self.properties[known])
        configuration = {**self.properties, CONSTRAINT + name: expression}
        protocol = upgrade_for(self.protocol, self.schema, configuration, table=self.table)
        return replace(self, protocol=protocol, metadata=replace(self.metadata, configuration=configuration))

    def without_constraint(self, name: str, *, if_exists: bool = False) -> TableConfiguration:
        """Without one of them. The protocol stays as it is.

        Raises:
            ConstraintNotFoundError: there is none of that name.
        """
        stored = self._constraint(name)
        if stored is None and not if_exists:
            raise ConstraintNotFoundError(table=self.table, constraint=name, constraints=", ".join(self._constraints) or "none")
        configuration = {key: value for key, value in self.properties.items() if key != stored}
        return replace(self, metadata=replace(self.metadata, configuration=configuration))

    @property
    def _constraints(self) -> list[str]:
        return [key[len(CONSTRAINT) :] for key in self.properties if key.lower().startswith(CONSTRAINT)]

    def constraint(self, name: str) -> str | None:
        """The expression of a CHECK constraint, whose name is found without regard to case; None where there is none."""
        stored = self._constraint(name)
        return None if stored is None else self.properties[stored]

    def _constraint(self, name: str) -> str | None:
        """The property of a constraint, whose name is found without regard to case."""
        return next((key for key in self.properties if key.lower() == (CONSTRAINT + name).lower()), None)

    # --- the protocol

    def with_protocol(self, reader_version: int | None, writer_version: int | None, features: Iterable[str]) -> TableConfiguration:
        """With at least these versions and these features; nothing is ever taken away.

        Raises:
            InvalidPropertyError: a version or a feature that does not exist.
        """
        versions = {"delta.minReaderVersion": reader_version, "delta.minWriterVersion": writer_version}
        asked = {name: str(version) for name, version in versions.items() if version is not None}
        named = {f"delta.feature.{feature}": "supported" for feature in features}
        return replace(self, protocol=upgrade_for(self.protocol, self.schema, {**self.properties, **asked, **named}, table=self.table))

    def without_feature(self, feature: Feature, *, protected_before: int | None = None) -> TableConfiguration:
        """Without a feature that no column and no property uses.

        Args:
            protected_before: the version of the change, before which checkpoints are kept for readers that do not know the feature.
                Protocol: "Checkpoint Protection".

        Raises:
            FeatureInUseError: a property or a column needs it.
        """
        configuration = {key: value for key, value in self.properties.items() if key not in feature.properties}
        used = uses_of(feature, self.schema, configuration)
        if used:
            remedy = "Drop these columns, constraints or properties first; dropping a feature changes nothing of what a table holds."
            raise FeatureInUseError(feature=feature.name, table=self.table, detail=f"it is used by {', '.join(used)}", remedy=remedy)
        protocol = without_feature(self.protocol, feature)
        if protected_before is not None:
            protocol = upgrade(protocol, ["checkpointProtection"])
            configuration[PROTECTED_CHECKPOINTS_BEFORE.name] = str(protected_before)
        return replace(self, protocol=protocol, metadata=replace(self.metadata, configuration=configuration))

    # --- the schema

    def with_schema(self, schema: Struct, new_name: Callable[[], str]) -> TableConfiguration:
        """With another schema, in which the rows that are there can still be read.

        Columns may be added (nullable), moved, made nullable, and widened where `delta.enableTypeWidening` is true. Where columns are
        mapped they may be dropped as well, and renamed: a column is the one whose `delta.columnMapping.id` it carries.

        Args:
            new_name: makes a physical name that no column of the table ever had.

        Raises:
            SchemaMismatchError: a change that the files do not allow, with the column.
            DuplicateColumnsError: two names that differ in case only.
        """
        check_unique_names(schema, table=self.table)
        evolved = self._evolved(self.schema, schema, ())
        gone = [name for name in self.metadata.partition_columns if evolved.find(name) is None]
        if gone:
            raise self._mismatch(f"the table is partitioned by {', '.join(gone)}, which the new schema does not have")
        mode, configuration = self.column_mapping_mode, dict(self.properties)
        if mode != "none":
            evolved, highest = assign_mapping(evolved, mode, lambda _: f"col-{new_name()}", int(configuration.get(MAX_COLUMN_ID, 0)))
            configuration[MAX_COLUMN_ID] = str(highest)
        protocol = upgrade_for(self.protocol, evolved, configuration, table=self.table)
        return replace(
            self, protocol=protocol, metadata=replace(self.metadata, schema_string=evolved.to_json(), configuration=configuration)
        )

    def _evolved(self, known: Struct, given: Struct, path: tuple[str, ...]) -> Struct:
        claimed = {column_id(f) for f in given} - {None}
        pairs = [(f, self._same_column(known, f, claimed)) for f in given]
        kept = {before.name for _, before in pairs if before is not None}
        dropped = [".".join((*path, f.name)) for f in known if f.name not in kept]
        if dropped and self.column_mapping_mode == "none":
            why = "without column mapping a later column of that name would show its values"
            raise self._mismatch(f"column {', '.join(dropped)} would be dropped, and {why}")
        return Struct(tuple(self._added(f, path) if before is None else self._changed(before, f, path) for f, before in pairs))

    def _same_column(self, known: Struct, given: Field, claimed: Set[int | None]) -> Field | None:
        """The column that a given one is: by its id, else by its name, unless that column's id is another one's."""
        if self.column_mapping_mode == "none":
            return known.find(given.name)
        number = column_id(given)
        if number is not None:
            return next((f for f in known if column_id(f) == number), None)
        named = known.find(given.name)
        return None if named is None or column_id(named) in claimed else named

    def _added(self, given: Field, path: tuple[str, ...]) -> Field:
        if not given.nullable:
            raise self._mismatch(
                f"the new column {'.'.join((*path, given.name))} is NOT NULL, and the rows that are there have no value in it"
            )
        if makes_values(given):
            why = "its rule would not hold for the rows that are there"
            raise self._mismatch(f"the new column {'.'.join((*path, given.name))} is generated, counted, or has a default: {why}")
        return given

    def _changed(self, known: Field, given: Field, path: tuple[str, ...]) -> Field:
        name = ".".join((*path, known.name))
        if known.nullable and not given.nullable:
            raise self._mismatch(f"column {name} may hold nulls and would become NOT NULL")
        changed = replace(
            given, metadata={**known.metadata, **given.metadata}, type=self._type(known.type, given.type, (*path, known.name))
        )
        return with_type_changes(changed, known.type)

    def _type(self, known: DataType, given: DataType, path: tuple[str, ...]) -> DataType:
        match known, given:
            case Struct(), Struct():
                return self._evolved(known, given, path)
            case Array(), Array() if given.contains_null or not known.contains_null:
                return replace(given, element=self._type(known.element, given.element, (*path, "element")))
            case Map(), Map() if given.value_contains_null or not known.value_contains_null:
                key = self._type(known.key, given.key, (*path, "key"))
                return replace(given, key=key, value=self._type(known.value, given.value, (*path, "value")))
            case _ if known in (given, VOID) or (self.widens is not None and self.widens(known, given)):
                return given
            case _:
                why = (
                    "type widening is not enabled (delta.enableTypeWidening)"
                    if self.widens is None and is_widening(known, given)
                    else "the files that are there could not be read as it"
                )
                raise self._mismatch(f"column {'.'.join(path)} is {known} and would become {given}: {why}")

    @property
    def widens(self) -> Widens | None:
        """How the types of columns may be widened; None where they may not."""
        return widening_of(self.protocol, self.metadata, table=self.table)

    def _mismatch(self, detail: str) -> SchemaMismatchError:
        return SchemaMismatchError(table=self.table, detail=detail, remedy="Nothing was changed: give a schema that the files allow.")
