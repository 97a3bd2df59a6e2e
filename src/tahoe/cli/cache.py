"""`tahoe cache`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.filesize import decimal as size_text

from tahoe.cli.app import AsJson, errors_as_messages
from tahoe.cli.output import print_facts, print_json
from tahoe.storage.cache.block_cache import BlockCache
from tahoe.storage.cache.configuration import FOLDER_VARIABLE, active_cache, opened_cache


class Action(StrEnum):
    """What is done to the cache."""

    SHOW = "show"
    CLEAR = "clear"
    VERIFY = "verify"


Folder = Annotated[
    str | None, typer.Option("--folder", metavar="FOLDER", help=f"The folder of the cache; default: {FOLDER_VARIABLE}.")
]


def cache(
    action: Annotated[Action, typer.Argument(help="Show what is in it, delete all of it, or read every block.")],
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show, clear or verify the local cache of what was read from remote storages. `verify` deletes damaged blocks."""
    with errors_as_messages():
        found = active_cache() if folder is None else opened_cache(folder)
    if found is None:
        detail = f"there is no cache: set {FOLDER_VARIABLE}, or give its folder"
        raise typer.BadParameter(detail, param_hint="--folder")
    if foreign := found.foreign_names():
        detail = f"{found.folder} is not the folder of a cache: it has {foreign[0]}"
        raise typer.BadParameter(detail, param_hint="--folder")
    result = _result(action, found)
    if as_json:
        print_json({"folder": str(found.folder), **result})
        return
    facts = {
        name.replace("_", " "): size_text(value) if name.startswith("bytes") else f"{value:,}"
        for name, value in result.items()
    }
    print_facts({"folder": str(found.folder), **facts})


def _result(action: Action, found: BlockCache) -> dict[str, int]:
    match action:
        case Action.SHOW:
            return asdict(found.usage())
        case Action.CLEAR:
            return {"deleted_blocks": found.clear()}
        case Action.VERIFY:
            verified = found.verify()
            return {"whole_blocks": verified.whole, "damaged_blocks": verified.damaged}
