"""`tahoe clients`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

import tahoe
from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_json, print_table, printable
from tahoe.errors.root import nearest
from tahoe.protocol.configuration.clients import CLIENTS, CLIENTS_BY_NAME, Client
from tahoe.protocol.configuration.features import FEATURES_BY_NAME, supported_features
from tahoe.protocol.types.names import quoted
from tahoe.storage.locations import local_path
from tahoe.storage.schemes import LOCAL_SCHEME
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.transactions.feature_traces import is_unused

For = Annotated[
    str | None, typer.Option("--for", metavar="CLIENT", help=f"Only this one of {', '.join(CLIENTS_BY_NAME)}.")
]
Apply = Annotated[
    bool,
    typer.Option(
        "--apply",
        help="Drop the features that keep the client of --for from reading the table, and unused ones of writers.",
    ),
]


def clients(
    path: Location, for_: For = None, apply: Apply = False, as_json: AsJson = False, option: Options = None
) -> None:
    """Tell which other programs can read and write a table, and which features to drop for those that cannot.

    With --for and --apply, drop those that keep a program from reading, and those that only keep it from writing if
    nothing uses them. Then the newest version can be read. Earlier ones stay for those who know the feature; what
    protects them, checkpointProtection, may keep the program from writing. Column mapping and type widening need Spark:
    run the statement that is printed.
    """
    if apply and for_ is None:
        raise typer.BadParameter("it needs the client: --for CLIENT", param_hint="--apply")
    chosen = CLIENTS if for_ is None else (_client(for_),)
    with errors_as_messages():
        table = open_table(path, option)
        dropped = _drop(table, chosen[0]) if apply else []
        snapshot = table.snapshot()
    answers = [(client, *client.blocked(snapshot.protocol)) for client in chosen]
    if as_json:
        names = ("name", "label", "source", "blocks_reading", "blocks_writing")
        objects = [
            dict(zip(names, (client.name, client.label, client.source, *blocks), strict=True))
            for client, *blocks in answers
        ]
        print_json([{**each, "dropped": dropped} for each in objects] if apply else objects)
        return
    rows = [
        (client.name, client.label, _can(read, client), _can([*read, *write], client))
        for client, read, write in answers
    ]
    print_table(["client", "what", "reads it", "writes it"], rows)
    if dropped:
        open_console().print(f"dropped: [bold]{printable(', '.join(dropped))}[/]; earlier versions still have it")
    elif apply:
        open_console().print("nothing dropped: no feature keeps it from reading, and no unused one from writing")
    _print_statements(snapshot, "to read it", {feature for _, read, _ in answers for feature in read})
    if for_ is not None:
        _print_statements(snapshot, "to write it", {feature for _, _, write in answers for feature in write})


def _print_statements(snapshot: Snapshot, purpose: str, features: Iterable[str]) -> None:
    """The statements that drop features; each refuses, and says what to do first, while columns, properties or files
    use its feature.
    """
    location = local_path(snapshot.url) if snapshot.url.startswith(f"{LOCAL_SCHEME}:") else snapshot.url
    for feature in sorted(features):
        ending = " TRUNCATE HISTORY" if feature == "checkpointProtection" else ""
        statement = f"ALTER TABLE delta.{quoted(location)} DROP FEATURE {feature}{ending}"
        open_console().print(f"{purpose}: [bold]{printable(statement)}[/]")


def _client(name: str) -> Client:
    if name not in CLIENTS_BY_NAME:
        near = nearest(name, CLIENTS_BY_NAME)
        meant = "" if near is None else f". Did you mean {near}?"
        raise typer.BadParameter(
            f"expected one of {', '.join(CLIENTS_BY_NAME)}, found {name!r}{meant}", param_hint="--for"
        )
    return CLIENTS_BY_NAME[name]


def _drop(table: tahoe.Table, client: Client) -> list[str]:
    """Drop the features that keep a client from reading a table, and those that keep it from writing and that nothing
    uses.

    Returns:
        their names.
    """
    dropped, _ = client.blocked(table.protocol)
    for feature in dropped:
        table.drop_feature(feature)
    while unused := _unused(table.snapshot(), client):  # one by one: others may depend on it
        table.drop_feature(unused)
        dropped.append(unused)
    return dropped


def _unused(snapshot: Snapshot, client: Client) -> str | None:
    """A feature that only keeps a client from writing, that nothing uses, and that no other feature depends on."""
    features = supported_features(snapshot.protocol)
    needed = {name for other in features if other in FEATURES_BY_NAME for name in FEATURES_BY_NAME[other].requires}
    _, blocks = client.blocked(snapshot.protocol)
    return next((name for name in blocks if name not in needed and is_unused(FEATURES_BY_NAME[name], snapshot)), None)


def _can(blocks: list[str], client: Client) -> str:
    told = (f"{feature} (wrong values)" if feature in client.misreads else feature for feature in blocks)
    return f"no: {', '.join(told)}" if blocks else "yes"
