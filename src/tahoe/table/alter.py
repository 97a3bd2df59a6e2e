"""Changing what a table says of itself, and emptying it: commits without data files.

Protocol: "Change Metadata", "Protocol Evolution", "Writer Requirements for Column Mapping". What a new property asks of the protocol is
upgraded in the same commit; a property whose rule tahoe does not keep yet is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tahoe.errors import InvalidPropertyError
from tahoe.protocol.actions import Action, Metadata, Protocol
from tahoe.protocol.column_mapping import MAX_COLUMN_ID, MODE, assign_mapping, mapping_mode, without_mapping
from tahoe.protocol.features import check_writable, upgrade_for
from tahoe.protocol.properties import find_property, normalise
from tahoe.table.snapshot import Snapshot
from tahoe.table.transaction import Transaction
from tahoe.table.writing import TRUNCATE, WriteRequest, plan_write, split_features

if TYPE_CHECKING:
    from tahoe.table.table import Table


# Under this name statements give a table's description among its properties.
COMMENT = "comment"


def set_properties(table: Table, properties: Mapping[str, str], *, engine: str | None = None) -> int:
    """Set table properties, known and the user's own; `delta.feature.<name>` = supported adds a feature.

    Args:
        properties: `comment` among them is the table's description, and not stored as a property.

    Returns:
        the version made; the one that is there where the table has all of them already.

    Raises:
        InvalidPropertyError: one that does not exist, that only writers set, or whose value cannot be.
        DeltaProtocolError: it switches a rule on that tahoe does not keep yet.
    """
    snapshot = table.snapshot()
    given, asked = split_features(normalise(properties, table=table.url))
    description = given.pop(COMMENT, snapshot.metadata.description) or None
    configuration = {**snapshot.properties, **given}
    protocol = upgrade_for(snapshot.protocol, snapshot.schema, {**configuration, **asked}, table=table.url)
    metadata = replace(_remapped(snapshot, protocol, configuration), description=description)
    return _commit(snapshot, protocol, metadata, "SET TBLPROPERTIES", {"properties": dict(properties)}, engine)


def unset_properties(table: Table, names: Iterable[str], *, if_exists: bool = False, engine: str | None = None) -> int:
    """Remove table properties, so that their defaults hold. The protocol stays as it is.

    Args:
        if_exists: a property that is not set is no error.

    Returns:
        as `set_properties`.

    Raises:
        InvalidPropertyError: one that is not set, or that only writers set.
    """
    snapshot = table.snapshot()
    configuration = dict(snapshot.properties)
    asked = list(names)
    for name in asked:
        known = find_property(name)
        stored = name if known is None else known.name
        if known is not None and known.is_internal:
            raise InvalidPropertyError(property=stored, table=table.url, value="unset", detail="writers keep it, and users cannot unset it")
        if stored not in configuration and stored != COMMENT and not if_exists:
            raise InvalidPropertyError(property=stored, table=table.url, value="unset", detail="the table does not have it")
        configuration.pop(stored, None)
    metadata = _remapped(snapshot, snapshot.protocol, configuration)
    if COMMENT in asked:
        metadata = replace(metadata, description=None)
    parameters = {"properties": asked, "ifExists": if_exists}
    return _commit(snapshot, snapshot.protocol, metadata, "UNSET TBLPROPERTIES", parameters, engine)


def truncate(table: Table, where: str | None = None, *, engine: str | None = None) -> int:
    """Remove all rows, or those of some partitions.

    Args:
        where: SQL text over partition columns.

    Returns:
        the version made.

    Raises:
        AppendOnlyTableError: the table only takes appends.
        InvalidPredicateError, ColumnNotFoundError, InvalidOptionError: the text names no partitions.
    """
    snapshot = table.snapshot()
    request = WriteRequest(mode="overwrite", schema=snapshot.schema, replace_where=where, operation=TRUNCATE, engine=engine)
    plan = plan_write(table, request)
    assert plan is not None
    return plan.commit([])


def _remapped(snapshot: Snapshot, protocol: Protocol, configuration: Mapping[str, str]) -> Metadata:
    """The metadata with other properties. Where column mapping begins, columns keep the names that their files have."""
    before, after = snapshot.column_mapping_mode, mapping_mode(protocol, configuration)
    metadata = replace(snapshot.metadata, configuration=dict(configuration))
    if before == after:
        return metadata
    if (before, after) != ("none", "name"):
        detail = f"the table's files were written for {before}"
        raise InvalidPropertyError(property=MODE, table=snapshot.url, value=configuration.get(MODE, "none"), detail=detail)
    used = int(configuration.get(MAX_COLUMN_ID, 0))
    schema, highest = assign_mapping(without_mapping(snapshot.schema), after, lambda field: field.name, used)
    return replace(metadata, schema_string=schema.to_json(), configuration={**configuration, MAX_COLUMN_ID: str(highest)})


def _commit(
    snapshot: Snapshot, protocol: Protocol, metadata: Metadata, operation: str, parameters: Mapping[str, object], engine: str | None
) -> int:
    check_writable(protocol, metadata, table=snapshot.url)
    changed: list[Action] = [*([protocol] if protocol != snapshot.protocol else []), *([metadata] if metadata != snapshot.metadata else [])]
    if not changed:
        return snapshot.version
    transaction = Transaction(log=snapshot.log, base=snapshot, actions=changed, operation=operation, parameters=parameters, engine=engine)
    return transaction.commit()
