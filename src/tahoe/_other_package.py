"""The index has another project of the name `tahoe`, whose files fall into the same folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tahoe import errors


def refuse_other_package(folders: Iterable[str]) -> None:
    """Raises an error if the other project's package is installed where this one is: its metadata are there."""
    for folder in folders:
        for found in Path(folder).parent.glob("tahoe-*.dist-info"):
            version = found.name.removeprefix("tahoe-").removesuffix(".dist-info")
            raise errors.OtherPackageError(name="tahoe", version=version, folder=str(found.parent))
