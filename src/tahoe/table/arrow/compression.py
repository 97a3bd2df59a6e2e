"""How Parquet files are compressed that are written without Spark.

Protocol: "Table Properties", `delta.parquet.compression.codec`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.protocol.properties import PARQUET_COMPRESSION

# What Arrow calls otherwise. Its lz4 is what Parquet calls LZ4_RAW; the framing of Hadoop that Parquet calls LZ4 is not written any more.
_ARROW_NAMES = {"uncompressed": "none", "lz4_raw": "lz4"}


def arrow_codec(configuration: Mapping[str, str], *, table: str) -> str:
    """The codec of a table's new files, as Arrow calls it.

    Raises:
        InvalidPropertyError: the table names one that there is not.
    """
    codec = PARQUET_COMPRESSION.get(configuration, table=table)
    return _ARROW_NAMES.get(codec, codec)
