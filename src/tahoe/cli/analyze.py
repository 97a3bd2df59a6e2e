"""`tahoe analyze`."""

from __future__ import annotations

from dataclasses import asdict

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.optimize import Where
from tahoe.cli.output import fact_grid, open_console, print_json, printable


def analyze(path: Location, where: Where = None, as_json: AsJson = False, option: Options = None) -> None:
    """Compute the statistics of files that are missing, or that deletion vectors have made wide."""
    with errors_as_messages():
        table = open_table(path, option)
        report = table.compute_statistics(where)
    if as_json:
        print_json({"table": table.url, **asdict(report)})
        return
    grid = fact_grid()
    facts = {
        "files considered": f"{report.files_considered:,}",
        "files with missing or wide statistics": f"{report.files_examined:,}",
        "files with new statistics": f"{report.files_updated:,}",
        "version": "none: nothing to do" if report.version is None else str(report.version),
    }
    if report.files_dropped:
        facts["changed by other writers"] = f"{report.files_dropped:,}"
    for name, value in facts.items():
        grid.add_row(name, value)
    for name, reason in report.unread.items():
        grid.add_row("not read", printable(f"{name}: {reason}"))
    open_console().print(grid)
