"""What a catalog tells of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table as the catalog has it.

    Attributes:
        name: schema and table, such as `shop.orders`.
        kind: `managed` or `external`: only a managed table has its commits ratified by the catalog.
        latest_version: the newest version of a managed table; -1 before the first.
        unpublished: how many commits the catalog keeps, as they may not be in the log yet.
    """

    id: str
    name: str
    url: str
    kind: str
    comment: str | None
    latest_version: int
    unpublished: int
