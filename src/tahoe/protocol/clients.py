"""Which other programs can read and write a table, by its features. Pure; `tests/table/test_clients.py` asks the programs themselves."""

from __future__ import annotations

from dataclasses import dataclass

from tahoe.protocol.actions import Protocol
from tahoe.protocol.features import supported_features

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
_DELTA_RS_READS_NOT = frozenset({"catalogManaged", "typeWidening", "vacuumProtocolCheck", "variantShredding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that reads Delta tables, of a version that was tried.

    Attributes:
        reads_not: the features with which it refuses to read a table; it refuses to write these, too.
        writes_not: the features with which it refuses only to write.
        misreads: of `reads_not`, those with which it does not refuse, but returns wrong values.
    """

    name: str
    label: str
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
        reads_not=_DELTA_RS_READS_NOT,
        writes_not=_DELTA_RS_WRITES_NOT,
    ),
    Client(
        name="delta-rs-pyarrow",
        label="deltalake 1.6: to_pyarrow_table, to_pyarrow_dataset and to_pandas",
        reads_not=_DELTA_RS_READS_NOT | {"columnMapping", "deletionVectors", "v2Checkpoint"},
        writes_not=_DELTA_RS_WRITES_NOT,
        misreads=frozenset({"columnMapping"}),  # nulls
    ),
)
