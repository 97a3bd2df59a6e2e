"""`tahoe catalog`: makes, serves and shows a catalog of tables, and says who may use it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tahoe.cli.app import AsJson, Options, errors_as_messages, options_of
from tahoe.cli.output import open_console, print_facts, print_json, print_table
from tahoe.errors import CatalogServerError, PackageMissingError

if TYPE_CHECKING:
    from tahoe.catalog import Catalog

catalog = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Make, serve and show a catalog of tables, and say who may use it.",
)

Database = Annotated[
    str,
    typer.Argument(metavar="DATABASE", help="Its url: sqlite:///lake.db, postgresql+psycopg://user@host/lake"),
]
Root = Annotated[
    str | None, typer.Option("--root", metavar="PATH", help="The folder in which new managed tables get theirs.")
]
Principal = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Who: any name, such as ana@example.com.")]
Privilege = Annotated[
    str,
    typer.Argument(
        metavar="PRIVILEGE",
        help="USE, SELECT, MODIFY, CREATE, OWNER or ADMIN; or one of Unity's, such as 'USE SCHEMA'.",
    ),
]
On = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="A schema or table, such as shop.orders; default: the catalog.")
]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="Its name, such as shop.orders.")]


@catalog.command()
def init(database: Database) -> None:
    """Make the tables of the database, or bring them to the newest schema. Every other command does so, too."""
    with errors_as_messages():
        made = _open(database)
    print_facts({"catalog": made.url})


@catalog.command()
def serve(
    database: Database,
    name: Annotated[str, typer.Option("--name", help="The name of the catalog, as clients know it.")] = "lake",
    root: Root = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Let everyone on this machine do everything, without a token.")
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option("--credentials", metavar="FILE", help="JSON: the credentials to hand out, by prefix of a url."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", min=0.1, help="Calls a second of each token; default: no limit."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="A certificate, for TLS.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The key of the certificate.")] = None,
    drain: Annotated[
        float, typer.Option("--drain", metavar="SECONDS", min=0, help="How long calls may take once it shuts down.")
    ] = 30.0,
    option: Options = None,
) -> None:
    """Serve a catalog to clients of Unity Catalog's open API, until SIGINT or SIGTERM.

    Each call is recorded in a line on standard error.
    """
    with errors_as_messages():
        try:
            from tahoe.catalog.server.run import Address, check_address, run  # noqa: PLC0415 - an extra
            from tahoe.catalog.server.service import Service  # noqa: PLC0415
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            raise PackageMissingError(table=database, what="a catalog's server", package=package) from error
        address = Address(
            host=host,
            port=port,
            certificate=None if certificate is None else str(certificate),
            key=None if key is None else str(key),
        )
        check_address(address, needs_token=not no_auth)
        service = Service(
            database,
            name=name.lower(),
            root=root,
            storage_options=options_of(option),
            credentials=_credentials(credentials),
            needs_token=not no_auth,
            calls_per_second=rate,
        )
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
        run(service, address, drain_seconds=drain, when_ready=lambda url: print(f"ready: {url}", flush=True))


@catalog.command()
def token(
    database: Database,
    principal: Principal,
    days: Annotated[float | None, typer.Option("--days", min=0, help="When it expires; default: never.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Make all tokens of the principal invalid instead.")] = False,
) -> None:
    """Make a token by which the server knows a principal, and print it. It is not kept: it cannot be shown again."""
    with errors_as_messages(), _begin(database) as connection:
        from tahoe.catalog.grants import drop_tokens, new_token  # noqa: PLC0415 - an extra

        made = None if drop else new_token(connection, principal, days=days)
        dropped = drop_tokens(connection, principal) if drop else 0
    if made is None:
        print_facts({"dropped": str(dropped)})
    else:
        print(made)


@catalog.command()
def grant(
    database: Database,
    principal: Principal,
    privilege: Privilege,
    name: On = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take it back instead.")] = False,
) -> None:
    """Grant a privilege on the catalog, a schema or a table. On a schema, it holds for all its tables."""
    with errors_as_messages(), _begin(database) as connection:
        from tahoe.catalog import grants  # noqa: PLC0415 - an extra

        securable = grants.securable_named(connection, name)
        if privilege.upper() == grants.OWNER and not revoke:
            grants.give(connection, principal, securable)
        else:
            change = grants.revoke if revoke else grants.grant
            change(connection, principal, grants.privilege_named(privilege, securable), securable)
        found = grants.granted(connection, securable)
    rows = [(who, ", ".join(given)) for who, given in found.items()]
    print_table(["principal", f"has on {securable.name}"], rows)


@catalog.command()
def tables(
    database: Database,
    schema: Annotated[str | None, typer.Option("--schema", help="Only the tables and views of a schema.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the tables and views, by name. A view has a name and its kind alone."""
    with errors_as_messages():
        opened = _open(database)
        found = [asdict(entry) for entry in opened.tables(schema)]
        found += [{"name": name, "kind": "view"} for name in opened.views(schema)]
    found.sort(key=lambda each: str(each["name"]))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each["name"],
            each["kind"],
            max(each["latest_version"], 0) if each["kind"] == "managed" else "",
            each.get("url"),
        )
        for each in found
    ]
    if rows:
        print_table(["name", "kind", "version", "location"], rows, right=["version"])
    else:
        open_console().print("the catalog has no tables and no views")


@catalog.command()
def publish(database: Database, table: Table, option: Options = None) -> None:
    """Copy a table's ratified commits into its log now. Every commit is published, but later."""
    with errors_as_messages():
        published = _open(database, options_of(option)).publish(table)
    print_facts({"published": str(published)})


@catalog.command()
def release(database: Database, table: Table, option: Options = None) -> None:
    """Give a table back to its path: clients write to it without the catalog from then on. Its name stays."""
    with errors_as_messages():
        released = _open(database, options_of(option)).release_table(table)
    print_facts({"released": released.url})


def _open(database: str, storage_options: dict[str, str] | None = None) -> Catalog:
    from tahoe.catalog import Catalog  # noqa: PLC0415 - an extra

    return Catalog(database, storage_options=storage_options)


@contextmanager
def _begin(database: str) -> Iterator[Any]:
    """A transaction of a catalog's database, whose tables have the newest schema."""
    opened = _open(database)
    from tahoe.catalog.database import transaction  # noqa: PLC0415 - an extra

    with transaction(opened.engine) as connection:
        yield connection


def _credentials(file: Path | None) -> dict[str, dict[str, str]]:
    if file is None:
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _wrong_credentials(file, str(error)) from error
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise _wrong_credentials(file, "it is not an object of objects")
    return found


def _wrong_credentials(file: Path, detail: str) -> CatalogServerError:
    remedy = 'Give for each prefix of a url its credentials, or a role: {"s3://bucket": {"access_key_id": ...}}.'
    return CatalogServerError(detail=f"{file} has no credentials: {detail}", remedy=remedy)
