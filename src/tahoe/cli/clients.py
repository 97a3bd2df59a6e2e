"""`tahoe clients`."""

from __future__ import annotations

from typing import Annotated

import typer

import tahoe
from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_json, print_table, printable
from tahoe.errors.root import nearest
from tahoe.protocol.clients import CLIENTS, CLIENTS_BY_NAME, Client
from tahoe.protocol.names import quoted
from tahoe.storage.locations import LOCAL_SCHEME, local_path

For = Annotated[str | None, typer.Option("--for", metavar="CLIENT", help=f"Only this one of {', '.join(CLIENTS_BY_NAME)}.")]
Apply = Annotated[bool, typer.Option("--apply", help="Drop the features that keep the client of --for from reading the table.")]


def clients(path: Location, for_: For = None, apply: Apply = False, as_json: AsJson = False, option: Options = None) -> None:
    """Tell which other programs can read and write a table, and which features to drop for those that cannot.

    With --for and --apply, drop them. Then the newest version can be read; earlier ones stay for those who know the feature, and protecting
    them is a feature of writers (checkpointProtection). Column mapping and type widening need Spark: run the statement that is printed.
    """
    if apply and for_ is None:
        raise typer.BadParameter("it needs the client: --for CLIENT", param_hint="--apply")
    chosen = CLIENTS if for_ is None else (_client(for_),)
    with errors_as_messages():
        table = open_table(path, option)
        dropped = _drop(table, chosen[0]) if apply else []
        snapshot = table.snapshot()
    found = [(client, *client.blocked(snapshot.protocol)) for client in chosen]
    if as_json:
        names = ("name", "label", "source", "blocks_reading", "blocks_writing")
        answers = [dict(zip(names, (client.name, client.label, client.source, *blocks), strict=True)) for client, *blocks in found]
        print_json([{**answer, "dropped": dropped} for answer in answers] if apply else answers)
        return
    rows = [(client.name, client.label, _can(read, client), _can([*read, *write], client)) for client, read, write in found]
    print_table(["client", "what", "reads it", "writes it"], rows)
    if dropped:
        open_console().print(f"dropped: [bold]{printable(', '.join(dropped))}[/]; earlier versions still have it")
    location = local_path(snapshot.url) if snapshot.url.startswith(f"{LOCAL_SCHEME}:") else snapshot.url
    for feature in sorted({feature for _, read, _ in found for feature in read}):
        statement = f"ALTER TABLE delta.{quoted(location)} DROP FEATURE {feature}"
        open_console().print(f"to read it: [bold]{printable(statement)}[/]")


def _client(name: str) -> Client:
    if name not in CLIENTS_BY_NAME:
        near = nearest(name, CLIENTS_BY_NAME)
        meant = "" if near is None else f". Did you mean {near}?"
        raise typer.BadParameter(f"expected one of {', '.join(CLIENTS_BY_NAME)}, found {name!r}{meant}", param_hint="--for")
    return CLIENTS_BY_NAME[name]


def _drop(table: tahoe.Table, client: Client) -> list[str]:
    """Drop the features that keep a client from reading a table. Returns their names."""
    features, _ = client.blocked(table.protocol)
    for feature in features:
        table.drop_feature(feature)
    return features


def _can(blocks: list[str], client: Client) -> str:
    told = (f"{feature} (wrong values)" if feature in client.misreads else feature for feature in blocks)
    return f"no: {', '.join(told)}" if blocks else "yes"
