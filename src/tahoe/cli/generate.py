"""`tahoe generate`."""

from __future__ import annotations

from dataclasses import asdict

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_json
from tahoe.protocol.types.names import counted


def generate(path: Location, as_json: AsJson = False, option: Options = None) -> None:
    """Write symlink manifests, which list the data files for Presto, Athena and other engines without Delta."""
    with errors_as_messages():
        table = open_table(path, option)
        report = table.generate()
    if as_json:
        print_json({"table": table.url, **asdict(report)})
    else:
        done = f"{counted(report.written, 'manifest')} written, {report.removed:,} removed"
        open_console().print(f"[bold]{done}[/]; they list the files of version {report.version}")
