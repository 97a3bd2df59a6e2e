"""Metadata of other formats beside the log. A ring above this one writes it, imported when a table asks for it."""

from __future__ import annotations

from importlib import import_module

from tahoe.errors import PackageMissingError
from tahoe.protocol.configuration.universal_format import has_iceberg
from tahoe.table.reading.snapshot import Snapshot

_ICEBERG = "tahoe.iceberg.conversion"


def convert_to_other_formats(snapshot: Snapshot) -> None:
    """Bring the metadata of other formats up to a version, if its table asks for them.

    Raises:
        PackageMissingError: a package that it needs is not installed.
    """
    if not has_iceberg(snapshot.properties):
        return
    try:
        conversion = import_module(_ICEBERG)
    except ImportError as error:
        what = "Writing Iceberg's metadata"
        raise PackageMissingError(table=snapshot.url, what=what, package="pyiceberg") from error
    conversion.after_commit(snapshot)
