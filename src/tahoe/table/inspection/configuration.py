"""What a version says of itself, apart from its files: properties, features, constraints, application transactions,
domains, tags.

Protocol: "Table Properties", "Table Features", "Transaction Identifiers", "Domain Metadata".
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from tahoe.protocol.changes.constraints import checks_of
from tahoe.protocol.configuration.declared_keys import keys_of
from tahoe.protocol.configuration.features import active_features, feature_named, supported_features
from tahoe.protocol.configuration.properties import PROPERTIES as KNOWN
from tahoe.protocol.configuration.properties import FeatureProperty, find_property
from tahoe.protocol.log.tags import tags_of
from tahoe.table.inspection.inspection import TIME, Column, Inspection, from_rows
from tahoe.table.reading.snapshot import Snapshot

_PROPERTIES = (
    Column(name="name", type=pa.string(), meaning="name of the property"),
    Column(name="value", type=pa.string(), meaning="its value as stored; null if the table does not set it"),
    Column(name="default", type=pa.string(), meaning="what applies to tables that do not set it; null if nothing does"),
    Column(
        name="feature", type=pa.string(), meaning="feature without which the value has no effect; null if it needs none"
    ),
)


def _properties(snapshot: Snapshot) -> dict[str, pa.Array]:
    values_set = {name: snapshot.properties[name] for name in sorted(snapshot.properties)}
    names_set = {found.name for name in values_set if (found := find_property(name)) is not None}
    names_not_set = dict.fromkeys(sorted(p.name for p in KNOWN if p.name not in names_set and not p.is_internal))
    values = values_set | names_not_set
    rows = [{"name": name, "value": value, **_default_and_feature(name)} for name, value in values.items()]
    return from_rows(rows, _PROPERTIES)


def _default_and_feature(name: str) -> dict[str, str | None]:
    known = find_property(name)
    default = None if known is None else _text(known.default)
    return {"default": default, "feature": known.feature if isinstance(known, FeatureProperty) else None}


def _text(value: Any) -> str | None:
    """A property's value as the table would store it; a list without entries is not stored."""
    match value:
        case None | ():
            return None
        case bool():
            return str(value).lower()
        case timedelta():
            hours = value // timedelta(hours=1)
            return f"interval {hours // 24} days" if hours % 24 == 0 else f"interval {hours} hours"
        case _:
            return str(value)


PROPERTIES = Inspection(
    name="properties", rows="a table property; first those that the table sets", columns=_PROPERTIES, read=_properties
)

_FEATURES = (
    Column(name="name", type=pa.string(), meaning="name of the table feature"),
    Column(
        name="is_listed",
        type=pa.bool_(),
        meaning="whether the protocol lists it; else its reader and writer versions imply it",
    ),
    Column(name="is_for_readers", type=pa.bool_(), meaning="whether readers must know it, not only writers"),
    Column(
        name="is_active",
        type=pa.bool_(),
        meaning="whether the schema or the properties make use of it; null if tahoe does not know it",
    ),
    Column(name="rule", type=pa.string(), meaning="what it is about; null if tahoe does not know it"),
    Column(
        name="writes",
        type=pa.string(),
        meaning="what tahoe can write while it is active; null if tahoe does not know it",
    ),
)


def _features(snapshot: Snapshot) -> dict[str, pa.Array]:
    """A row for each supported feature. Of one that tahoe does not know only the protocol tells something, so the other
    columns are null.
    """
    protocol, active = (
        snapshot.protocol,
        {feature.name for feature in active_features(snapshot.protocol, snapshot.metadata)},
    )
    readers = protocol.reader_features or frozenset()
    listed = readers | (protocol.writer_features or frozenset())
    rows = []
    for name in sorted(supported_features(protocol)):
        feature = feature_named(name)
        known: dict[str, bool | str | None] = {"is_active": None, "rule": None, "writes": None}
        if feature is not None:
            known = {"is_active": feature.name in active, "rule": feature.rule, "writes": feature.writes.value}
        is_for_readers = name in readers if feature is None else feature.is_reader_feature
        rows.append({"name": name, "is_listed": name in listed, "is_for_readers": is_for_readers, **known})
    return from_rows(rows, _FEATURES)


FEATURES = Inspection(
    name="features", rows="a table feature that the table supports", columns=_FEATURES, read=_features
)

_TXNS = (
    Column(name="app_id", type=pa.string(), meaning="application that numbers its writes, such as a streaming query"),
    Column(name="version", type=pa.int64(), meaning="number of its last write; no version of the table"),
    Column(name="last_updated", type=TIME, meaning="when it was recorded; null if its writer did not say"),
)


def _txns(snapshot: Snapshot) -> dict[str, pa.Array]:
    found = sorted(snapshot.txns.values(), key=lambda txn: txn.app_id)
    return from_rows(
        [{"app_id": txn.app_id, "version": txn.version, "last_updated": txn.last_updated_ms} for txn in found], _TXNS
    )


TXNS = Inspection(name="txns", rows="an application with the last of its numbered writes", columns=_TXNS, read=_txns)

_DOMAINS = (
    Column(name="domain", type=pa.string(), meaning="name of the domain"),
    Column(name="configuration", type=pa.string(), meaning="its content, mostly JSON"),
    Column(
        name="is_system",
        type=pa.bool_(),
        meaning="whether it belongs to a feature of the protocol; users cannot change it",
    ),
)


def _domains(snapshot: Snapshot) -> dict[str, pa.Array]:
    found = sorted(snapshot.domains.values(), key=lambda domain: domain.domain)
    rows = [
        {"domain": d.domain, "configuration": d.configuration, "is_system": d.domain.startswith("delta.")}
        for d in found
    ]
    return from_rows(rows, _DOMAINS)


DOMAINS = Inspection(name="domains", rows="a metadata domain", columns=_DOMAINS, read=_domains)

_TAGS = (
    Column(name="name", type=pa.string(), meaning="name of the version"),
    Column(name="version", type=pa.int64(), meaning="version of the table that has the name"),
    Column(name="created", type=TIME, meaning="when the tag was made"),
    Column(
        name="expires", type=TIME, meaning="expiry, from which on the tag protects nothing; null if it does not expire"
    ),
)


def _tags(snapshot: Snapshot) -> dict[str, pa.Array]:
    found = tags_of(snapshot.domains)
    rows = [
        {"name": tag.name, "version": tag.version, "created": tag.created_ms, "expires": tag.expires_ms}
        for tag in found
    ]
    return from_rows(rows, _TAGS)


_CONSTRAINTS = (
    Column(name="name", type=pa.string(), meaning="name of the constraint"),
    Column(name="type", type=pa.string(), meaning="`PRIMARY KEY`, `UNIQUE`, `FOREIGN KEY` or `CHECK`"),
    Column(name="columns", type=pa.list_(pa.string()), meaning="columns of a key; null for CHECK"),
    Column(
        name="referenced_table",
        type=pa.string(),
        meaning="table of a foreign key: a name in a catalog, or a location; null for others",
    ),
    Column(
        name="referenced_columns",
        type=pa.list_(pa.string()),
        meaning="columns of that table; null for its primary key, and for others",
    ),
    Column(name="definition", type=pa.string(), meaning="the condition of CHECK, or the key as SQL"),
    Column(name="is_enforced", type=pa.bool_(), meaning="whether writers refuse rows that violate it"),
    Column(name="rely", type=pa.bool_(), meaning="whether the rows of a key are said to satisfy it"),
)


def _constraints(snapshot: Snapshot) -> dict[str, pa.Array]:
    """The keys, and then the CHECK constraints."""
    rows: list[dict[str, Any]] = []
    for key in keys_of(snapshot.properties, table=snapshot.url):
        references = ".".join(key.references) or None
        row = {
            "name": key.name,
            "type": key.kind,
            "columns": key.columns,
            "referenced_table": key.location or references,
        }
        row |= {"referenced_columns": key.referenced_columns or None, "definition": str(key)}
        rows.append({**row, "is_enforced": False, "rely": key.rely})
    for check in sorted(checks_of(snapshot.properties), key=lambda check: check.name):
        row = {"name": check.name, "type": "CHECK", "columns": None, "referenced_table": None}
        row |= {"referenced_columns": None, "definition": check.expression}
        rows.append({**row, "is_enforced": True, "rely": True})
    return from_rows(rows, _CONSTRAINTS)


CONSTRAINTS = Inspection(
    name="constraints", rows="a constraint; first the declared keys", columns=_CONSTRAINTS, read=_constraints
)

TAGS = Inspection(name="tags", rows="a tag, which is the name of a version", columns=_TAGS, read=_tags)
