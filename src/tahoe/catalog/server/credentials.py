"""Endpoints that hand out credentials for the folders of tables.

They are those of the server's configuration, for the longest prefix of a url: as they are there, or, if it has a role,
for the folder alone and an hour.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from tahoe.catalog.grants import MODIFY, SELECT
from tahoe.catalog.server.calls import Call, choice, location, text
from tahoe.catalog.server.infos import Json
from tahoe.catalog.server.refusals import Refusal, denied
from tahoe.catalog.server.roles import ROLE, session_credentials
from tahoe.catalog.server.securables import Found, require, staging_by, table_by_id
from tahoe.catalog.tables_of_database import STAGING_TABLES, TABLES
from tahoe.storage.locations import scheme_of
from tahoe.storage.schemes import LOCAL_SCHEME

# Clients ask again before this has passed, also for credentials that do not expire.
_VALID_MS = 3_600_000

TABLE_OPERATIONS = {"READ": (SELECT,), "READ_WRITE": (SELECT, MODIFY)}
_PATH_OPERATIONS = {"PATH_READ": (SELECT,), "PATH_READ_WRITE": (SELECT, MODIFY), "PATH_CREATE_TABLE": None}

# The fields of each kind of credentials, by the names that the configuration has.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "aws_temp_credentials": ("access_key_id", "secret_access_key", "session_token"),
    "azure_user_delegation_sas": ("sas_token",),
    "gcp_oauth_token": ("oauth_token",),
}


def of_table(call: Call) -> Json:
    table_id = text(call.body, "table_id")
    needed = TABLE_OPERATIONS[choice(call.body, "operation", TABLE_OPERATIONS)]
    with call.service.begin() as connection:
        staging = staging_by(connection, call, STAGING_TABLES.c.id == table_id)
        if staging is not None:
            return credentials_of(call, staging["url"], writes=True)
        found = table_by_id(connection, call, table_id)
        for privilege in needed:
            require(call.rights, privilege, found.securable)
    return credentials_of(call, found.row["url"], writes=MODIFY in needed)


def of_path(call: Call) -> Json:
    """For a table's folder, as for the table; for others only to admins."""
    url = location(call.body, "url")
    needed = _PATH_OPERATIONS[choice(call.body, "operation", _PATH_OPERATIONS)]
    if not call.rights.is_admin:
        with call.service.begin() as connection:
            if staging_by(connection, call, STAGING_TABLES.c.url == url) is None:
                tables = [] if needed is None else _tables_at(connection, call, url)
                if needed is None or not tables:
                    raise denied("the role of an admin", url)
                if not any(all(call.rights.has(each, table.securable) for each in needed) for table in tables):
                    raise denied(needed[-1], url)
    return credentials_of(call, url, writes=needed is None or MODIFY in needed)


def _tables_at(connection: sa.Connection, call: Call, url: str) -> list[Found]:
    """The tables in a folder that the caller sees. A folder may have several names."""
    found = []
    for table_id in connection.execute(sa.select(TABLES.c.id).where(TABLES.c.url == url)).scalars().all():
        with suppress(Refusal):
            found.append(table_by_id(connection, call, table_id))
    return found


def is_below(url: str, prefix: str) -> bool:
    return url == prefix or url.startswith(prefix.rstrip("/") + "/")


def credentials_of(call: Call, url: str, *, writes: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"url": url, "expiration_time": time.time_ns() // 1_000_000 + _VALID_MS}
    prefixes = [prefix for prefix in call.service.credentials if is_below(url, prefix)]
    if prefixes:
        given = call.service.credentials[max(prefixes, key=len)]
        if ROLE in given:
            given, told["expiration_time"] = session_credentials(given, url, call.rights.principal, writes=writes)
        for kind, names in _KINDS.items():
            if set(names) & given.keys():
                told[kind] = {name: given[name] for name in names if name in given}
    elif scheme_of(url) != LOCAL_SCHEME:
        raise Refusal(400, "FAILED_PRECONDITION", f"The server has no credentials for {url}.")
    return told
