"""Geometries in Arrow: their type, and points as well-known binary."""

from __future__ import annotations

import struct

import pyarrow as pa


class WellKnownBinary(pa.ExtensionType):
    """The type of Arrow that its Parquet writer stores as a geometry or a geography."""

    def __init__(self, definition: str) -> None:
        self.definition = definition
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.definition.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> WellKnownBinary:
        return cls(serialized.decode())


def point(*numbers: float, kind: int = 1) -> bytes:
    return struct.pack(f"<BI{len(numbers)}d", 1, kind, *numbers)
