"""What a concurrent change of protocol or metadata means to a write that was planned before it: `RULES`, one rule for
each change.

The rule asks two things: is the planned commit legal in the changed table, and would the write have had the same effect
had it run after the change? If both hold for any write, it goes on, or the commit is only made anew, with values that
depend on the version before it. Otherwise the write is run again on the changed table, or refused.

Protocol: "Table Features" and the writer requirements of each feature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, Flag, auto

from tahoe.protocol.changes.column_values import without_high_water_marks
from tahoe.protocol.changes.constraints import PREFIX as CONSTRAINT
from tahoe.protocol.configuration import properties
from tahoe.protocol.configuration.column_mapping import ID, PHYSICAL_NAME
from tahoe.protocol.configuration.features import (
    READER_VERSIONS,
    WRITER_VERSIONS,
    feature_named,
    setting,
    supported_features,
)
from tahoe.protocol.configuration.properties import FeatureProperty
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.column_metadata import COLLATIONS
from tahoe.protocol.types.schema import Array, DataType, Field, Map, Struct, parse_schema
from tahoe.protocol.types.type_widening import TYPE_CHANGES, is_widening


class Does(Flag):
    """What a write does."""

    COMMITS = auto()
    """Every write does."""
    ADDS = auto()
    """It adds files with rows that are new, changed, or left of a file that is rewritten."""
    REMOVES = auto()
    """It removes rows."""
    CHANGES = auto()
    """It does both: an update, or a deletion that rewrites files."""
    MOVES = auto()
    """It rewrites files or their entries in the log, and changes no row."""
    MARKS = auto()
    """It deletes rows through deletion vectors."""
    RECORDS = auto()
    """It writes change data files."""
    READS = auto()
    """It depends on rows that it has read."""
    DESCRIBES = auto()
    """It sets metadata domains."""
    USES_FILES = ADDS | REMOVES | CHANGES | MOVES | MARKS | RECORDS | READS
    ANYTHING = COMMITS | USES_FILES | DESCRIBES


class Outcome(Enum):
    """What a write does behind a change that concerns it."""

    ON = "goes on"
    ANEW = "goes on, and its commit is made anew"
    AGAIN = "is run again"
    REFUSED = "is refused"


@dataclass(frozen=True, slots=True)
class Rule:
    """What one change means to writes that were planned before it.

    Attributes:
        outcome: what the writes do that the change concerns; all others go on.
        why: the reason, as a clause.
        concerns: what these writes do.
    """

    outcome: Outcome
    why: str
    concerns: Does = Does.ANYTHING


_ON, _ANEW, _AGAIN, _REFUSED = Outcome.ON, Outcome.ANEW, Outcome.AGAIN, Outcome.REFUSED

_NEW_ROWS = Does.ADDS
_FILES = Does.ADDS | Does.MOVES
_ROWS_WITH_IDS = Does.CHANGES | Does.MOVES


def _on(why: str, *changes: str) -> dict[str, Rule]:
    return dict.fromkeys(changes, Rule(_ON, why))


# The keys name a change: `+feature` that a protocol gains, `-feature` that it loses, `property` or `property=value` (of
# a feature, as it takes effect), and words for parts of the metadata, which `_METADATA_KEYS` and `changes` give.
RULES: Mapping[str, Rule] = {
    # --- features. Where a property or a column makes the feature active, the rule is there.
    **_on(
        "the feature alone makes no rule: its property, or a column that uses it, does",
        *("+appendOnly", "+invariants", "+checkConstraints", "+changeDataFeed", "+generatedColumns", "+columnMapping"),
        *(
            "+identityColumns",
            "+deletionVectors",
            "+timestampNtz",
            "+variantType",
            "+variantShredding",
            "+geospatial",
            "+typeWidening",
        ),
        *("+allowColumnDefaults", "+inCommitTimestamp", "+icebergCompatV1", "+icebergCompatV2", "+icebergCompatV3"),
    ),
    **_on(
        "it makes rules for checkpoints, log cleanup or VACUUM only",
        "+v2Checkpoint",
        "+vacuumProtocolCheck",
        "+checkpointProtection",
    ),
    "+domainMetadata": Rule(_ON, "a write that changes no domain may leave them all alone"),
    "+clustering": Rule(_ON, "new files need statistics of the clustering columns, but need not be clustered"),
    "clustering columns": Rule(_AGAIN, "files of this write have no statistics of these columns", _FILES),
    "+rowTracking": Rule(_ANEW, "its files get row ids behind those of the table"),
    "+materializePartitionColumns": Rule(_AGAIN, "new files must contain the partition columns", _FILES),
    "delta.enableMaterializePartitionColumnsFeature": Rule(
        _ON, "the feature makes the rule, whatever the property says"
    ),
    "+catalogManaged": Rule(_REFUSED, "from now on a catalog decides about commits"),
    "+unknown": Rule(_REFUSED, "tahoe does not know what it asks of writers"),
    "-": Rule(_AGAIN, "the commit may use what the table no longer supports", Does.USES_FILES | Does.DESCRIBES),
    # --- properties of features
    "delta.appendOnly=True": Rule(_REFUSED, "rows of the table can no longer be removed", Does.REMOVES),
    "delta.appendOnly=False": Rule(_ON, "more is allowed than before"),
    "delta.enableChangeDataFeed=True": Rule(
        _AGAIN, "an update, or a deletion that rewrites files, must record its changes", Does.CHANGES
    ),
    "delta.enableChangeDataFeed=False": Rule(_AGAIN, "changes must not be recorded any more", Does.RECORDS),
    "delta.enableDeletionVectors=True": Rule(_ON, "a write may use deletion vectors, but need not"),
    "delta.enableDeletionVectors=False": Rule(_AGAIN, "no new deletion vectors are wanted", Does.MARKS),
    "delta.enableInCommitTimestamps": Rule(_ANEW, "its commit gets a timestamp later than the winner's, or none"),
    "delta.enableRowTracking=True": Rule(_AGAIN, "rows that are changed or moved keep their ids", _ROWS_WITH_IDS),
    "delta.enableRowTracking=False": Rule(_ON, "ids that files keep beside their rows do no harm"),
    "delta.rowTrackingSuspended": Rule(_ANEW, "its files get row ids, or none"),
    **dict.fromkeys(
        (
            "delta.enableIcebergCompatV1=True",
            "delta.enableIcebergCompatV2=True",
            "delta.enableIcebergCompatV3=True",
        ),
        Rule(_AGAIN, "Iceberg's readers ask more of files", Does.USES_FILES),
    ),
    **_on(
        "less is asked of files than before",
        *(
            "delta.enableIcebergCompatV1=False",
            "delta.enableIcebergCompatV2=False",
            "delta.enableIcebergCompatV3=False",
        ),
    ),
    "delta.columnMapping.mode=name": Rule(_ON, "the names in its files are the physical names of the columns"),
    "delta.columnMapping.mode": Rule(
        _REFUSED, "files of the other mode name their columns in another way", Does.USES_FILES
    ),
    **_on(
        "wider types and shredded variants may be used, but need not",
        "delta.enableTypeWidening",
        "delta.enableVariantShredding=True",
    ),
    "delta.enableVariantShredding=False": Rule(_AGAIN, "new files must not have shredded variants", _FILES),
    **_on(
        "it is about checkpoints and log cleanup only",
        "delta.checkpointPolicy",
        "delta.requireCheckpointProtectionBeforeVersion",
    ),
    # --- other properties
    "delta.isolationLevel": Rule(_AGAIN, "other writes may come first by the new level", Does.READS),
    "delta.compatibility.symlinkFormatManifest.enabled": Rule(
        _AGAIN, "each commit must, or need not, write manifests", Does.USES_FILES
    ),
    "delta.rowTracking.materializedRowIdColumnName": Rule(
        _AGAIN, "files keep row ids in another column", _ROWS_WITH_IDS
    ),
    "delta.rowTracking.materializedRowCommitVersionColumnName": Rule(
        _AGAIN, "files keep row versions in another column", _ROWS_WITH_IDS
    ),
    "property": Rule(_ON, "a write that is planned after the change does the same"),
    "constraint": Rule(_AGAIN, "new rows must satisfy it", _NEW_ROWS),
    "constraint dropped": Rule(_ON, "more is allowed than before"),
    # --- the schema and the rest of the metadata
    **dict.fromkeys(
        ("values", "nullability"),
        Rule(_AGAIN, "new rows must be checked, or get their values, by the new rule", _NEW_ROWS),
    ),
    "nullability dropped": Rule(_ON, "more is allowed than before"),
    "physical names": Rule(_REFUSED, "the files of this write have other names for their columns", Does.USES_FILES),
    "wider types": Rule(_AGAIN, "conditions and values that were computed with the old types may differ", Does.READS),
    "columns": Rule(_AGAIN, "the write was planned for other columns", Does.USES_FILES),
    "partitioning": Rule(_REFUSED, "the files of this write were written for the other partitioning", Does.USES_FILES),
    "format": Rule(_REFUSED, "the files of this write have the other format", Does.USES_FILES),
    "table": Rule(_REFUSED, "the table of this write is no longer there"),
    "notes": Rule(_ON, "it says nothing about rows and files"),
    # --- not the configuration: a VACUUM deletes files that no commit names
    "vacuum": Rule(_AGAIN, "files of this write are older, and no commit names them yet", Does.USES_FILES),
}

_SAYS_NOTHING = ("comment", TYPE_CHANGES)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a table's configuration.

    Attributes:
        key: of its rule.
        text: what happened, as a clause that begins with a verb: "set delta.appendOnly to true".
        is_of_protocol: whether it is a change of the protocol.
        is_of_columns: whether it changes names, order or types of columns.
    """

    key: str
    text: str
    is_of_protocol: bool = False
    is_of_columns: bool = False

    @property
    def rule(self) -> Rule:
        return RULES[self.key]

    def outcome_for(self, write: Does) -> Outcome:
        """What a write does behind this change."""
        return self.rule.outcome if self.rule.concerns & write else _ON


def conflict_of(found: Iterable[Change], write: Does) -> tuple[Change, Outcome] | None:
    """The change that a write cannot go on behind, and what the write does; one for which it is refused, if there is
    any.
    """
    outcomes = [(change, outcome) for change in found if (outcome := change.outcome_for(write)) in (_AGAIN, _REFUSED)]
    return next((each for each in outcomes if each[1] is _REFUSED), outcomes[0] if outcomes else None)


def changes(before: tuple[Protocol, Metadata], after: tuple[Protocol, Metadata]) -> Iterator[Change]:
    """How a table's protocol and metadata were changed."""
    yield from _protocol_changes(before[0], after[0])
    if before[1].id != after[1].id:
        yield Change("table", "replaced the table by another one")
    yield from _property_changes(before, after)
    yield from _schema_changes(before[1].schema_string, after[1].schema_string)
    if before[1].partition_columns != after[1].partition_columns:
        yield Change("partitioning", "changed the partitioning")
    if before[1].format != after[1].format:
        yield Change("format", "changed the format of data files")


def _protocol_changes(before: Protocol, after: Protocol) -> Iterator[Change]:
    had, has = supported_features(before), supported_features(after)
    for name in sorted(has - had):
        known = feature_named(name)
        key = "+unknown" if known is None else f"+{known.name}"
        yield Change(key, f"added the feature {name} to the protocol", is_of_protocol=True)
    for name in sorted(had - has):
        yield Change("-", f"dropped the feature {name} from the protocol", is_of_protocol=True)
    if after.reader_version not in READER_VERSIONS or after.writer_version not in WRITER_VERSIONS:
        versions = f"reader version {after.reader_version} and writer version {after.writer_version}"
        yield Change("+unknown", f"raised the protocol to {versions}", is_of_protocol=True)


def _property_changes(before: tuple[Protocol, Metadata], after: tuple[Protocol, Metadata]) -> Iterator[Change]:
    """The changes of table properties. Those of a feature are compared by their effective values, so a value that the
    protocol gives no effect is no change.
    """
    old, new = before[1].configuration, after[1].configuration
    by_feature = {known.name: known for known in properties.PROPERTIES if isinstance(known, FeatureProperty)}
    for name, known in by_feature.items():
        if name not in old and name not in new:
            continue
        value = setting(known, *_effective(after))
        if setting(known, *_effective(before)) != value:
            text = f"set {name} to {str(value).lower()}" if name in new else f"unset {name}"
            yield Change(next((key for key in (f"{name}={value}", name) if key in RULES), "property"), text)
    for name in sorted({*old, *new}):
        if name in by_feature or old.get(name) == new.get(name):
            continue
        text = f"set {name}" if name in new else f"unset {name}"
        if name.lower().startswith(CONSTRAINT):
            yield Change("constraint" if name in new else "constraint dropped", text)
        elif name not in old and name.startswith("delta.rowTracking.materialized"):
            yield Change("property", text)  # no file has such a column yet
        else:
            yield Change(name if name in RULES else "property", text)


def _effective(configuration: tuple[Protocol, Metadata]) -> tuple[Protocol, Mapping[str, str]]:
    return configuration[0], configuration[1].configuration


# --- the schema


def _schema_changes(before: str, after: str) -> Iterator[Change]:
    if before == after or without_high_water_marks(before) == without_high_water_marks(after):
        return
    yield from _type_changes(parse_schema(before), parse_schema(after), ())


def _type_changes(before: DataType, after: DataType, path: tuple[str, ...]) -> Iterator[Change]:
    """The changes between two types of a column, at any depth. If fields were added, dropped, renamed or moved, that is
    the only change of their struct.
    """
    at = ".".join(path)
    match before, after:
        case Struct(), Struct():
            if [field.name for field in before] != [field.name for field in after]:
                yield Change("columns", f"changed the columns{f' of {at}' if path else ''}", is_of_columns=True)
                return
            for old, new in zip(before, after, strict=True):
                yield from _field_changes(old, new, (*path, old.name))
        case Array(), Array():
            yield from _type_changes(before.element, after.element, (*path, "element"))
            yield from _nullability_changes(before.contains_null, after.contains_null, f"the elements of {at}")
        case Map(), Map():
            yield from _type_changes(before.key, after.key, (*path, "key"))
            yield from _type_changes(before.value, after.value, (*path, "value"))
            yield from _nullability_changes(
                before.value_contains_null, after.value_contains_null, f"the values of {at}"
            )
        case _ if before != after and is_widening(before, after):
            yield Change("wider types", f"widened the column {at} from {before} to {after}", is_of_columns=True)
        case _ if before != after:
            yield Change("columns", f"changed the type of the column {at}", is_of_columns=True)


def _field_changes(before: Field, after: Field, path: tuple[str, ...]) -> Iterator[Change]:
    """The changes of a column or field. Column mapping, when it is enabled, gives a column an id, and its own name as
    the physical name: that is no change, because files name it so already.
    """
    at = ".".join(path)
    yield from _type_changes(before.type, after.type, path)
    yield from _nullability_changes(before.nullable, after.nullable, f"the column {at}")
    changed = [
        key
        for key in sorted({*before.metadata, *after.metadata})
        if before.metadata.get(key) != after.metadata.get(key)
    ]
    for key in changed:
        if key in (ID, PHYSICAL_NAME):
            if (key in before.metadata) or (key == PHYSICAL_NAME and after.metadata[key] != after.name):
                yield Change("physical names", f"changed {key} of the column {at}")
        elif key == COLLATIONS:
            yield Change("wider types", f"changed the collation of the column {at}")
        elif key.startswith(_SAYS_NOTHING):
            yield Change("notes", f"changed {key} of the column {at}")
        else:
            yield Change("values", f"changed {key} of the column {at}")


def _nullability_changes(before: bool, after: bool, what: str) -> Iterator[Change]:
    if before and not after:
        yield Change("nullability", f"made {what} NOT NULL")
    elif after and not before:
        yield Change("nullability dropped", f"made {what} nullable")
