"""Which clauses a MERGE may have, whoever runs it."""

from __future__ import annotations

from collections.abc import Sequence

from tahoe.errors import InvalidMergeError


def check_clauses(
    matched: Sequence[object | None], not_matched: Sequence[object | None], not_matched_by_source: Sequence[object | None], *, table: str
) -> None:
    """Refuse a MERGE without clauses, or with a clause that can never apply.

    Args:
        matched, not_matched, not_matched_by_source: the conditions of the clauses, in their order; None for a clause without one.

    Raises:
        InvalidMergeError
    """
    if not (matched or not_matched or not_matched_by_source):
        raise InvalidMergeError(table=table, detail="it has no WHEN clause")
    for name, conditions in (
        ("WHEN MATCHED", matched),
        ("WHEN NOT MATCHED", not_matched),
        ("WHEN NOT MATCHED BY SOURCE", not_matched_by_source),
    ):
        if any(condition is None for condition in conditions[:-1]):
            raise InvalidMergeError(table=table, detail=f"only the last {name} clause may omit its condition")
