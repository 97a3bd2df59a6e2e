"""What a catalog tells of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table as the catalog has it.

    Attributes:
        name: schema and table, such as `shop.orders`.
        latest_version: the newest version; -1 before the first.
        unpublished: how many commits the catalog keeps, as they may not be in the log yet.
    """

    id: str
    name: str
    url: str
    comment: str | None
    latest_version: int
    unpublished: int
