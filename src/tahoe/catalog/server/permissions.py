"""Endpoints that tell and change what was granted."""

from __future__ import annotations

import sqlalchemy as sa

from tahoe.catalog.grants import Securable, grant, granted, revoke
from tahoe.catalog.server.calls import Call, optional_text, records, text, texts
from tahoe.catalog.server.infos import Json
from tahoe.catalog.server.refusals import unimplemented
from tahoe.catalog.server.securables import (
    catalog_named,
    relation_named,
    require_owner,
    schema_in_full,
    whole_catalog,
)


def get_permissions(call: Call) -> Json:
    """All that was granted to owners; to others, what they were granted themselves."""
    principal = optional_text(call.query, "principal")
    with call.service.begin() as connection:
        securable = _securable(connection, call)
        found = granted(connection, securable)
    told = found if call.rights.owns(securable) else {call.rights.principal: found.get(str(call.rights.principal), [])}
    return _assignments({name: given for name, given in told.items() if principal in (None, name) and given})


def change_permissions(call: Call) -> Json:
    with call.service.begin() as connection:
        securable = _securable(connection, call)
        require_owner(call.rights, securable)
        for change in records(call.body, "changes"):
            principal = text(change, "principal")
            for privilege in texts(change, "add"):
                grant(connection, principal, privilege, securable)
            for privilege in texts(change, "remove"):
                revoke(connection, principal, privilege, securable)
        return _assignments(granted(connection, securable))


def _securable(connection: sa.Connection, call: Call) -> Securable:
    kind, name = call.path["kind"], call.path["full_name"]
    match kind:
        case "metastore" if call.rights.is_admin:
            return whole_catalog(call)
        case "catalog":
            return catalog_named(call, name)
        case "schema":
            return schema_in_full(connection, call, name).securable
        case "table":
            return relation_named(connection, call, name).securable
        case _:
            raise unimplemented(f"There are no permissions on a {kind}.")


def _assignments(found: dict[str | None, list[str]] | dict[str, list[str]]) -> Json:
    return {"privilege_assignments": [{"principal": name, "privileges": given} for name, given in found.items()]}
