"""`tahoe tag`, `tahoe untag` and `tahoe tags`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tahoe.cli.app import AsJson, Location, Options, errors_as_messages, open_table
from tahoe.cli.output import open_console, print_facts, print_json, print_table, printable
from tahoe.protocol.log.tags import Tag
from tahoe.protocol.types.value_texts import moment

Name = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, '_', '-' and '.'; not only digits.")]
Version = Annotated[
    str | None,
    typer.Option("--version", help="The version that gets the name, or another tag of it; default: the newest."),
]
Timestamp = Annotated[
    str | None, typer.Option("--timestamp", metavar="TIME", help="Tag the newest version at that time.")
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires", metavar="TIME", help="When the tag expires: from then on it protects nothing. Default: never."
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Move the tag if the name exists.")]
NoCheck = Annotated[
    bool, typer.Option("--no-retention-check", help="Allow a version that VACUUM or log cleanup may be deleting.")
]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do nothing if the tag does not exist.")]


def tag(
    path: Location,
    name: Name,
    version: Version = None,
    timestamp: Timestamp = None,
    expires: Expires = None,
    replace: Replace = False,
    no_retention_check: NoCheck = False,
    as_json: AsJson = False,
    option: Options = None,
) -> None:
    """Give a version a name. VACUUM and log cleanup of tahoe then keep what it needs; those of other writers do not."""
    with errors_as_messages():
        report = open_table(path, option).tag(
            name, version, timestamp, expires=expires, replace=replace, retention_check=not no_retention_check
        )
    if as_json:
        print_json({**asdict(report), "tag": _tag_json(report.tag)})
        return
    facts = {"tagged version": str(report.tag.version), "version": str(report.version)}
    if report.tag.expires is not None:
        facts["expires"] = moment(report.tag.expires)
    if report.added_features:
        facts["new writer feature"] = (
            f"{', '.join(report.added_features)}: writers without it can no longer write to the table"
        )
    print_facts(facts)


def untag(
    path: Location, name: Name, if_exists: IfExists = False, as_json: AsJson = False, option: Options = None
) -> None:
    """Drop a tag. Its version stays until log cleanup and VACUUM delete it like any other."""
    with errors_as_messages():
        version = open_table(path, option).untag(name, if_exists=if_exists)
    if as_json:
        print_json({"version": version})
        return
    print_facts({"version": "none: there is no such tag" if version is None else str(version)})


def tags(path: Location, as_json: AsJson = False, option: Options = None) -> None:
    """List the tags, oldest version first."""
    with errors_as_messages():
        found = open_table(path, option).tags()
    if as_json:
        print_json([_tag_json(tag) for tag in found])
        return
    now = datetime.now(UTC)
    rows = [(tag.name, tag.version, moment(tag.created), _expires(tag, now)) for tag in found]
    if rows:
        print_table(["tag", "version", "created", "expires"], rows, right=["version"])
    else:
        open_console().print(f"{printable(path)} has no tags")


def _expires(tag: Tag, now: datetime) -> str:
    if tag.expires is None:
        return ""
    return moment(tag.expires) + (" (expired)" if tag.expires <= now else "")


def _tag_json(tag: Tag) -> dict[str, Any]:
    return {"name": tag.name, "version": tag.version, "created": tag.created, "expires": tag.expires}
