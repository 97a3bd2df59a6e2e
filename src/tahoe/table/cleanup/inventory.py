"""An inventory lists what is in a table's folder. The storage or the user makes it, and VACUUM uses it instead of
listing the folder.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tahoe.errors import InvalidInventoryError
from tahoe.storage.locations import split_url
from tahoe.storage.schemes import S3_SCHEMES
from tahoe.table.cleanup.dead_files import FILES, Listing

# The columns of an inventory, by the reference's names.
INVENTORY = pa.schema(
    [("path", pa.string()), ("length", pa.int64()), ("isDir", pa.bool_()), ("modificationTime", pa.int64())]
)

# A key that names nothing below the table's folder, or the same file as another spelling.
_NOT_A_KEY = r"^$|^/|/$|//|(^|/)\.\.?(/|$)"


def inventory_listing(inventory: pa.Table, table_url: str) -> Listing:
    """The entries of an inventory that are in the table's folder. Entries elsewhere are ignored, and so are further
    columns.

    Args:
        inventory: absolute unescaped paths, sizes in bytes, and times in milliseconds since 1970. Of several entries
            for a path, the newest counts.

    Raises:
        InvalidInventoryError: a column is missing or has another type.
    """
    for field in INVENTORY:
        found = inventory.schema.get_all_field_indices(field.name)
        if len(found) != 1 or not _is_like(inventory.schema.field(found[0]).type, field.type):
            detail = f"its columns are {_described(inventory.schema)}"
            raise InvalidInventoryError(table=table_url, expectedSchema=_described(INVENTORY), detail=detail)
    rows = inventory.select(INVENTORY.names).cast(INVENTORY)
    keys = _keys(rows["path"], table_url)
    is_inside = pc.and_not(pc.is_valid(keys), pc.match_substring_regex(keys, _NOT_A_KEY))
    is_inside = pc.and_(pc.fill_null(is_inside, False), pc.is_valid(rows["modificationTime"]))
    is_folder = pc.fill_null(rows["isDir"], False)
    entries = pa.table(
        {"key": keys, "size_bytes": pc.fill_null(rows["length"], 0), "modified_ms": rows["modificationTime"]}
    )
    files = (
        entries.filter(pc.and_not(is_inside, is_folder))
        .group_by("key")
        .aggregate([("size_bytes", "max"), ("modified_ms", "max")])
    )
    folders = entries.filter(pc.and_(is_inside, is_folder))
    listing = Listing()
    listing.folders.update(zip(folders["key"].to_pylist(), folders["modified_ms"].to_pylist(), strict=True))
    listing.add(pa.table([files["key"], files["size_bytes_max"], files["modified_ms_max"]], schema=FILES))
    return listing


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    is_text = pa.types.is_large_string(found) or pa.types.is_string_view(found)
    return bool(found == wanted or (is_text and wanted == pa.string()))


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "none"


def _keys(paths: pa.ChunkedArray, table_url: str) -> pa.ChunkedArray:
    """The keys of paths below the table's folder; null for others. The folder's url may be spelled as users or Hadoop
    do.
    """
    scheme, authority, path = split_url(table_url)
    schemes = S3_SCHEMES if scheme in S3_SCHEMES else (scheme,)
    homes = [f"{name}://{authority}/{path}" for name in schemes] + (
        [] if authority else [f"{scheme}:/{path}", f"/{path}"]
    )
    keys = pa.chunked_array([pa.nulls(len(paths), pa.string())])
    for home in homes:
        start = f"{home.rstrip('/')}/"
        inside = pc.if_else(
            pc.starts_with(paths, start), pc.utf8_slice_codeunits(paths, len(start)), pa.scalar(None, pa.string())
        )
        keys = pc.coalesce(keys, inside)
    return keys
