"""Every MUST of PROTOCOL.md: who refuses or reports a log that breaks it, with such a log, written by hand.

The records follow the specification, section by section. Rules that only say what writers do are in `KEPT`, with the
tests of our writers.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe import errors
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import decode_action
from tahoe.protocol.log.deletion_vector import inline_descriptor
from tahoe.protocol.log.replay import replay
from tahoe.storage.env import Env
from tahoe.table.log.delta_log import Log
from tahoe.table.verify.check import check_table
from tests.table.builders import memory_env, parquet_bytes, state_actions

Line: TypeAlias = Mapping[str, Any]

ROWS = 3


def _data(*ids: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), out)
    return out.getvalue()


def _shredded() -> bytes:
    parts = {"metadata": [b"\x01\x00\x00"] * ROWS, "value": [None] * ROWS, "typed_value": [1, 2, 3]}
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])
    out = io.BytesIO()
    pq.write_table(pa.table({"v": pa.array(pa.table(parts).to_pylist(), kind)}), out)
    return out.getvalue()


DATA, TWO_ROWS, SHREDDED = _data(0, 1, 2), _data(0, 2), _shredded()


# --- the actions of the logs


def protocol(
    reader: int, writer: int, readers: Sequence[str] | None = None, writers: Sequence[str] | None = None
) -> Line:
    lists = {"readerFeatures": readers, "writerFeatures": writers}
    versions = {"minReaderVersion": reader, "minWriterVersion": writer}
    return {"protocol": {**versions, **{name: list(found) for name, found in lists.items() if found is not None}}}


def features(*writers: str, readers: Sequence[str] = ()) -> Line:
    """The protocol with these features."""
    return protocol(3, 7, readers, [*writers, *readers]) if readers else protocol(1, 7, None, writers)


def column(name: str = "id", kind: Any = "long", **metadata: Any) -> Line:
    return {
        "name": name,
        "type": kind,
        "nullable": True,
        "metadata": {key.replace("__", "."): value for key, value in metadata.items()},
    }


def mapped(name: str, number: int | None, physical: str | None, kind: Any = "long") -> Line:
    metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return column(name, kind, **{key: value for key, value in metadata.items() if value is not None})


def metadata(
    *columns: Line, partition_by: Sequence[str] = (), table_id: str = "t", provider: str = "parquet", **properties: str
) -> Line:
    schema = json.dumps({"type": "struct", "fields": list(columns or [column()])})
    configuration = {"delta." + name.replace("__", "."): value for name, value in properties.items()}
    return {
        "metaData": {
            "id": table_id,
            "format": {"provider": provider, "options": {}},
            "schemaString": schema,
            "partitionColumns": list(partition_by),
            "configuration": configuration,
        }
    }


def add(path: str = "x", *, rows: int | None = ROWS, stats: str | None = None, **fields: Any) -> Line:
    text = stats if stats is not None or rows is None else json.dumps({"numRecords": rows})
    body = {
        "path": path,
        "partitionValues": {},
        "size": len(DATA),
        "modificationTime": 1,
        "dataChange": True,
        "stats": text,
    }
    return {"add": {**body, **fields}}


def remove(path: str = "x", **fields: Any) -> Line:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, **fields}}


def txn(version: int, app_id: str = "app") -> Line:
    return {"txn": {"appId": app_id, "version": version}}


def domain(name: str = "d", configuration: Any = "c") -> Line:
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    return {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}


def info(**fields: Any) -> Line:
    return {"commitInfo": {"operation": "TEST", **fields}}


def vector(*rows: int) -> Line:
    found = inline_descriptor(list(rows))
    return {
        "storageType": found.storage_type,
        "pathOrInlineDv": found.path_or_inline,
        "sizeInBytes": found.size_bytes,
        "cardinality": found.cardinality,
    }


P = protocol(1, 2)
M = metadata()
NAMED = {"columnMapping__mode": "name", "columnMapping__maxColumnId": "2"}
ICEBERG = protocol(2, 7, None, ["columnMapping", "icebergCompatV2"])
TIMED = metadata(enableInCommitTimestamps="true")
TIMES = features("inCommitTimestamp")
VECTORS = features(readers=["deletionVectors"])
TRACKED = features("rowTracking", "domainMetadata")
IDS = {"rowTracking__materializedRowIdColumnName": "_i", "rowTracking__materializedRowCommitVersionColumnName": "_v"}
TRACKING = metadata(enableRowTracking="true", **IDS)
MOVES = {"dataChange": False}


def mark(highest: int) -> Line:
    return domain("delta.rowTracking", {"rowIdHighWaterMark": highest})


def keeping(line: Line, **marks: Any) -> Line:
    """A metadata action with kept marks."""
    body = line["metaData"]
    return {"metaData": {**body, "configuration": {**body["configuration"], "tahoe.keptMarks": json.dumps(marks)}}}


def first(*lines: Line) -> list[Line]:
    """The first commit of a plain table."""
    return [P, M, *lines]


# --- derived files


def checksum(**wrong: Any) -> Callable[[Env], None]:
    """A version checksum of version 0 that is right but for these fields."""

    def put(env: Env) -> None:
        actions = [json.loads(line) for line in env.store.get(log_files.commit_key(0)).splitlines()]
        adds = [action["add"] for action in actions if "add" in action]
        right = {
            "tableSizeBytes": sum(entry["size"] for entry in adds),
            "numFiles": len(adds),
            "numMetadata": 1,
            "numProtocol": 1,
            "metadata": next(action["metaData"] for action in actions if "metaData" in action),
            "protocol": next(action["protocol"] for action in actions if "protocol" in action),
            "setTransactions": [action["txn"] for action in actions if "txn" in action],
            "domainMetadata": [action["domainMetadata"] for action in actions if "domainMetadata" in action],
            "allFiles": adds,
            "fileSizeHistogram": {
                "sortedBinBoundaries": [0, len(DATA)],
                "fileCounts": [0, len(adds)],
                "totalBytes": [0, len(adds) * len(DATA)],
            },
            "numDeletedRecordsOpt": 0,
            "numDeletionVectorsOpt": 0,
            "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [len(adds), *[0] * 9]},
        }
        env.store.put(log_files.checksum_key(0), json.dumps({**right, **wrong}).encode())

    return put


def checkpoint(
    version: int, change: Callable[[list[Any]], list[Any]], name: str | None = None
) -> Callable[[Env], None]:
    """A checkpoint whose actions are changed."""

    def put(env: Env) -> None:
        log = Log(env)
        state = replay([log.read_version(number) for number in range(version + 1)], log.canonical)
        file = name or log_files.classic_checkpoint_name(version)
        env.store.put(f"{log_files.LOG_FOLDER}/{file}", parquet_bytes(change(state_actions(state))))

    return put


def with_action(line: Line) -> Callable[[list[Any]], list[Any]]:
    return lambda actions: [*actions, decode_action(line)]


def without(kind: str) -> Callable[[list[Any]], list[Any]]:
    return lambda actions: [action for action in actions if type(action).__name__ != kind]


# --- the records


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A rule, and a log that breaks it.

    Attributes:
        section: a heading of PROTOCOL.md.
        rule: in our words.
        commits: of the log. The data files `x`, `y` and `z` with the ids 0, 1 and 2 exist, and `w` without 1;
            `s` has shredded variants.
        files: what else is written, such as a checkpoint.
        who: who notices.
        says: what the finding says, or the class of the error.
    """

    section: str
    rule: str
    commits: Sequence[Sequence[Line]]
    who: Literal["reading", "writing", "check"]
    says: str | type[Exception]
    files: Callable[[Env], None] = field(default=lambda _: None)


def reported(
    section: str, rule: str, says: str, *commits: Sequence[Line], files: Callable[[Env], None] = lambda _: None
) -> Broken:
    return Broken(section=section, rule=rule, commits=commits, who="check", says=says, files=files)


def unreadable(section: str, rule: str, error: type[Exception], *commits: Sequence[Line]) -> Broken:
    return Broken(section=section, rule=rule, commits=commits, who="reading", says=error)


def unwritable(section: str, rule: str, error: type[Exception], *commits: Sequence[Line]) -> Broken:
    return Broken(section=section, rule=rule, commits=commits, who="writing", says=error)


BROKEN: Sequence[Broken] = (
    # Delta Table Specification
    unreadable("Delta Log Entries", "versions are contiguous", errors.MissingVersionError, first(), [], [txn(1)]),
    reported(
        "Checkpoints",
        "a checkpoint has all files of its version",
        "lacks x",
        first(add()),
        files=checkpoint(0, without("Add")),
    ),
    reported(
        "Checkpoints",
        "a checkpoint has no file that is not live",
        "has files that are not live, y",
        first(add()),
        files=checkpoint(0, with_action(add("y"))),
    ),
    reported(
        "Checkpoints",
        "a checkpoint has the transaction identifiers",
        "lacks the transaction identifiers of app",
        first(txn(1)),
        files=checkpoint(0, without("Txn")),
    ),
    reported(
        "Checkpoints",
        "a checkpoint has the domains",
        "it has the domains [] but the commits have ['d']",
        [features("domainMetadata"), M, domain()],
        files=checkpoint(0, without("DomainMetadata")),
    ),
    reported(
        "Checkpoints",
        "a checkpoint has the protocol",
        "it has no protocol action",
        first(),
        files=checkpoint(0, without("Protocol")),
    ),
    reported(
        "Checkpoints",
        "a checkpoint has the metadata",
        "it has no metaData action",
        first(),
        files=checkpoint(0, without("Metadata")),
    ),
    reported(
        "Checkpoints",
        "readers ignore a multi-part checkpoint with a missing part",
        "some of the 2 parts are missing",
        first(),
        files=checkpoint(0, lambda actions: actions, log_files.multi_part_checkpoint_name(0, 1, 2)),
    ),
    reported(
        "Log Compaction Files",
        "a compacted log does what its commits do",
        "its added files differ",
        first(),
        [add()],
        [txn(1)],
        files=lambda env: env.store.put(
            f"{log_files.LOG_FOLDER}/{log_files.compacted_name(1, 2)}",
            (json.dumps(add("y")) + "\n" + json.dumps(txn(1))).encode(),
        ),
    ),
    *(
        reported(
            "Version Checksum File Schema",
            f"{name} is that of the version",
            says,
            first(add(), txn(1)),
            files=checksum(**{name: value}),
        )
        for name, value, says in (
            ("tableSizeBytes", 1, "tableSizeBytes is 1"),
            ("numFiles", 2, "numFiles is 2"),
            ("numMetadata", 2, "numMetadata is 2"),
            ("numProtocol", 0, "numProtocol is 0"),
            ("metadata", metadata(table_id="other")["metaData"], "metadata differs"),
            ("metadata", 5, "metadata is not what its name says"),
            ("protocol", protocol(1, 4)["protocol"], "protocol differs"),
            ("setTransactions", [], "setTransactions differ"),
            ("setTransactions", [txn(2)["txn"]], "setTransactions differ"),
            ("domainMetadata", [domain()["domainMetadata"]], "domainMetadata differs"),
            ("allFiles", [], "allFiles are 0 files"),
            ("allFiles", [add("y")["add"]], "allFiles differ from the files of the log in x, y"),
            ("allFiles", [add(size=1)["add"]], "allFiles differ from the files of the log in x"),
            ("numDeletedRecordsOpt", 1, "numDeletedRecordsOpt is 1"),
            ("numDeletionVectorsOpt", 1, "numDeletionVectorsOpt is 1"),
        )
    ),
    *(
        reported("File Size Histogram Schema", rule, says, first(add()), files=checksum(fileSizeHistogram=histogram))
        for rule, says, histogram in (
            (
                "the first boundary is 0",
                "do not rise from 0",
                {"sortedBinBoundaries": [1], "fileCounts": [1], "totalBytes": [len(DATA)]},
            ),
            (
                "the counts are those of the files",
                "differs",
                {"sortedBinBoundaries": [0], "fileCounts": [2], "totalBytes": [len(DATA)]},
            ),
            (
                "the lists are as long as the boundaries",
                "differs",
                {"sortedBinBoundaries": [0, 5], "fileCounts": [1], "totalBytes": [len(DATA)]},
            ),
        )
    ),
    reported(
        "Deleted Record Counts Histogram Schema",
        "the counts are those of the files",
        "deletedRecordCountsHistogramOpt differs",
        first(add()),
        files=checksum(deletedRecordCountsHistogramOpt={"deletedRecordCounts": [0, 1, *[0] * 8]}),
    ),
    # Actions
    unreadable("Change Metadata", "the first version has a metaData action", errors.MissingActionError, [P]),
    unreadable(
        "Change Metadata",
        "required fields are there",
        errors.InvalidLogFileError,
        [P, {"metaData": {"schemaString": "{}"}}],
    ),
    unreadable(
        "Format Specification",
        "data files are Parquet",
        errors.UnsupportedFileFormatError,
        [P, metadata(provider="orc")],
    ),
    unreadable(
        "Add File and Remove File",
        "required fields are there",
        errors.InvalidLogFileError,
        first({"add": {"path": "x"}}),
    ),
    unreadable(
        "Add File and Remove File",
        "a path is added once in a commit",
        errors.InvalidCommitError,
        first(add(), add(deletionVector=vector(0))),
    ),
    unreadable(
        "Add File and Remove File",
        "a path is removed once in a commit",
        errors.InvalidCommitError,
        first(add()),
        [remove(), remove()],
    ),
    unreadable(
        "Add File and Remove File",
        "a file is not both added and removed",
        errors.InvalidCommitError,
        first(add(), remove()),
    ),
    reported(
        "Add File and Remove File",
        "a live path is added with another vector only if its entry is removed",
        "x is added with another deletion vector, but its entry before is not removed. So 2 rows stand twice",
        [VECTORS, M, add()],
        [add(deletionVector=vector(0))],
    ),
    reported(
        "Add File and Remove File",
        "a live file that is added again is the same file",
        "adds x again, which was live, with other bytes",
        first(add()),
        [add(size=9)],
    ),
    reported(
        "Add File and Remove File",
        "a file that is removed is live",
        "version 2 (OPTIMIZE by other) puts rows into the table that stay in other files: "
        "x had been removed by version 1 (OPTIMIZE by one). So 3 rows stand twice",
        first(add()),
        [info(operation="OPTIMIZE", engineInfo="one"), remove(**MOVES), add("y", **MOVES)],
        [info(operation="OPTIMIZE", clientVersion="other"), remove(**MOVES), add("z", **MOVES)],
    ),
    reported(
        "Add File and Remove File",
        "a file is removed with the vector that it has",
        "x is live with another deletion vector than the one that is removed. So 3 rows stand twice",
        [VECTORS, M, add(deletionVector=vector(0))],
        [remove(**MOVES), add("y", **MOVES)],
    ),
    reported(
        "Add File and Remove File",
        "a rewrite takes rows over only from live files",
        "x was not live. So rows stand twice",
        first(),
        [info(operation="DELETE"), remove(), add("y")],
    ),
    reported(
        "Add File and Remove File",
        "a removal without adds is of a live file",
        "removes files that are not live",
        first(),
        [remove()],
    ),
    reported(
        "Add File and Remove File",
        "with dataChange false no rows are added",
        "takes 0 rows out and puts 3 in. So 3 rows are new or stand twice",
        first(),
        [add(**MOVES)],
    ),
    reported(
        "Add File and Remove File",
        "with dataChange false no rows are lost",
        "takes 3 rows out and puts 2 in. So 1 rows are lost",
        first(add()),
        [remove(**MOVES), add("w", rows=2, **MOVES)],
    ),
    reported(
        "Add File and Remove File",
        "with dataChange false no file only goes",
        "takes 3 rows out and puts 0 in",
        first(add()),
        [remove(**MOVES)],
    ),
    reported(
        "Transaction Identifiers",
        "an application has one txn in a commit",
        "2 txn actions for the application app",
        first(txn(1), txn(2)),
    ),
    unreadable(
        "Protocol Evolution",
        "the reader version is one that is known",
        errors.UnsupportedProtocolVersionError,
        [protocol(4, 7), M],
    ),
    unwritable(
        "Protocol Evolution",
        "the writer version is one that is known",
        errors.UnsupportedProtocolVersionError,
        [protocol(1, 8), M],
    ),
    reported(
        "Domain Metadata", "the protocol supports domainMetadata", "does not support domainMetadata", first(domain())
    ),
    reported(
        "Domain Metadata",
        "a domain has one action in a commit",
        "2 domainMetadata actions for the domain d",
        [features("domainMetadata"), M, domain(), domain("d", "other")],
    ),
    reported(
        "Sidecar File Information",
        "sidecars are in checkpoints only",
        "it has a sidecar action",
        first({"sidecar": {"path": "a", "sizeInBytes": 1, "modificationTime": 1}}),
    ),
    reported(
        "Checkpoint Metadata",
        "checkpointMetadata is in checkpoints only",
        "it has a checkpointMetadata action",
        first({"checkpointMetadata": {"version": 0}}),
    ),
    # Table Features
    reported(
        "Table Features",
        "reader version 3 has readerFeatures",
        "lacks the list readerFeatures",
        [protocol(3, 7, None, []), M],
    ),
    reported(
        "Table Features", "writer version 7 has writerFeatures", "lacks the list writerFeatures", [protocol(1, 7), M]
    ),
    reported("Table Features", "both lists are there for (3, 7)", "lacks the list writerFeatures", [protocol(3, 7), M]),
    *(
        unwritable(
            "Table Features",
            f"writers need the lists of {versions}",
            errors.InvalidActionError,
            [protocol(*versions, *lists), M],
        )
        for versions, lists in (((3, 7), ()), ((1, 7), ()), ((3, 7), (None, [])), ((3, 7), ([],)))
    ),
    reported(
        "Table Features",
        "other writer versions have no list",
        "must not have the list writerFeatures",
        [protocol(1, 2, None, []), M],
    ),
    reported(
        "Table Features",
        "other reader versions have no list",
        "must not have the list readerFeatures",
        [protocol(1, 7, [], []), M],
    ),
    reported(
        "Table Features for New and Existing Tables",
        "reader version 3 comes with writer version 7",
        "reader version 3 needs writer version 7",
        [protocol(3, 2, []), M],
    ),
    unreadable(
        "Table Features",
        "readers know every reader feature",
        errors.UnsupportedReaderFeatureError,
        [protocol(3, 7, ["unheardOf"], ["unheardOf"]), M],
    ),
    unwritable(
        "Table Features",
        "writers know every writer feature",
        errors.UnsupportedWriterFeatureError,
        [features("unheardOf"), M],
    ),
    reported(
        "Supported Features",
        "no feature is in readerFeatures alone",
        "deletionVectors is in readerFeatures, but not in writerFeatures",
        [protocol(3, 7, ["deletionVectors"], []), M],
    ),
    reported(
        "Supported Features",
        "a reader feature is not in writerFeatures alone",
        "deletionVectors is a feature that readers must support, but it is only in writerFeatures",
        [protocol(1, 7, None, ["deletionVectors"]), M],
    ),
    # Column Mapping
    reported(
        "Writer Requirements for Column Mapping",
        "every column has an id",
        "b has no delta.columnMapping.id",
        [protocol(2, 5), metadata(mapped("a", 1, "p"), mapped("b", None, "q"), **NAMED)],
    ),
    reported(
        "Writer Requirements for Column Mapping",
        "every column has a physical name",
        "b has no delta.columnMapping.physicalName",
        [protocol(2, 5), metadata(mapped("a", 1, "p"), mapped("b", 2, None), **NAMED)],
    ),
    reported(
        "Writer Requirements for Column Mapping",
        "ids are unique",
        "its column ids 1 are those of more than one column",
        [protocol(2, 5), metadata(mapped("a", 1, "p"), mapped("b", 1, "q"), **NAMED)],
    ),
    reported(
        "Writer Requirements for Column Mapping",
        "physical names are unique",
        "its physical names p are those of more than one column",
        [protocol(2, 5), metadata(mapped("a", 1, "p"), mapped("b", 2, "p"), **NAMED)],
    ),
    reported(
        "Writer Requirements for Column Mapping",
        "no id is above the highest",
        "its highest column id is 3, but delta.columnMapping.maxColumnId is 2",
        [protocol(2, 5), metadata(mapped("a", 1, "p"), mapped("b", 3, "q"), **NAMED)],
    ),
    reported(
        "Writer Requirements for Column Mapping",
        "an id stands for one column forever",
        "column b has the id 2, which was that of the column with the physical name q",
        [protocol(2, 5), metadata(mapped("a", 1, "p"), mapped("b", 2, "q"), **NAMED), add()],
        [metadata(mapped("a", 1, "p"), **NAMED)],
        [metadata(mapped("a", 1, "p"), mapped("b", 2, "r"), **NAMED)],
    ),
    # Deletion Vectors
    reported(
        "Deletion Vectors",
        "only a table with the feature has vectors",
        "the protocol does not support deletionVectors",
        first(add(deletionVector=vector(0))),
    ),
    reported(
        "Writer Requirement for Deletion Vectors",
        "a file with a vector has numRecords",
        "do not tell its number of rows",
        [VECTORS, M, add(rows=None, deletionVector=vector(0))],
    ),
    reported(
        "Deletion Vector Descriptor Schema",
        "the cardinality is that of the vector",
        "its cardinality is 2 in the log",
        [VECTORS, M, add(deletionVector={**vector(0), "cardinality": 2})],
    ),
    unreadable(
        "Deletion Vector Format",
        "a vector can be decoded",
        errors.DeletionVectorError,
        [VECTORS, M, add(deletionVector={**vector(0), "pathOrInlineDv": "0" * len(vector(0)["pathOrInlineDv"])})],
    ),
    # Catalog-managed tables
    unreadable(
        "Catalog-managed tables",
        "the catalog is asked for the newest commits",
        errors.CatalogManagedTableError,
        [features("inCommitTimestamp", readers=["catalogManaged", "vacuumProtocolCheck"]), TIMED],
    ),
    # Iceberg
    unwritable(
        "Iceberg Compatibility V1",
        "column mapping is on",
        errors.InvalidPropertyError,
        [protocol(2, 7, None, ["columnMapping", "icebergCompatV1"]), metadata(enableIcebergCompatV1="true")],
    ),
    unwritable(
        "Iceberg Compatibility V2",
        "column mapping is on",
        errors.InvalidPropertyError,
        [protocol(2, 7, None, ["columnMapping", "icebergCompatV2"]), metadata(enableIcebergCompatV2="true")],
    ),
    reported(
        "Iceberg Compatibility V1",
        "column mapping is supported",
        "icebergCompatV1 requires columnMapping",
        [protocol(1, 7, None, ["icebergCompatV1"]), M],
    ),
    reported(
        "Iceberg Compatibility V2",
        "new files say how many rows they have",
        "1 of its files do not say numRecords",
        [ICEBERG, metadata(mapped("id", 1, "id"), **NAMED, enableIcebergCompatV2="true"), add(rows=None)],
    ),
    reported(
        "Iceberg Compatibility V2",
        "files have no deletion vectors",
        "it adds a file with a deletion vector",
        [
            features("columnMapping", "icebergCompatV2", readers=["deletionVectors", "columnMapping"]),
            metadata(mapped("id", 1, "id"), **NAMED, enableIcebergCompatV2="true"),
            add(deletionVector=vector(1)),
        ],
    ),
    reported(
        "Iceberg Compatibility V2",
        "elements, keys and values have ids",
        "a.element has no field id",
        [
            ICEBERG,
            metadata(
                mapped("id", 1, "id"),
                mapped("a", 2, "a", {"type": "array", "elementType": "long", "containsNull": True}),
                **NAMED,
                enableIcebergCompatV2="true",
            ),
        ],
    ),
    reported(
        "Iceberg Compatibility V2",
        "a partitioned table is not replaced by one of another partitioning",
        "partitioned by id is replaced by one that is partitioned by nothing",
        [ICEBERG, metadata(mapped("id", 1, "id"), partition_by=["id"], **NAMED, enableIcebergCompatV2="true")],
        [metadata(mapped("id", 1, "id"), **NAMED, enableIcebergCompatV2="true")],
    ),
    # types that need a feature
    reported(
        "Timestamp without timezone (TimestampNtz)",
        "the protocol supports timestampNtz",
        "does not support timestampNtz",
        [P, metadata(column("t", "timestamp_ntz"))],
    ),
    reported(
        "Variant Data Type",
        "the protocol supports variantType",
        "does not support variantType",
        [P, metadata(column("v", "variant"))],
    ),
    reported(
        "Variant Shredding",
        "variantType is supported",
        "variantShredding requires variantType",
        [protocol(3, 7, ["variantShredding"], ["variantShredding"]), M],
    ),
    reported(
        "Writer Requirements for Variant Shredding",
        "the property says that the protocol supports it",
        "delta.enableVariantShredding is true, but the protocol does not support variantShredding",
        [features(readers=["variantType"]), metadata(column("v", "variant"), enableVariantShredding="true")],
    ),
    reported(
        "Variant Data Type",
        "tables with shredded variants support variantShredding",
        "column v has shredded variants, but the protocol has no variantShredding",
        [features(readers=["variantType"]), metadata(column("v", "variant")), add("s", size=len(SHREDDED))],
    ),
    # Row Tracking
    reported(
        "Row Tracking",
        "domainMetadata is supported",
        "rowTracking requires domainMetadata",
        [protocol(1, 7, None, ["rowTracking"]), M],
    ),
    reported(
        "Row Tracking",
        "row tracking is not both enabled and suspended",
        "both enabled and suspended",
        [TRACKED, metadata(enableRowTracking="true", rowTrackingSuspended="true", **IDS)],
    ),
    reported(
        "Row IDs",
        "every file of an enabled table has ids",
        "it has no base row id",
        [TRACKED, TRACKING, mark(5), add()],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "supported is enough for files to get ids",
        "it adds x without a base row id",
        [TRACKED, M, mark(5)],
        [add()],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "ids are unique in a version",
        "overlap those of another file",
        [
            TRACKED,
            TRACKING,
            mark(9),
            add(baseRowId=0, defaultRowCommitVersion=0),
            add("y", baseRowId=2, defaultRowCommitVersion=0),
        ],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "new ids are above the mark",
        "it gives y row ids that were assigned before: the high-water mark was 5",
        [TRACKED, TRACKING, mark(5), add(baseRowId=0, defaultRowCommitVersion=0)],
        [mark(8), add("y", baseRowId=3, defaultRowCommitVersion=1)],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "the mark is not below an id",
        "exceed the table's high-water mark",
        [TRACKED, TRACKING, mark(1), add(baseRowId=0, defaultRowCommitVersion=0)],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "the mark does not go back",
        "the high-water mark of row ids goes back from 5 to 3",
        [TRACKED, TRACKING, mark(5)],
        [mark(3)],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "the mark does not go back behind the one of a domain that was removed",
        "the high-water mark of row ids goes back from 5 to 3",
        [TRACKED, keeping(M, rowId=5)],
        [TRACKING, mark(3)],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "new ids are above the mark of a domain that was removed",
        "it gives y row ids that were assigned before: the high-water mark was 5",
        [TRACKED, keeping(TRACKING, rowId=5)],
        [mark(8), add("y", baseRowId=3, defaultRowCommitVersion=1)],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "what is kept of a removed domain does not go back",
        "the highest row id in tahoe.keptMarks goes back from 5 to -1",
        [TRACKED, keeping(M, rowId=5)],
        [M],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "a file that is added again keeps its ids",
        "adds x again with base row id 6, but it had 0",
        [TRACKED, TRACKING, mark(9), add(baseRowId=0, defaultRowCommitVersion=0)],
        [add(baseRowId=6, defaultRowCommitVersion=0)],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "a new file has the version of its commit",
        "another default row commit version than its own version, 0",
        [TRACKED, TRACKING, mark(9), add(baseRowId=0, defaultRowCommitVersion=7)],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "the materialised columns have names",
        "rowTracking.materializedRowCommitVersionColumnName is not set",
        [TRACKED, metadata(enableRowTracking="true")],
    ),
    reported(
        "Row Tracking",
        "the property is true or false",
        "it must be true or false",
        [TRACKED, metadata(enableRowTracking="perhaps", **IDS), add()],
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "the mark is a number",
        "rowIdHighWaterMark is not an integer",
        [
            TRACKED,
            TRACKING,
            domain("delta.rowTracking", {"rowIdHighWaterMark": "many"}),
            add(baseRowId=0, defaultRowCommitVersion=0),
        ],
    ),
    reported(
        "Add File and Remove File",
        "a path leads to a storage that is known",
        "the scheme gopher is not",
        first(add("gopher://h/x")),
    ),
    reported(
        "Writer Requirements for Row Tracking",
        "the materialised columns have names of their own",
        "data files keep row ids in columns named id",
        [TRACKED, metadata(enableRowTracking="true", **{**IDS, "rowTracking__materializedRowIdColumnName": "id"})],
    ),
    # Clustered Table
    reported(
        "Clustered Table",
        "domainMetadata is supported",
        "clustering requires domainMetadata",
        [features("clustering"), M],
    ),
    reported(
        "Writer Requirements for Clustered Table",
        "a table is not both clustered and partitioned",
        "both clustered and partitioned by p",
        [
            features("clustering", "domainMetadata"),
            metadata(column(), column("p"), partition_by=["p"]),
            domain("delta.clustering", {"clusteringColumns": [["id"]]}),
        ],
    ),
    reported(
        "Writer Requirements for Clustered Table",
        "the columns are those of the table",
        "clustered by gone, which is not in the schema",
        [features("clustering", "domainMetadata"), M, domain("delta.clustering", {"clusteringColumns": [["gone"]]})],
    ),
    reported(
        "Variant Data Type",
        "a variant is no clustering column",
        "clustered by v, of a type without minimum and maximum statistics",
        [
            features("clustering", "domainMetadata", readers=["variantType"]),
            metadata(column("v", "variant")),
            domain("delta.clustering", {"clusteringColumns": [["v"]]}),
        ],
    ),
    # In-Commit Timestamps
    reported(
        "In-Commit Timestamps",
        "every commit has one",
        "it has none",
        [info(inCommitTimestamp=1), TIMES, TIMED],
        [info()],
    ),
    reported(
        "Writer Requirements for In-Commit Timestamps",
        "they rise",
        "its in-commit timestamp 5 is not later than the previous one, 5",
        [info(inCommitTimestamp=5), TIMES, TIMED],
        [info(inCommitTimestamp=5)],
    ),
    reported(
        "Writer Requirements for In-Commit Timestamps",
        "commitInfo is the first action",
        "commitInfo is not its first action",
        [TIMES, TIMED, info(inCommitTimestamp=5)],
    ),
    reported(
        "Writer Requirements for In-Commit Timestamps",
        "the version that enables them is recorded",
        "inCommitTimestampEnablementVersion must be 1, but it is None",
        [TIMES, M],
        [info(inCommitTimestamp=5), TIMED],
    ),
    reported(
        "Writer Requirements for In-Commit Timestamps",
        "the time that enables them is recorded",
        "inCommitTimestampEnablementTimestamp must be 5, but it is 4",
        [TIMES, M],
        [
            info(inCommitTimestamp=5),
            metadata(
                enableInCommitTimestamps="true",
                inCommitTimestampEnablementVersion="1",
                inCommitTimestampEnablementTimestamp="4",
            ),
        ],
    ),
    reported(
        "Version Checksum File Schema",
        "inCommitTimestampOpt is that of the version",
        "inCommitTimestampOpt is 6, but according to the log it is 5",
        [info(inCommitTimestamp=5), TIMES, TIMED],
        files=checksum(inCommitTimestampOpt=6),
    ),
    # Type Widening
    unreadable(
        "Reader Requirements for Type Widening",
        "a type change is one that is allowed",
        errors.UnsupportedTypeChangeError,
        [
            features(readers=["typeWidening"]),
            metadata(
                column(
                    "id",
                    "integer",
                    **{"delta.typeChanges": [{"fromType": "string", "toType": "integer", "tableVersion": 1}]},
                )
            ),
        ],
    ),
    reported(
        "Type Widening",
        "the protocol supports typeWidening",
        "does not support typeWidening",
        [P, metadata(column(**{"delta.typeChanges": [{"fromType": "integer", "toType": "long", "tableVersion": 1}]}))],
    ),
    # Additional Requirements for Writers
    reported(
        "Consistency Between Table Metadata and Data Files",
        "every file has a value for each partition column",
        "it has no value for the partition column p",
        [P, metadata(column(), column("p"), partition_by=["p"]), add()],
    ),
    unreadable(
        "Consistency Between Table Metadata and Data Files",
        "a file's columns have the types of the table",
        errors.DeltaError,
        [P, metadata(column("id", "boolean")), add(rows=None)],
    ),
    unreadable("Delta Log Entries", "a commit has one metaData action", errors.InvalidCommitError, [P, M, M]),
    unreadable("Delta Log Entries", "a commit has one protocol action", errors.InvalidCommitError, [P, P, M]),
    unwritable(
        "Append-only Tables",
        "no rows are removed",
        errors.AppendOnlyTableError,
        [P, metadata(appendOnly="true"), add()],
    ),
    reported(
        "Append-only Tables",
        "no commit has removed rows",
        "it removes the rows of 1 files, but the table is append-only",
        [P, metadata(appendOnly="true"), add()],
        [remove()],
    ),
    unwritable(
        "Column Invariants",
        "no row breaks an invariant",
        errors.DeltaError,
        [P, metadata(column(**{"delta.invariants": json.dumps({"expression": {"expression": "id < 0"}})})), add()],
    ),
    unwritable(
        "CHECK Constraints",
        "no row breaks a constraint",
        errors.DeltaError,
        [protocol(1, 3), metadata(constraints__c="id < 0"), add()],
    ),
    *(
        reported(
            section,
            f"the protocol supports {name}",
            f"does not support {name}",
            [protocol(1, 7, None, []), metadata(column(**keys))],
        )
        for section, name, keys in (
            (
                "Column Invariants",
                "invariants",
                {"delta.invariants": json.dumps({"expression": {"expression": "id < 9"}})},
            ),
            ("Generated Columns", "generatedColumns", {"delta.generationExpression": "1"}),
            ("Default Columns", "allowColumnDefaults", {"CURRENT_DEFAULT": "1"}),
            ("Identity Columns", "identityColumns", {"delta.identity.start": 1, "delta.identity.step": 1}),
        )
    ),
    reported(
        "Identity Columns",
        "the high-water mark does not go back",
        "the high-water mark of the identity column id goes back from 9 to 4",
        [
            protocol(1, 6),
            metadata(
                column(**{"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 9})
            ),
        ],
        [metadata(column(**{"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 4}))],
    ),
    reported(
        "Identity Columns",
        "the high-water mark does not go back behind the one of a column that was removed",
        "the identity column n begins at 4, but 9 was assigned before",
        [protocol(1, 6), keeping(metadata(), identity={"n": [9]})],
        [
            metadata(
                column(),
                column("n", **{"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 4}),
            )
        ],
    ),
    # Appendix
    *(
        reported("Per-file Statistics", rule, says, first(add(stats=stats)))
        for rule, says, stats in (
            ("numRecords is the number of rows", "4 rows, but the file has 3", '{"numRecords":4}'),
            ("numRecords is a count", "-1 rows", '{"numRecords":-1}'),
            (
                "nullCount is at most numRecords",
                "9 nulls in id, but only 3 rows",
                '{"numRecords":3,"nullCount":{"id":9}}',
            ),
            (
                "nullCount is 0 only without nulls",
                "3 nulls in id, but the file has 0",
                '{"numRecords":3,"nullCount":{"id":3}}',
            ),
            ("a bound is of its column's type", "is not a value of id", '{"numRecords":3,"minValues":{"id":1e400}}'),
            ("no bound excludes a row", "id is at least 1", '{"numRecords":3,"minValues":{"id":1}}'),
            (
                "the least is not above the greatest",
                "at least 2 and at most 1",
                '{"numRecords":3,"minValues":{"id":2},"maxValues":{"id":1}}',
            ),
        )
    ),
    reported(
        "Partition Value Serialization",
        "a value is one of its type",
        "'soon' is not a valid value of p",
        [P, metadata(column(), column("p", "date"), partition_by=["p"]), add(partitionValues={"p": "soon"})],
    ),
    reported(
        "Struct Type",
        "names differ in more than case",
        "differ from others only in case",
        [P, metadata(column("id"), column("ID"))],
    ),
    unreadable(
        "Struct Type", "no name is there twice", errors.DuplicateColumnsError, [P, metadata(column(), column())]
    ),
    unreadable(
        "Schema Serialization Format",
        "a type is one that is known",
        errors.UnsupportedDataTypeError,
        [P, metadata(column("a", "long long"))],
    ),
    reported(
        "Change Metadata",
        "partition columns stay while there are files",
        "the table was partitioned by p and is by nothing, but files of before are live",
        [P, metadata(column(), column("p"), partition_by=["p"]), add(partitionValues={"p": "1"})],
        [metadata(column(), column("p"))],
    ),
    reported(
        "Change Metadata",
        "a partition column is one of the schema",
        "partitioned by q, but its schema has no such column",
        [P, metadata(partition_by=["q"])],
    ),
    reported(
        "Change Metadata",
        "a partition column is there once",
        "partitioned by p more than once",
        [P, metadata(column(), column("p"), partition_by=["p", "p"])],
    ),
    reported(
        "Partition Value Serialization",
        "a partition column has a primitive type",
        "partitioned by s, which has no primitive type",
        [P, metadata(column(), column("s", {"type": "struct", "fields": []}), partition_by=["s"])],
    ),
    *(
        reported(
            "Variant Data Type",
            f"a {kind} is no partition column",
            "partitioned by v, which has no primitive type with an order",
            [features(readers=[feature]), metadata(column(), column("v", kind), partition_by=["v"])],
        )
        for kind, feature in (("variant", "variantType"), ("geometry", "geospatial"))
    ),
    reported(
        "Last Checkpoint File Schema",
        "the checksum is that of the file",
        "its checksum is wrong",
        first(),
        files=lambda env: env.store.put(log_files.LAST_CHECKPOINT, b'{"version":0,"size":1,"checksum":"0"}'),
    ),
)


def written(broken: Broken) -> Env:
    env = memory_env()
    for path in ("x", "y", "z"):
        env.store.put(path, DATA)
    env.store.put("w", TWO_ROWS)
    env.store.put("s", SHREDDED)
    for version, lines in enumerate(broken.commits):
        if lines:  # an empty commit stands for one that is missing
            env.store.put(log_files.commit_key(version), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    broken.files(env)
    return env


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: f"{broken.section}: {broken.rule}")
def test_a_log_that_breaks_a_rule_is_refused_or_reported(broken: Broken) -> None:
    env = written(broken)
    table = tahoe.Table("memory://broken", env=env)
    if broken.who == "check":
        found = list(check_table(Log(env)))
        assert any(str(broken.says) in finding.detail for finding in found), [finding.detail for finding in found]
        assert all(finding.next_step for finding in found)
        return
    assert not isinstance(broken.says, str)
    with pytest.raises(broken.says):
        if broken.who == "reading":
            table.to_arrow()
        elif broken.says is errors.AppendOnlyTableError:
            table.delete()
        else:
            table.append(pa.table({"id": pa.array([5], pa.int64())}))
    assert list(check_table(Log(env))) or broken.who == "writing", "check is silent about a table that cannot be read"


CALLS: Mapping[str, Callable[[tahoe.Table], object]] = {
    "to_arrow": lambda table: table.to_arrow(),
    "files": lambda table: table.files(),
    "filter": lambda table: table.to_arrow(filter="id > 1"),
    "history": lambda table: list(table.history()),
    "append": lambda table: table.append(pa.table({"id": pa.array([5], pa.int64())})),
    "delete": lambda table: table.delete("id = 1"),
    "optimize": lambda table: table.optimize(),
    "repair": lambda table: table.repair(verify_all_files=True),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_log_that_breaks_a_rule_ends_in_our_errors_only(call: Callable[[tahoe.Table], object]) -> None:
    for broken in BROKEN:
        with suppress(errors.DeltaError):
            call(tahoe.Table("memory://broken", env=written(broken)))


HEALTHY: Sequence[Sequence[Sequence[Line]]] = (
    [first(add(), txn(1))],
    [
        [VECTORS, M, add()],
        [remove(), add(deletionVector=vector(0))],
        [remove(deletionVector=vector(0)), add(deletionVector=vector(0, 1))],
    ],
    [first(add()), [info(operation="OPTIMIZE"), remove(**MOVES), add("y", **MOVES)]],
    [first(add()), [add(tags={"a": "b"}, **MOVES)]],
    [
        [VECTORS, M, add(deletionVector=vector(1))],
        [remove(deletionVector=vector(1), **MOVES), add("w", rows=2, size=len(TWO_ROWS), **MOVES)],
    ],
    [first(add(rows=None)), [remove(**MOVES), add("y", **MOVES)]],
    [first(txn(5)), [txn(4)]],
    [first(add()), [info(operation="Deletion Vector Tombstones"), remove("deletion_vector_a.bin", **MOVES)]],
    [
        [protocol(2, 5), metadata(mapped("id", 1, "id"), **NAMED), add()],
        [metadata(mapped("renamed", 1, "id"), **NAMED)],
    ],
    [
        [TRACKED, TRACKING, mark(2), add(baseRowId=0, defaultRowCommitVersion=0)],
        [add(baseRowId=0, defaultRowCommitVersion=0, **MOVES)],
    ],
    [[info(inCommitTimestamp=5), TIMES, TIMED], [info(inCommitTimestamp=6)]],
    [[protocol(2, 7, None, ["columnMapping"]), metadata(mapped("id", 1, "id"), **NAMED)]],
)


@pytest.mark.parametrize("commits", HEALTHY)
def test_of_a_legal_log_nothing_is_reported(commits: Sequence[Sequence[Line]]) -> None:
    """A false alarm would teach users not to look."""
    env = written(Broken(section="", rule="", commits=commits, who="check", says=""))
    checksum()(env) if len(commits) == 1 else None
    found = list(check_table(Log(env)))
    assert [(f.kind, f.detail) for f in found] == []


# Rules for what writers and readers do, which no log can show alone: a heading of PROTOCOL.md, the rule, and a test of
# ours.
KEPT: Sequence[tuple[str, str, str]] = (
    ("Delta Log Entries", "an existing commit is never replaced", "test_put_if_absent_never_touches_what_is_there"),
    (
        "Checkpoints",
        "a checkpoint in use is not newer than the version",
        "test_the_newest_checkpoint_not_after_the_version_is_used",
    ),
    (
        "Checkpoints",
        "readers ignore a multi-part checkpoint with missing parts",
        "test_a_multi_part_checkpoint_without_one_of_its_parts_is_ignored",
    ),
    (
        "Checkpoints",
        "tombstones stay until they expire",
        "test_tombstones_stay_until_they_expire_and_not_where_the_file_came_back",
    ),
    (
        "Version Checksum File",
        "the totals are those of the version",
        "test_every_commit_has_a_checksum_that_the_files_agree_with",
    ),
    ("Version Checksum File", "an existing checksum is not replaced", "test_put_if_absent_never_touches_what_is_there"),
    (
        "Add CDC File",
        "the changes of a version with cdc files are those",
        "test_a_feed_makes_a_copy_of_the_table_whatever_is_done_to_it",
    ),
    ("Domain Metadata", "domains of features are closed to users", "test_domains_of_features_are_closed"),
    ("Domain Metadata", "domains that are not understood stay", "test_txns_and_user_domains_stay"),
    (
        "Writer Requirements for Column Mapping",
        "files have physical names",
        "test_mapped_columns_have_physical_names_in_files_and_statistics",
    ),
    (
        "Reader Requirements for Column Mapping",
        "columns are found by name or id",
        "test_mapped_columns_go_by_their_physical_names",
    ),
    (
        "Reader Requirements for Deletion Vectors",
        "deleted rows are not read",
        "test_reading_deleting_and_replacing_take_the_same_rows",
    ),
    (
        "Writer Requirement for Deletion Vectors",
        "numRecords stays",
        "test_a_vector_keeps_the_statistics_and_says_that_they_are_wide",
    ),
    ("Deletion Vector Format", "every stored form is read", "test_every_vector_of_a_file_is_read_by_its_descriptor"),
    (
        "Writer Requirements for Clustered Table",
        "files have statistics of the columns",
        "test_appends_and_overwrites_leave_a_table_clustered",
    ),
    (
        "Writer Requirements for In-Commit Timestamps",
        "each is later than the one before",
        "test_they_rise_where_the_clock_does_not",
    ),
    (
        "Writer Requirements for Type Widening",
        "changes are recorded",
        "test_types_are_widened_at_every_depth_and_each_change_is_recorded_at_the_column_above",
    ),
    (
        "Reader Requirements for Type Widening",
        "older files are read in the new type",
        "test_widened_types_and_added_columns",
    ),
    (
        "Void Type",
        "nothing is written to a table of void columns alone",
        "test_a_table_of_nothing_but_void_takes_no_rows",
    ),
    (
        "Metadata Cleanup",
        "a checkpoint covers what is deleted",
        "test_cleanup_keeps_every_version_from_the_checkpoint_before_the_cutoff",
    ),
    (
        "Writer Requirements for Vacuum Protocol Check",
        "VACUUM checks the protocol",
        "test_nothing_is_deleted_once_the_table_needs_an_unknown_feature",
    ),
    ("Generated Columns", "values are those of the expression", "test_generated_columns_are_computed_and_checked"),
    (
        "Identity Columns",
        "values are never given twice",
        "test_identity_values_are_not_given_twice_after_a_version_without_the_column",
    ),
    (
        "CHECK Constraints",
        "existing rows are checked first",
        "test_a_constraint_holds_for_the_rows_that_are_there_and_for_those_that_come",
    ),
    ("V2 Spec", "sidecars are part of the checkpoint", "test_a_checkpoint_holds_what_the_commits_add_up_to"),
)


def test_every_rule_for_writers_has_a_test() -> None:
    """A test that was renamed leaves a rule without its proof."""
    of_stores = Path(str(tahoe.__file__)).parent / "testing"
    folders = (Path(__file__).parents[1], of_stores)
    texts = [path.read_text() for folder in folders for path in folder.rglob("test_*.py")]
    tests = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    assert [test for _, _, test in KEPT if test not in tests] == []
