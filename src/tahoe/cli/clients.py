"""`tahoe clients`."""

from __future__ import annotations

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_json, print_table, printable
from tahoe.protocol.clients import CLIENTS, Client
from tahoe.protocol.names import quoted
from tahoe.storage.locations import LOCAL_SCHEME, local_path


def clients(path: Location, as_json: AsJson = False, option: Options = None) -> None:
    """Tell which other programs can read and write a table, and which features to drop for those that cannot.

    The statements are for Spark. History that uses a feature is truncated: run them again after a day, as the error says.
    """
    with errors_as_messages():
        snapshot = open_table(path, option).snapshot()
    found = [(client, *client.blocked(snapshot.protocol)) for client in CLIENTS]
    if as_json:
        names = ("name", "label", "blocks_reading", "blocks_writing")
        print_json([dict(zip(names, (client.name, client.label, *blocks), strict=True)) for client, *blocks in found])
        return
    rows = [(client.name, client.label, _can(read, client), _can([*read, *write], client)) for client, read, write in found]
    print_table(["client", "what", "reads it", "writes it"], rows)
    location = local_path(snapshot.url) if snapshot.url.startswith(f"{LOCAL_SCHEME}:") else snapshot.url
    for feature in sorted({feature for _, read, _ in found for feature in read}):
        statement = f"ALTER TABLE delta.{quoted(location)} DROP FEATURE {feature} TRUNCATE HISTORY"
        open_console().print(f"for all to read it: [bold]{printable(statement)}[/]")


def _can(blocks: list[str], client: Client) -> str:
    told = (f"{feature} (wrong values)" if feature in client.misreads else feature for feature in blocks)
    return f"no: {', '.join(told)}" if blocks else "yes"
