"""Universal format (UniForm): the metadata of other formats that a table has beside its log, and what it needs for it.

The names and rules are the reference's: Iceberg's metadata needs an active version of Iceberg compatibility. Version 3
has metadata of Iceberg's format version 3, the others of version 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tahoe.errors import InvalidPropertyError
from tahoe.protocol.configuration.column_mapping import MODE
from tahoe.protocol.configuration.feature_conflicts import ICEBERG_COMPATS
from tahoe.protocol.configuration.features import Configuration, iceberg_compat, property_is_true
from tahoe.protocol.configuration.properties import ENABLE_ROW_TRACKING, ENABLED_FORMATS
from tahoe.protocol.log.actions import Protocol
from tahoe.protocol.types.schema import Struct

ICEBERG = "iceberg"

# The properties that decide whether Iceberg's metadata can be written.
_DECIDES = frozenset(
    {ENABLED_FORMATS.name, *(f"delta.enableIcebergCompatV{compat.number}" for compat in ICEBERG_COMPATS)}
)

# The first version of Iceberg compatibility with Iceberg's format version 3.
_V3_SINCE = 3


def has_iceberg(configuration: Configuration) -> bool:
    """Whether the table's properties ask for Iceberg's metadata. Formats of other writers say nothing here."""
    return ICEBERG in _formats(configuration)


def _formats(configuration: Configuration) -> list[str]:
    names = (name.strip().lower() for name in configuration.get(ENABLED_FORMATS.name, "").split(","))
    return [name for name in names if name]


def with_needed_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table, with those that a version of Iceberg compatibility needs and that are not set."""
    needed: dict[str, str] = {}
    for compat in ICEBERG_COMPATS:
        if property_is_true(f"delta.enableIcebergCompatV{compat.number}")(Struct(), properties):
            needed[MODE] = "name"
            needed |= {ENABLE_ROW_TRACKING.name: "true"} if compat.is_tracked else {}
    return {**needed, **properties}


def with_formats(protocol: Protocol, before: Configuration, after: Configuration, *, table: str) -> dict[str, str]:
    """Changed properties, without Iceberg's metadata if they turn Iceberg compatibility off.

    Raises:
        InvalidPropertyError: as `check_formats`, if the change decides about it.
    """
    kept = dict(after)
    if has_iceberg(after) and has_iceberg(before) and _asks_for_compat(before) and not _asks_for_compat(after):
        others = [name for name in _formats(after) if name != ICEBERG]
        kept.pop(ENABLED_FORMATS.name)
        kept |= {ENABLED_FORMATS.name: ",".join(others)} if others else {}
    if any(before.get(name) != kept.get(name) for name in _DECIDES):
        check_formats(protocol, kept, table=table)
    return kept


def _asks_for_compat(configuration: Configuration) -> bool:
    return any(
        property_is_true(f"delta.enableIcebergCompatV{compat.number}")(Struct(), configuration)
        for compat in ICEBERG_COMPATS
    )


def check_formats(protocol: Protocol, configuration: Configuration, *, table: str) -> None:
    """Refuse a configuration that asks for metadata which cannot be written.

    Raises:
        InvalidPropertyError: Iceberg's metadata without Iceberg compatibility.
    """
    if has_iceberg(configuration) and iceberg_compat(protocol, configuration) is None:
        detail = "Iceberg's metadata requires delta.enableIcebergCompatV2 = true or delta.enableIcebergCompatV3 = true"
        raise InvalidPropertyError(property=ENABLED_FORMATS.name, table=table, value=ICEBERG, detail=detail)


def format_version(protocol: Protocol, configuration: Configuration) -> Literal[2, 3]:
    """The version of Iceberg's format that the metadata of a table has."""
    return 3 if (iceberg_compat(protocol, configuration) or 0) >= _V3_SINCE else 2
