"""`tahoe clone`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, Location, Options, Version, errors_as_messages, key_value, open_table
from tahoe.cli.convert import Partition, partition_columns
from tahoe.cli.output import print_facts, print_json
from tahoe.table.adoption.clone import CloneReport
from tahoe.table.adoption.foreign_sources import NO_VERSION

Target = Annotated[str, typer.Argument(metavar="TARGET", help="Path or URL of the clone.")]
Timestamp = Annotated[
    str | None, typer.Option("--timestamp", metavar="TIME", help="Clone the newest version at that time.")
]
Shallow = Annotated[
    bool, typer.Option("--shallow", help="Copy no data files: the clone reads the files of the source.")
]
Replace = Annotated[
    bool,
    typer.Option("--replace", help="Replace the target if it is a table. A deep clone copies only what has changed."),
]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="Table property; may be repeated.")
]
SourceFormat = Annotated[
    str,
    typer.Option(
        "--source-format", metavar="FORMAT", help="Format of the source: delta, parquet (a folder of files) or iceberg."
    ),
]
TargetOptions = Annotated[
    list[str] | None,
    typer.Option("--target-option", metavar="KEY=VALUE", help="Storage option of the target; may be repeated."),
]


def clone(
    path: Location,
    target: Target,
    shallow: Shallow = False,
    version: Version = None,
    timestamp: Timestamp = None,
    replace: Replace = False,
    properties: Properties = None,
    source_format: SourceFormat = "delta",
    partition: Partition = None,
    as_json: AsJson = False,
    option: Options = None,
    target_option: TargetOptions = None,
) -> None:
    """Create an independent table with the rows of a table. An interrupted deep clone can be repeated, and copies the
    rest.
    """
    columns = partition_columns(partition)
    with errors_as_messages():
        report = open_table(path, option).clone(
            target,
            shallow=shallow,
            version=version,
            timestamp=timestamp,
            replace=replace,
            properties=dict(key_value(text, "--property") for text in properties or ()),
            source_format=source_format,
            partition_schema=columns,
            storage_options=dict(key_value(text, "--target-option") for text in target_option or option or ()),
        )
    if as_json:
        print_json(asdict(report))
        return
    print_facts(_facts(report))


def _facts(report: CloneReport) -> dict[str, str]:
    cloned = {} if report.source_version == NO_VERSION else {"cloned version": str(report.source_version)}
    facts = {**cloned, "files": f"{report.source_files:,} ({size_text(report.source_bytes)})"}
    if report.version is None:
        return {**facts, "version": "none: the target is the table itself"}
    return {
        **facts,
        "files copied": f"{report.copied_files:,} ({size_text(report.copied_bytes)})",
        "files removed": f"{report.removed_files:,} ({size_text(report.removed_bytes)})",
        "version": str(report.version),
    }
