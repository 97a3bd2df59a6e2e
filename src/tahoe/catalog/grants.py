"""Who may do what in a catalog: principals, their tokens, and what they were granted on the catalog, its schemas and
tables.

A privilege on a catalog or schema holds for all that is in it. Owners may do everything with what they own.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from tahoe.catalog.database import shown
from tahoe.catalog.tables_of_database import GRANTS, NAME_LENGTH_MAX, PRINCIPALS, SCHEMAS, TABLES, TOKENS
from tahoe.errors import CatalogTableNotFoundError, PrincipalNotFoundError, PrivilegeError, SchemaNotFoundError

# Whoever has it on the catalog may do everything.
ADMIN = "ADMIN"

# Not a privilege, but a schema or table has an owner.
OWNER = "OWNER"

USE_CATALOG, USE_SCHEMA = "USE CATALOG", "USE SCHEMA"
CREATE_SCHEMA, CREATE_TABLE = "CREATE SCHEMA", "CREATE TABLE"
SELECT, MODIFY = "SELECT", "MODIFY"

# Where each of them can be granted.
PRIVILEGES: Mapping[str, frozenset[str]] = {
    ADMIN: frozenset({"catalog"}),
    USE_CATALOG: frozenset({"catalog"}),
    CREATE_SCHEMA: frozenset({"catalog"}),
    USE_SCHEMA: frozenset({"catalog", "schema"}),
    CREATE_TABLE: frozenset({"catalog", "schema"}),
    SELECT: frozenset({"catalog", "schema", "table"}),
    MODIFY: frozenset({"catalog", "schema", "table"}),
}

_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Securable:
    """What a privilege is granted on.

    Attributes:
        kind: `catalog`, `schema` or `table`.
        id: empty for the catalog.
        above: what it is in.
    """

    kind: str
    id: str
    name: str
    owner: str | None = None
    above: Securable | None = None

    def path(self) -> Iterator[Securable]:
        """It, and what it is in."""
        here: Securable | None = self
        while here is not None:
            yield here
            here = here.above


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a principal was granted. None as the principal is a caller who need not be known, and may do everything."""

    principal: str | None
    granted: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def is_admin(self) -> bool:
        return self.principal is None or ADMIN in self.granted.get("", ())

    def owns(self, securable: Securable) -> bool:
        return self.is_admin or any(each.owner == self.principal for each in securable.path())

    def has(self, privilege: str, securable: Securable) -> bool:
        return self.owns(securable) or any(privilege in self.granted.get(each.id, ()) for each in securable.path())

    def sees(self, securable: Securable) -> bool:
        """Whether its existence is told."""
        if securable.above is not None and not self.sees(securable.above):
            return False
        needed = {"catalog": (USE_CATALOG,), "schema": (USE_SCHEMA,), "table": (SELECT, MODIFY)}
        return any(self.has(privilege, securable) for privilege in needed[securable.kind])


def rights_of(connection: sa.Connection, principal: str) -> Rights:
    query = sa.select(GRANTS.c.securable, GRANTS.c.privilege).where(GRANTS.c.principal == principal)
    found: dict[str, set[str]] = defaultdict(set)
    for securable, privilege in connection.execute(query):
        found[securable].add(privilege)
    return Rights(principal=principal, granted={each: frozenset(given) for each, given in found.items()})


# --- principals and tokens


def add_principal(connection: sa.Connection, name: str) -> None:
    """Make a principal, if there is none of that name."""
    if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise PrincipalNotFoundError(name=name)
    if not has_principal(connection, name):
        connection.execute(sa.insert(PRINCIPALS).values(name=name, created_ms=_now_ms()))


def has_principal(connection: sa.Connection, name: str) -> bool:
    return connection.execute(sa.select(PRINCIPALS.c.name).where(PRINCIPALS.c.name == name)).first() is not None


def new_token(connection: sa.Connection, principal: str, *, days: float | None = None) -> str:
    """A token by which a principal is known. The database keeps only its hash."""
    add_principal(connection, principal)
    token, now_ms = f"tahoe_{secrets.token_urlsafe(_TOKEN_BYTES)}", _now_ms()
    expires_ms = None if days is None else now_ms + int(days * 86_400_000)
    connection.execute(
        sa.insert(TOKENS).values(sha256=_hash(token), principal=principal, created_ms=now_ms, expires_ms=expires_ms)
    )
    return token


def drop_tokens(connection: sa.Connection, principal: str) -> int:
    """Make all tokens of a principal invalid; returns how many there were."""
    return connection.execute(sa.delete(TOKENS).where(TOKENS.c.principal == principal)).rowcount


def principal_of(connection: sa.Connection, token: str) -> str | None:
    """Whom a token stands for; None if it is unknown or has expired."""
    row = connection.execute(
        sa.select(TOKENS.c.principal, TOKENS.c.expires_ms).where(TOKENS.c.sha256 == _hash(token))
    ).first()
    if row is None or (row.expires_ms is not None and row.expires_ms <= _now_ms()):
        return None
    principal: str = row.principal
    return principal


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# --- grants

# Short names of privileges, by what they are granted on.
_SHORT = {
    ("USE", "catalog"): USE_CATALOG,
    ("USE", "schema"): USE_SCHEMA,
    ("CREATE", "catalog"): CREATE_SCHEMA,
    ("CREATE", "schema"): CREATE_TABLE,
}


def privilege_named(name: str, securable: Securable) -> str:
    """A privilege by its name or its short name, in any case."""
    return _SHORT.get((name.upper(), securable.kind), name.upper())


def securable_named(connection: sa.Connection, name: str | None) -> Securable:
    """The catalog if no name is given, a schema, or a table such as `shop.orders`.

    Raises:
        SchemaNotFoundError, CatalogTableNotFoundError: there is none of that name.
    """
    url = shown(connection.engine.url)
    whole = Securable(kind="catalog", id="", name="the catalog")
    if name is None:
        return whole
    schema_name, _, table_name = name.lower().partition(".")
    schema = connection.execute(sa.select(SCHEMAS).where(SCHEMAS.c.name == schema_name)).first()
    if schema is None:
        known = ", ".join(connection.execute(sa.select(SCHEMAS.c.name)).scalars()) or "none"
        raise SchemaNotFoundError(url=url, name=schema_name, known=known)
    above = Securable(kind="schema", id=schema.id, name=schema.name, owner=schema.owner, above=whole)
    if not table_name:
        return above
    is_it = (TABLES.c.schema_id == schema.id) & (TABLES.c.name == table_name)
    table = connection.execute(sa.select(TABLES).where(is_it)).first()
    if table is None:
        raise CatalogTableNotFoundError(url=url, name=name)
    return Securable(kind="table", id=table.id, name=name, owner=table.owner, above=above)


def give(connection: sa.Connection, principal: str, securable: Securable) -> None:
    """Make a principal the owner of a schema or table.

    Raises:
        PrincipalNotFoundError: there is no such principal.
        PrivilegeError: the catalog has no owner.
    """
    if not has_principal(connection, principal):
        raise PrincipalNotFoundError(name=principal)
    if securable.kind == "catalog":
        raise _no_privilege(OWNER, securable)
    table = SCHEMAS if securable.kind == "schema" else TABLES
    connection.execute(sa.update(table).where(table.c.id == securable.id).values(owner=principal))


def grant(connection: sa.Connection, principal: str, privilege: str, securable: Securable) -> None:
    """Grant a privilege; nothing changes if the principal has it.

    Raises:
        PrincipalNotFoundError: there is no such principal.
        PrivilegeError: there is no such privilege of what it is granted on.
    """
    if not has_principal(connection, principal):
        raise PrincipalNotFoundError(name=principal)
    if securable.kind not in PRIVILEGES.get(privilege, ()):
        raise _no_privilege(privilege, securable)
    if privilege not in granted(connection, securable).get(principal, ()):
        row = {"principal": principal, "securable": securable.id, "privilege": privilege}
        connection.execute(sa.insert(GRANTS).values(row))


def _no_privilege(privilege: str, securable: Securable) -> PrivilegeError:
    fitting = ", ".join(name for name, kinds in PRIVILEGES.items() if securable.kind in kinds)
    return PrivilegeError(privilege=privilege, kind=securable.kind, fitting=fitting)


def revoke(connection: sa.Connection, principal: str, privilege: str, securable: Securable) -> None:
    """Take a privilege back; nothing changes if the principal does not have it."""
    of_principal = (GRANTS.c.principal == principal) & (GRANTS.c.privilege == privilege)
    connection.execute(sa.delete(GRANTS).where(of_principal & (GRANTS.c.securable == securable.id)))


def granted(connection: sa.Connection, securable: Securable) -> dict[str, list[str]]:
    """What was granted on the catalog, a schema or a table itself, by principal."""
    query = sa.select(GRANTS.c.principal, GRANTS.c.privilege).where(GRANTS.c.securable == securable.id)
    found: dict[str, list[str]] = {}
    for principal, privilege in connection.execute(query.order_by(GRANTS.c.principal, GRANTS.c.privilege)):
        found.setdefault(principal, []).append(privilege)
    return found


def forget(connection: sa.Connection, securable: str) -> None:
    """Drop all grants on a schema or table that is gone."""
    connection.execute(sa.delete(GRANTS).where(GRANTS.c.securable == securable))
