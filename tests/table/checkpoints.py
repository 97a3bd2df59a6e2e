"""Tables whose checkpoints tests write and read."""

from __future__ import annotations

import json

from tahoe.protocol.log.actions import DeletionVectorDescriptor, Metadata, Protocol
from tahoe.table.log.delta_log import Log
from tests.table.builders import PROTOCOL, add, memory_env, put_commit

V2 = Protocol(
    reader_version=3,
    writer_version=7,
    reader_features=frozenset({"v2Checkpoint", "deletionVectors"}),
    writer_features=frozenset({"v2Checkpoint", "deletionVectors", "domainMetadata"}),
)

VECTOR = DeletionVectorDescriptor(
    storage_type="u", path_or_inline="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_bytes=40, cardinality=6
)

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in {
                "p": "date",
                "i": "integer",
                "s": "string",
                "t": "timestamp",
                "d": "decimal(5,2)",
                "b": "boolean",
                "n": {"type": "struct", "fields": [{"name": "x", "type": "short", "nullable": True, "metadata": {}}]},
            }.items()
        ],
    }
)

STATS = '{"numRecords":3,"minValues":{"i":1,"s":"a","t":"2024-01-01T00:00:00.000Z","d":1.50,"n":{"x":3}},"maxValues":{"i":9,"s":"z","t":"2024-01-02T00:00:00.000Z","d":2.50,"n":{"x":4}},"nullCount":{"i":0,"s":0,"t":0,"d":0,"b":1,"n":{"x":2}}}'


def with_statistics(**configuration: str) -> Log:
    env = memory_env()
    metadata = Metadata(id="test", schema_string=SCHEMA, partition_columns=("p",), configuration=configuration)
    adds = [
        add("a", partition_values={"p": "2024-01-01"}, stats=STATS),
        add("b", partition_values={"p": None}),
        add("c", stats="{broken"),
    ]
    put_commit(env, 0, [PROTOCOL, metadata, *adds])
    return Log(env)
