"""Which clauses a MERGE may have, whoever runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tahoe.errors import InvalidMergeError, MissingWhenError

_GROUPS = ("WHEN MATCHED", "WHEN NOT MATCHED", "WHEN NOT MATCHED BY SOURCE")
_ACTIONS = {"update": "UPDATE SET", "insert": "INSERT", "delete": "DELETE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A clause without its conditions and values. `takes_all`: UPDATE SET * or INSERT *."""

    kind: str
    is_conditional: bool
    takes_all: bool


def check_clauses(
    matched: Sequence[object | None],
    not_matched: Sequence[object | None],
    not_matched_by_source: Sequence[object | None],
    *,
    table: str,
) -> None:
    """Refuse a MERGE without clauses, or with a clause that can never apply.

    Args:
        matched, not_matched, not_matched_by_source: the conditions of the clauses, in their order; None for a clause
            without one.

    Raises:
        InvalidMergeError
    """
    if not (matched or not_matched or not_matched_by_source):
        raise MissingWhenError(table=table)
    for name, conditions in zip(_GROUPS, (matched, not_matched, not_matched_by_source), strict=True):
        if any(condition is None for condition in conditions[:-1]):
            raise InvalidMergeError(table=table, detail=f"only the last {name} clause may omit its condition")


def outlined(groups: Sequence[Sequence[Outline]]) -> Iterator[str]:
    """Clauses as SQL with … for conditions and values: `WHEN MATCHED AND … THEN UPDATE SET *`.

    Args:
        groups: the clauses for matched rows, for rows of the source, and for rows of the target that no row matches.
    """
    for name, clauses in zip(_GROUPS, groups, strict=True):
        for clause in clauses:
            values = "" if clause.kind == "delete" else " *" if clause.takes_all else " …"
            yield f"{name}{' AND …' if clause.is_conditional else ''} THEN {_ACTIONS[clause.kind]}{values}"
