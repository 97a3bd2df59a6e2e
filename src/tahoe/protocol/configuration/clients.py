"""Which other programs can read and write a table, by its features. Pure.

`tests/table/test_clients.py` asks those programs themselves that can be installed; of the others, `source` says who
says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tahoe.protocol.configuration.features import FEATURES, supported_features
from tahoe.protocol.log.actions import Protocol

# Features that delta-rs refuses to write, but reads: they are of writers only.
_DELTA_RS_WRITES_NOT = frozenset(
    {
        "allowColumnDefaults",
        "checkpointProtection",
        "clustering",
        "domainMetadata",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "materializePartitionColumns",
        "rowTracking",
    }
)
_DELTA_RS_READS_NOT = frozenset(
    {"catalogManaged", "geospatial", "typeWidening", "vacuumProtocolCheck", "variantShredding"}
)


_READERS = frozenset(feature.name for feature in FEATURES if feature.is_reader_feature)
_ALL = frozenset(feature.name for feature in FEATURES)

_TRIED = "tried, by tests/table/test_clients.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that reads Delta tables, in one version.

    Attributes:
        source: how it is known.
        reads_not: the features with which it refuses to read a table; it refuses to write these, too.
        writes_not: the features with which it refuses only to write.
        misreads: of `reads_not`, those with which it does not refuse, but returns wrong values.
    """

    name: str
    label: str
    source: str
    reads_not: frozenset[str]
    writes_not: frozenset[str]
    misreads: frozenset[str] = frozenset()

    def blocked(self, protocol: Protocol) -> tuple[list[str], list[str]]:
        """The features of a table that keep this program from reading it, and those that only keep it from writing."""
        features = supported_features(protocol)
        return sorted(features & self.reads_not), sorted(features & self.writes_not)


CLIENTS = (
    Client(
        name="delta-rs",
        label="deltalake 1.6: QueryBuilder and write_deltalake",
        source=_TRIED,
        reads_not=_DELTA_RS_READS_NOT,
        writes_not=_DELTA_RS_WRITES_NOT,
    ),
    Client(
        name="delta-rs-pyarrow",
        label="deltalake 1.6: to_pyarrow_table, to_pyarrow_dataset and to_pandas",
        source=_TRIED,
        reads_not=_DELTA_RS_READS_NOT | {"columnMapping", "deletionVectors", "v2Checkpoint"},
        writes_not=_DELTA_RS_WRITES_NOT,
        misreads=frozenset({"columnMapping"}),  # nulls
    ),
    Client(
        name="polars",
        label="Polars 2.1: read_delta and scan_delta, and write_delta, which is deltalake's",
        source=_TRIED,
        reads_not=_READERS - {"deletionVectors", "timestampNtz", "variantType"},
        writes_not=_DELTA_RS_WRITES_NOT,
    ),
    Client(
        name="delta-spark",
        label="delta-spark 4.4, the reference",
        source=(
            "tried, by tests/interop; its source: TableFeature.allSupportedFeaturesMap, at the tag v4.4.0. Tables with "
            "geospatial need its setting geo.preview.enabled, which docs/reference/types.md spells out"
        ),
        reads_not=frozenset(),
        writes_not=frozenset(),
    ),
    Client(
        name="delta-spark-3.3",
        label="delta-spark 3.3, on Spark 3.5",
        source="its source: TableFeature.allSupportedFeaturesMap, at the tags v3.3.2 and v3.3.3",
        reads_not=frozenset({"catalogManaged", "geospatial", "variantShredding", "variantType"}),
        writes_not=frozenset({"icebergCompatV3", "materializePartitionColumns"}),
    ),
    Client(
        name="trino",
        label="Trino's Delta Lake connector",
        source=(
            "its source: SUPPORTED_READER_FEATURES and SUPPORTED_WRITER_FEATURES of DeltaLakeTableFeatures, at the "
            "commit 4695f88"
        ),
        reads_not=_READERS
        - {
            "columnMapping",
            "deletionVectors",
            "timestampNtz",
            "typeWidening",
            "v2Checkpoint",
            "vacuumProtocolCheck",
            "variantType",
        },
        writes_not=_ALL
        - {
            "appendOnly",
            "changeDataFeed",
            "checkConstraints",
            "columnMapping",
            "deletionVectors",
            "invariants",
            "timestampNtz",
            "vacuumProtocolCheck",
        },
    ),
    Client(
        name="duckdb",
        label="DuckDB 1.5's delta extension: delta_scan and ATTACH of a path, and INSERT, which only appends",
        source=(
            "its source: the extension at the commit 45c4087 takes delta-kernel-rs v0.21.0, whose table_features tell"
        ),
        reads_not=frozenset({"catalogManaged", "geospatial", "variantShredding"}),
        writes_not=frozenset(
            {
                "allowColumnDefaults",
                "checkConstraints",
                "checkpointProtection",
                "generatedColumns",
                "icebergCompatV1",
                "icebergCompatV2",
                "icebergCompatV3",
                "identityColumns",
                "typeWidening",
            }
        ),
    ),
    Client(
        name="sail",
        label="Sail 0.7",
        source="its source: transaction/protocol.rs of sail-delta-lake, at the tag v0.7.0",
        reads_not=frozenset({"catalogManaged", "geospatial", "vacuumProtocolCheck"}),
        writes_not=frozenset(
            {
                "changeDataFeed",
                "checkpointProtection",
                "clustering",
                "domainMetadata",
                "icebergCompatV1",
                "icebergCompatV2",
                "icebergCompatV3",
                "materializePartitionColumns",
                "rowTracking",
            }
        ),
    ),
)

CLIENTS_BY_NAME = {client.name: client for client in CLIENTS}
