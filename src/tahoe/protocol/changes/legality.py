"""Which rules of the protocol an action or a commit breaks although it can be read, as sentences for `tahoe check`.

Protocol: "Protocol Evolution", "Table Features", "Column Mapping", "Schema Serialization Format", "Delta Log Entries",
"In-Commit Timestamps", "Domain Metadata", "Clustered Table", "Identity Columns", "Iceberg Compatibility". Rules about
files are in `tahoe.table.verify`. What cannot be read at all is refused elsewhere, and tested beside these rules in
`tests/table/test_every_must.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tahoe.errors import DeltaError, DuplicateColumnsError, InvalidActionError, InvalidPropertyError
from tahoe.protocol.changes.assigned_numbers import assigned_row_ids
from tahoe.protocol.configuration.column_mapping import (
    ID,
    PHYSICAL_NAME,
    highest_id,
    mapped_ids,
    mapping_mode,
    physical_name,
    physical_schema,
    without_nested_ids,
)
from tahoe.protocol.configuration.feature_conflicts import ICEBERG_COMPATS
from tahoe.protocol.configuration.features import (
    FEATURES,
    FEATURES_BY_NAME,
    READER_VERSION_FEATURES,
    WRITER_VERSION_FEATURES,
    active_features,
    feature_named,
    iceberg_compat,
    is_activated_by_metadata,
    numbers_nested,
    setting,
    supports,
)
from tahoe.protocol.configuration.kept_marks import NO_IDS
from tahoe.protocol.configuration.properties import APPEND_ONLY, ENABLE_IN_COMMIT_TIMESTAMPS, ENABLEMENT, KEPT_MARKS
from tahoe.protocol.configuration.row_tracking import DOMAIN, MATERIALISED, enabled_row_tracking, high_water_mark
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from tahoe.protocol.statistics import clustering
from tahoe.protocol.statistics.clustering import clustering_columns
from tahoe.protocol.statistics.stats import has_bounds, num_records_of
from tahoe.protocol.types.column_metadata import IDENTITY_HIGH_WATER_MARK, IDENTITY_START, IDENTITY_STEP
from tahoe.protocol.types.schema import check_unique_names, is_comparable, walk_fields


@dataclass(frozen=True, slots=True)
class Definition:
    """The protocol and the metadata of a version."""

    protocol: Protocol
    metadata: Metadata

    @property
    def has_in_commit_timestamps(self) -> bool:
        return setting(ENABLE_IN_COMMIT_TIMESTAMPS, self.protocol, self.metadata.configuration)

    @property
    def mapping_mode(self) -> str:
        return mapping_mode(self.protocol, self.metadata.configuration)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A commit between two versions.

    Attributes:
        before: the definition of the version before; None if there is none.
        timestamp_ms: the in-commit timestamp of the version before; None if it has none.
        domains_before, domains: those before and after the commit.
    """

    version: int
    actions: Sequence[Action]
    before: Definition | None
    after: Definition
    timestamp_ms: int | None
    domains_before: Mapping[str, DomainMetadata]
    domains: Mapping[str, DomainMetadata]

    @property
    def row_id_mark(self) -> int:
        """The highest row id that was assigned before the commit."""
        configuration = {} if self.before is None else self.before.metadata.configuration
        with suppress(InvalidActionError, InvalidPropertyError):
            return assigned_row_ids(self.domains_before.get(DOMAIN), configuration)
        return NO_IDS

    @property
    def info(self) -> CommitInfo | None:
        return next((action for action in self.actions if isinstance(action, CommitInfo)), None)

    @property
    def in_commit_timestamp_ms(self) -> int | None:
        """Its in-commit timestamp; None if in-commit timestamps are not enabled, or it has none."""
        with suppress(InvalidPropertyError):
            return (
                self.info.in_commit_timestamp_ms
                if self.info is not None and self.after.has_in_commit_timestamps
                else None
            )
        return None

    def has(self, *kinds: type[Action]) -> bool:
        return any(isinstance(action, kinds) for action in self.actions)


def violations(change: Transition) -> Iterator[str]:
    """The rules that a commit breaks."""
    broken: set[str] = set()
    for rule in _RULES:
        try:
            yield from rule(change)
        except DeltaError as error:  # a property, a domain or a schema that says nothing
            detail = str(error.parameters.get("detail") or error.what.format(**error.parameters))
            if detail not in broken:
                yield detail
            broken.add(detail)


# --- one protocol action


def _versions_and_lists(change: Transition) -> Iterator[str]:
    """A protocol has a list of features exactly if its version is the one of table features, and version 3 of readers
    needs version 7 of writers.
    """
    if not change.has(Protocol):
        return
    protocol = change.after.protocol
    reader, writer = protocol.reader_version, protocol.writer_version
    if reader == READER_VERSION_FEATURES and writer != WRITER_VERSION_FEATURES:
        yield f"reader version {reader} needs writer version {WRITER_VERSION_FEATURES}, but the protocol has {writer}"
    for name, version, first, listed in (
        ("readerFeatures", reader, READER_VERSION_FEATURES, protocol.reader_features),
        ("writerFeatures", writer, WRITER_VERSION_FEATURES, protocol.writer_features),
    ):
        if version == first and listed is None:
            yield f"protocol ({reader}, {writer}) lacks the list {name}"
        if version < first and listed is not None:
            yield f"protocol ({reader}, {writer}) must not have the list {name}"


# The reference adds it to catalog-managed tables, but the protocol does not ask for it.
_OF_THE_REFERENCE = "vacuumProtocolCheck"


def _listed_features(change: Transition) -> Iterator[str]:
    """A feature of readers is in both lists, unless the reader version implies it. The features that a feature requires
    are supported.
    """
    if not change.has(Protocol):
        return
    protocol = change.after.protocol
    readers, writers = protocol.reader_features or frozenset(), protocol.writer_features or frozenset()
    if alone := sorted(readers - writers):
        yield f"{', '.join(alone)} is in readerFeatures, but not in writerFeatures"
    for name in sorted(writers):
        feature = feature_named(name)
        if feature is None:
            continue
        if (
            feature.is_reader_feature
            and name not in readers
            and protocol.reader_version != feature.legacy_reader_version
        ):
            yield f"{name} is a feature that readers must support, but it is only in writerFeatures"
        required = (other for other in feature.requires if other != _OF_THE_REFERENCE)
        if missing := [other for other in required if not supports(protocol, other)]:
            yield f"{name} requires {', '.join(missing)}, which the protocol does not support"


# --- one metadata action


def _columns(change: Transition) -> Iterator[str]:
    """Names of columns differ not only in case, and partition columns are distinct and of primitive types."""
    if not change.has(Metadata):
        return
    metadata = change.after.metadata
    try:
        check_unique_names(metadata.schema, table="the table")
    except DuplicateColumnsError as error:
        yield f"its columns {error.parameters['columns']} have names that differ from others only in case"
    twice = [name for name, count in Counter(map(str.lower, metadata.partition_columns)).items() if count > 1]
    if twice:
        yield f"it is partitioned by {', '.join(twice)} more than once"
    found = map(metadata.schema.find, metadata.partition_columns)
    if odd := [column.name for column in found if column is not None and not is_comparable(column.type)]:
        yield f"it is partitioned by {', '.join(odd)}, which has no primitive type with an order"


def _mapping(change: Transition) -> Iterator[str]:
    """Protocol: "Column Mapping": every field has an id and a physical name of its own, and no id is above the
    highest.
    """
    definition = change.after
    if not change.has(Metadata, Protocol) or definition.mapping_mode == "none":
        return
    schema = definition.metadata.schema
    for key in (ID, PHYSICAL_NAME):
        if lacking := [".".join(path) for path, field in walk_fields(schema) if field.metadata.get(key) is None]:
            yield f"column mapping is on, but {', '.join(lacking)} has no {key}"
    counts = Counter(mapped_ids(schema))
    if twice := [str(number) for number, count in counts.items() if count > 1]:
        yield f"its column ids {', '.join(twice)} are those of more than one column"
    highest = highest_id(definition.metadata.configuration, table="the table")
    if counts and max(counts) > highest:
        yield f"its highest column id is {max(counts)}, but delta.columnMapping.maxColumnId is {highest}"
    names = Counter(path for path, _ in walk_fields(physical_schema(schema, definition.mapping_mode)))
    if same := [".".join(path) for path, count in names.items() if count > 1]:
        yield f"its physical names {', '.join(same)} are those of more than one column"


def _used_features(change: Transition) -> Iterator[str]:
    """A column uses a feature that the protocol does not support, or a property breaks the rule of an active
    feature.
    """
    if not change.has(Metadata, Protocol):
        return
    protocol, metadata = change.after.protocol, change.after.metadata
    for feature in FEATURES:
        is_used = is_activated_by_metadata(feature) and feature.active(
            metadata.schema, {}
        )  # by a column, whatever the properties
        if is_used and not supports(protocol, feature.name):
            yield f"a column uses {feature.rule}, but the protocol does not support {feature.name}"
    shredding = FEATURES_BY_NAME["variantShredding"]
    if shredding.active(metadata.schema, metadata.configuration) and not supports(protocol, shredding.name):
        yield f"delta.enableVariantShredding is true, but the protocol does not support {shredding.name}"
    for feature in active_features(protocol, metadata):
        if (detail := feature.conflict(protocol, metadata)) is not None:
            yield f"{feature.name}: {detail}"


def _row_tracking(change: Transition) -> Iterator[str]:
    protocol, configuration = change.after.protocol, change.after.metadata.configuration
    if not change.has(Metadata, Protocol) or enabled_row_tracking(protocol, configuration) is None:
        return
    if missing := [name for name in MATERIALISED if not configuration.get(name)]:
        yield f"row tracking is enabled, but {', '.join(missing)} is not set"
    if configuration.get("delta.rowTrackingSuspended", "").lower() == "true":
        yield "row tracking is both enabled and suspended"


def _row_id_mark(change: Transition) -> Iterator[str]:
    """The highest assigned row id goes back, also behind what the table keeps of a dropped domain: ids would be
    assigned again. A domain may be removed.
    """
    high_water_mark(change.domains_before.get(DOMAIN))  # a mark that says nothing is told
    before, domain = change.row_id_mark, change.domains.get(DOMAIN)
    after = high_water_mark(domain)
    if domain is not None and not domain.removed and after < before:
        yield f"the high-water mark of row ids goes back from {before} to {after}"
    if change.before is not None and change.before.metadata.id == change.after.metadata.id:
        kept, now = (KEPT_MARKS.get(each.metadata.configuration).row_id for each in (change.before, change.after))
        if max(now, after) < kept:
            yield f"the highest row id in {KEPT_MARKS.name} goes back from {kept} to {now}"


# --- the actions of a commit


def _reconciled_actions(change: Transition) -> Iterator[str]:
    """Protocol: "A single log entry MUST NOT include more than one action that reconciles with each other"."""
    for what, keys in (
        (
            "txn actions for the application",
            Counter(action.app_id for action in change.actions if isinstance(action, Txn)),
        ),
        (
            "domainMetadata actions for the domain",
            Counter(a.domain for a in change.actions if isinstance(a, DomainMetadata)),
        ),
    ):
        for key, count in keys.items():
            if count > 1:
                yield f"it has {count} {what} {key}"


def _only_in_checkpoints(change: Transition) -> Iterator[str]:
    for kind, name in ((Sidecar, "sidecar"), (CheckpointMetadata, "checkpointMetadata")):
        if change.has(kind):
            yield f"it has a {name} action, which only a checkpoint may have"


def _domains(change: Transition) -> Iterator[str]:
    if change.has(DomainMetadata) and not supports(change.after.protocol, "domainMetadata"):
        yield "it has a domainMetadata action, but the protocol does not support domainMetadata"


def _vectors(change: Transition) -> Iterator[str]:
    if supports(change.after.protocol, "deletionVectors"):
        return
    if any(isinstance(action, Add) and action.deletion_vector is not None for action in change.actions):
        yield (
            "it adds a file with a deletion vector, but the protocol does not support deletionVectors: other readers "
            "return deleted rows"
        )


def _append_only(change: Transition) -> Iterator[str]:
    for definition in (change.before, change.after):
        if definition is None or not setting(APPEND_ONLY, definition.protocol, definition.metadata.configuration):
            return
    if removed := sum(isinstance(action, Remove) and action.data_change for action in change.actions):
        yield f"it removes the rows of {removed} files, but the table is append-only"


def _in_commit_timestamp(change: Transition) -> Iterator[str]:
    """What is wrong with the in-commit timestamp of a commit: it must be there, be later than the one before, and be
    recorded where timestamps begin.
    """
    if not change.after.has_in_commit_timestamps:
        return
    info = change.info
    found = None if info is None else info.in_commit_timestamp_ms
    if found is None:
        yield "in-commit timestamps are enabled, but it has none"
        return
    if change.timestamp_ms is not None and found <= change.timestamp_ms:
        yield f"its in-commit timestamp {found} is not later than the previous one, {change.timestamp_ms}"
    if change.before is not None and not change.before.has_in_commit_timestamps:
        yield from _enablement(change, found)


def _enablement(change: Transition, timestamp_ms: int) -> Iterator[str]:
    for name, value in zip(ENABLEMENT, (change.version, timestamp_ms), strict=True):
        text = change.after.metadata.configuration.get(name)
        if text != str(value):
            yield f"it enables in-commit timestamps, so that {name} must be {value}, but it is {text}"


def _first_action(change: Transition) -> Iterator[str]:
    if (
        change.after.has_in_commit_timestamps
        and change.info is not None
        and not isinstance(change.actions[0], CommitInfo)
    ):
        yield "in-commit timestamps are enabled, but commitInfo is not its first action"


def _clustering(change: Transition) -> Iterator[str]:
    if not change.has(Metadata, DomainMetadata):
        return
    metadata = change.after.metadata
    columns = clustering_columns(change.domains.get(clustering.DOMAIN), metadata.schema, change.after.mapping_mode)
    if columns and metadata.partition_columns:
        yield f"the table is both clustered and partitioned by {', '.join(metadata.partition_columns)}"
    found = {path: metadata.schema.resolve(path) for path in columns}
    if unknown := [".".join(path) for path, fields in found.items() if fields is None]:
        yield f"the table is clustered by {', '.join(unknown)}, which is not in the schema"
    if odd := [".".join(path) for path, fields in found.items() if fields and not has_bounds(fields[-1].type)]:
        yield f"the table is clustered by {', '.join(odd)}, of a type without minimum and maximum statistics"


def _iceberg(change: Transition) -> Iterator[str]:
    """What Iceberg compatibility asks of files, of nested columns and of a replaced partitioning. What it asks of the
    schema and the properties is among `_used_features`.
    """
    protocol, metadata = change.after.protocol, change.after.metadata
    compat = iceberg_compat(protocol, metadata.configuration)
    if compat is None:
        return
    adds = [action for action in change.actions if isinstance(action, Add)]
    if uncounted := sum(num_records_of(add.stats) is None for add in adds):
        yield f"IcebergCompatV{compat} is active, but {uncounted} of its files do not say numRecords"
    has_vectors = any(add.deletion_vector is not None for add in adds)
    if has_vectors and ICEBERG_COMPATS[compat - 1].vectors is not None:
        yield f"IcebergCompatV{compat} is active, but it adds a file with a deletion vector"
    is_numbered = change.has(Metadata, Protocol) and numbers_nested(protocol, metadata.configuration)
    if is_numbered and (lacking := without_nested_ids(metadata.schema)):
        yield f"IcebergCompatV{compat} is active, but {', '.join(lacking)} has no field id"
    yield from _replaced_partitioning(change, compat)


def _replaced_partitioning(change: Transition, compat: int) -> Iterator[str]:
    before, after = change.before, change.after
    if before is None or iceberg_compat(before.protocol, before.metadata.configuration) is None:
        return
    old, new = before.metadata.partition_columns, after.metadata.partition_columns
    if old and [name.lower() for name in old] != [name.lower() for name in new]:
        yield (
            f"IcebergCompatV{compat} is active, but a table that is partitioned by {', '.join(old)} is replaced by one "
            f"that is partitioned by {', '.join(new) or 'nothing'}"
        )


def _identity_marks(change: Transition) -> Iterator[str]:
    """A high-water mark that goes back: its values would be given to rows again. A table that is replaced may begin
    anew.
    """
    is_replaced = change.info is not None and str(change.info.fields.get("operation")).startswith(
        ("CREATE", "REPLACE", "CLONE")
    )
    if (
        change.before is None
        or is_replaced
        or not change.has(Metadata)
        or change.before.metadata.id != change.after.metadata.id
    ):
        return
    metadata_before = {field.name: field.metadata for field in change.before.metadata.schema}
    kept_marks = KEPT_MARKS.get(change.before.metadata.configuration).identity
    for field in change.after.metadata.schema:
        old = metadata_before.get(field.name, {}).get(IDENTITY_HIGH_WATER_MARK)
        new = field.metadata.get(IDENTITY_HIGH_WATER_MARK)
        step = field.metadata.get(IDENTITY_STEP)
        if isinstance(old, int) and isinstance(new, int) and isinstance(step, int) and (new - old) * step < 0:
            yield f"the high-water mark of the identity column {field.name} goes back from {old} to {new}"
        if field.name not in metadata_before and isinstance(step, int):
            for mark in kept_marks.get(physical_name(field).lower(), ()):
                if (
                    isinstance(new, int)
                    and (new - mark) * step < 0 <= (mark - int(field.metadata.get(IDENTITY_START, mark))) * step
                ):
                    yield f"the identity column {field.name} begins at {new}, but {mark} was assigned before"


_RULES: tuple[Callable[[Transition], Iterable[str]], ...] = (
    _versions_and_lists,
    _listed_features,
    _columns,
    _mapping,
    _used_features,
    _row_tracking,
    _row_id_mark,
    _reconciled_actions,
    _only_in_checkpoints,
    _domains,
    _vectors,
    _append_only,
    _in_commit_timestamp,
    _first_action,
    _clustering,
    _iceberg,
    _identity_marks,
)
