"""Endpoints of transactions over several tables, which Unity Catalog's interface does not have: all tables as they are
at one moment, and ratifying the staged commits of several of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tahoe.catalog.grants import MODIFY, SELECT, Securable
from tahoe.catalog.server.calls import Call, integer, records
from tahoe.catalog.server.commits import (
    Asked,
    are_ratified,
    asked_of,
    definition_after,
    managed_table,
    proposed_commit,
    ratified_now,
)
from tahoe.catalog.server.infos import Json
from tahoe.catalog.server.refusals import conflict, invalid
from tahoe.catalog.server.securables import schema_of, whole_catalog
from tahoe.catalog.tables_of_database import IS_TABLE, SCHEMAS, TABLES

# So many tables and commits are checked while the caller waits: each commit is a file to read.
TABLES_MAX = 100
COMMITS_MAX = 1000

# One statement, which sees one moment. There may be very many tables: their rows are not made objects of.
_TOLD = ("id", "kind", "url", "comment", "latest_version")
_MOMENT = (
    sa.select(
        SCHEMAS.c.id,
        SCHEMAS.c.name,
        SCHEMAS.c.owner,
        TABLES.c.name,
        TABLES.c.owner,
        *(TABLES.c[name] for name in _TOLD),
    )
    .join(TABLES)
    .where(IS_TABLE)
    .order_by(SCHEMAS.c.name, TABLES.c.name)
)


def tables_of_moment(call: Call) -> Json:
    """All tables that the caller sees, with their latest versions."""
    with call.service.begin() as connection:
        found = connection.execute(_MOMENT).all()
    schemas: dict[str, Securable] = {}
    tables = []
    for schema_id, schema, schema_owner, name, owner, *told in found:
        if schema_id not in schemas:
            row = {"id": schema_id, "name": schema, "owner": schema_owner}
            schemas[schema_id] = schema_of(row, whole_catalog(call)).securable
        above = schemas[schema_id]
        if call.rights.sees(Securable(kind="table", id=told[0], name=name, owner=owner, above=above)):
            tables.append({"name": f"{schema}.{name}", **dict(zip(_TOLD, told, strict=True))})
    return {"tables": tables}


def post_transaction(call: Call) -> Json:
    """Ratify the staged commits of several tables, or none. A table without commits must still have the version that
    is told. The call may be repeated if its answer was lost: what is ratified already is ratified.
    """
    asked = _asked(call)
    if _is_done(asked):
        return {}
    for each in asked:
        if each.base != each.state.latest:
            raise _behind(each)
    after = [definition_after(call, each) for each in asked if each.proposed]
    behind = call.service.ratifier.ratify([each.change for each in asked])
    if behind is None:
        for each, known in zip((each for each in asked if each.proposed), after, strict=True):
            ratified_now(call, each, known)
    elif not _is_done(asked):
        raise _behind(next(each for each in asked if each.found.row["id"] == behind))
    return {}


def _asked(call: Call) -> list[Asked]:
    given = [(each, records(each, "commits")) for each in records(call.body, "tables")]
    if not 0 < len(given) <= TABLES_MAX or sum(len(commits) for _, commits in given) > COMMITS_MAX:
        raise invalid(f"A transaction has 1 to {TABLES_MAX} tables, and at most {COMMITS_MAX} commits.")
    with call.service.begin() as connection:
        asked = [_asked_of(connection, call, each, commits) for each, commits in given]
    if len({each.found.row["id"] for each in asked}) < len(asked):
        raise invalid("A table is in a transaction once.")
    return asked


def _asked_of(
    connection: sa.Connection, call: Call, given: Mapping[str, Any], commits: Sequence[Mapping[str, Any]]
) -> Asked:
    base, proposed = integer(given, "version"), [proposed_commit(commit) for commit in commits]
    found, state = managed_table(connection, call, given, MODIFY if proposed else SELECT)
    return asked_of(call, found, state, base, proposed)


def _is_done(asked: Sequence[Asked]) -> bool:
    """Whether this was asked before, and done: then it does not count what has changed since."""
    changed = [each for each in asked if each.proposed]
    return bool(changed) and all(are_ratified(each) for each in changed)


def _behind(asked: Asked) -> Exception:
    message = f"{asked.found.name} is not at version {asked.base} any more."
    return conflict(message, asked.found.row["id"])
