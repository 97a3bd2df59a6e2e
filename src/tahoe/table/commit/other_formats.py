"""Metadata of other formats beside the log. A ring above this one writes it, imported when a table asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from tahoe.errors import PackageMissingError
from tahoe.protocol.configuration.universal_format import has_iceberg
from tahoe.table.reading.snapshot import Snapshot

_ICEBERG = "tahoe.iceberg.conversion"


def convert_to_other_formats(snapshot: Snapshot) -> None:
    """Bring the metadata of other formats up to a version, if its table asks for them.

    Raises:
        PackageMissingError: a package that it needs is not installed.
    """
    if has_iceberg(snapshot.properties):
        _conversion(snapshot).after_commit(snapshot)


def sync_other_formats(snapshot: Snapshot) -> None:
    """Bring the metadata of other formats up to the newest version now.

    Raises:
        PackageMissingError: a package that it needs is not installed.
        UnsupportedOperationError: the table does not ask for such metadata.
    """
    _conversion(snapshot).sync(snapshot)


def converted_versions(snapshot: Snapshot) -> dict[str, str]:
    """The version that the metadata of other formats describes and its time, under the reference's names; empty if
    there is no such metadata, or if it cannot be read here.
    """
    if not has_iceberg(snapshot.properties):
        return {}
    try:
        found: tuple[int, int] | None = _conversion(snapshot).converted(snapshot)
    except (PackageMissingError, OSError, ValueError):
        found = None
    names = ("converted_delta_version", "converted_delta_timestamp")
    return {} if found is None else dict(zip(names, map(str, found), strict=True))


# The folder of Iceberg's metadata.
METADATA_FOLDER = "metadata"


def abandoned_metadata(snapshot: Snapshot, keys: Sequence[str]) -> list[str]:
    """Of some files in the folder of the metadata of other formats, which are older than any conversion at work, those
    that it does not need; none if that cannot be told here.
    """
    try:
        found: list[str] = _conversion(snapshot).abandoned(snapshot, keys) if has_iceberg(snapshot.properties) else []
    except PackageMissingError:
        found = []
    return found


def _conversion(snapshot: Snapshot) -> ModuleType:
    try:
        return import_module(_ICEBERG)
    except ImportError as error:
        what = "Writing Iceberg's metadata"
        raise PackageMissingError(table=snapshot.url, what=what, package="pyiceberg") from error
