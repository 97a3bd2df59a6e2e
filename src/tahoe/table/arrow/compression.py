"""The compression codec of Parquet files that are written without Spark.

Protocol: "Table Properties", `delta.parquet.compression.codec`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.protocol.configuration.properties import PARQUET_COMPRESSION

# Codecs with another name in Arrow. Arrow's lz4 is Parquet's LZ4_RAW; Parquet's LZ4, with Hadoop's framing, is
# deprecated and not written.
_ARROW_NAMES = {"uncompressed": "none", "lz4_raw": "lz4"}


def arrow_codec(configuration: Mapping[str, str], *, table: str) -> str:
    """The codec of a table's new files, by Arrow's name.

    Raises:
        InvalidPropertyError: the table's property is not a known codec.
    """
    codec = PARQUET_COMPRESSION.get(configuration, table=table)
    return _ARROW_NAMES.get(codec, codec)
