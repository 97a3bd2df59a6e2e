"""Queries that cannot go on: both implementations say so, with the same condition."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import tahoe
from tests.interop import queries
from tests.interop.reference import Reference, ReferenceFailure
from tests.interop.streamed_tables import LAST, LATER, Sides, make, query_of, rows, run_statements

UPDATE = "UPDATE delta.`{path}` SET x = 0 WHERE id = 3"
DELETE = "DELETE FROM delta.`{path}` WHERE p = 'a b=1%'"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A query that cannot go on.

    Attributes:
        condition: of the error, in both.
        tahoes: of tahoe's error, if tahoe names such a failure alike in all statements, with a condition of its own.
        table: the name of its source; see TABLES.
        before: whether it has read everything before. `one_batch`: or only a batch.
        statements: are run on its source then. `overwritten_by`: rows that then replace those of the source, and its
            schema.
        damage: is done to the folder of its source after that; the table is made again if it is gone.
        about: the query, in which it fails.
    """

    condition: str
    tahoes: str = ""
    table: str = "partitioned"
    before: bool = True
    one_batch: bool = False
    statements: tuple[str, ...] = ()
    overwritten_by: pa.Table | None = None
    damage: Callable[[Path], None] = lambda path: None
    about: Mapping[str, Any] = field(default_factory=dict)


def without(*names: str) -> Callable[[Path], None]:
    def delete(path: Path) -> None:
        for name in names:
            for file in path.joinpath("_delta_log").glob(f"*{name}*"):
                file.unlink()

    return delete


def only_checkpoint(path: Path) -> None:
    tahoe.Table(str(path)).create_checkpoint()
    without("00.json", "01.json", "02.json", "03.json", "04.json", ".crc")(path)


def with_a_gap(path: Path) -> None:
    tahoe.Table(str(path)).create_checkpoint()
    without("04.json", ".crc")(path)


FAILURES = {
    "delete": Failure(
        condition="DELTA_SOURCE_IGNORE_DELETE",
        before=False,
        statements=(DELETE,),
        about={"options": {"startingVersion": "3"}},
    ),
    "update": Failure(
        condition="DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        before=False,
        statements=(UPDATE,),
        about={"options": {"startingVersion": "3", "ignoreDeletes": "true"}},
    ),
    "delete by vectors": Failure(
        condition="DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        before=False,
        table="vectors",
        about={"options": {"startingVersion": "2", "ignoreDeletes": "true"}},
    ),
    "other type": Failure(
        condition="DELTA_SCHEMA_CHANGED_WITH_VERSION",
        one_batch=True,
        overwritten_by=pa.table({"id": ["a"], "p": ["b"], "x": [1.0]}),
        about={"options": {"maxFilesPerTrigger": "1"}},
    ),
    "other type than at the start": Failure(
        condition="DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS",
        before=False,
        overwritten_by=pa.table({"id": ["a"], "p": ["b"], "x": [1.0]}),
        about={"options": {"startingVersion": "1", "ignoreChanges": "true"}},
    ),
    "renamed column": Failure(
        condition="DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
        table="mapped",
        one_batch=True,
        statements=("ALTER TABLE delta.`{path}` RENAME COLUMN y TO z",),
        about={"options": {"maxFilesPerTrigger": "1"}},
    ),
    "missing commit": Failure(condition="DELTA_MISSING_FILES_UNEXPECTED_VERSION", statements=LATER, damage=with_a_gap),
    "trailing commit": Failure(
        condition="DELTA_STREAMING_TRAILING_COMMIT_MISSING",
        before=False,
        one_batch=True,
        damage=without("02.json", ".crc"),
        about={"options": {"startingVersion": "1"}},
    ),
    "initial snapshot": Failure(
        condition="DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        one_batch=True,
        statements=LATER,
        damage=only_checkpoint,
        about={"options": {"maxFilesPerTrigger": "1"}},
    ),
    "other table": Failure(condition="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", damage=shutil.rmtree),
    "start that is not there": Failure(
        condition="DELTA_VERSION_NOT_FOUND", before=False, about={"options": {"startingVersion": "99"}}
    ),
    "start after the last commit": Failure(
        condition="DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        tahoes="DELTA_TIMESTAMP_OUT_OF_RANGE",
        before=False,
        about={"options": {"startingTimestamp": "2999-01-01"}},
    ),
    "two starts": Failure(
        condition="DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
        before=False,
        about={"options": {"startingVersion": "1", "startingTimestamp": "2020-01-01"}},
    ),
    "time travel": Failure(
        condition="DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS", before=False, about={"options": {"versionAsOf": "1"}}
    ),
    "limit": Failure(condition="DELTA_ILLEGAL_OPTION", before=False, about={"options": {"maxFilesPerTrigger": "0"}}),
    "update mode": Failure(condition="DELTA_UNSUPPORTED_OUTPUT_MODE", before=False, about={"mode": "update"}),
    "void column": Failure(
        condition="DELTA_NULL_SCHEMA_IN_STREAMING_WRITE", before=False, about={"columns": ["id", "null as v"]}
    ),
    "more columns": Failure(
        condition="DELTA_METADATA_MISMATCH", about={"columns": ["*", "id + 1 as j"]}, statements=LAST
    ),
    "partitions of the sink": Failure(
        condition="DELTA_METADATA_MISMATCH", about={"partition_by": ["p"]}, statements=LAST
    ),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_failures_have_the_same_condition(reference: Reference, sides: Sides, failure: Failure, tmp_path: Path) -> None:
    table = make(reference, str(tmp_path / "t"), failure.table)
    found = {}
    if failure.before:
        for name, side in sides.items():
            options = failure.about["options"] if failure.one_batch else {}
            side(query_of(table, tmp_path / name, options=options), one_batch=failure.one_batch)
    elif failure.one_batch:
        for name, side in sides.items():
            query = query_of(table, tmp_path / name, **failure.about)
            side(query, one_batch=True)
            for file in ("commits/0", "commits/.0.crc"):
                Path(query.checkpoint, file).unlink()
    run_statements(reference, table, failure.statements)
    if failure.overwritten_by is not None:
        reference.write(
            table, failure.overwritten_by, mode="overwrite", partition_by=["p"], options={"overwriteSchema": "true"}
        )
    failure.damage(Path(table))
    if not Path(table).exists():
        make(reference, table, failure.table)
    for name, side in sides.items():
        try:
            side(query_of(table, tmp_path / name, **failure.about))
        except (PySparkException, ReferenceFailure) as error:
            found[name] = (queries.conditions(str(error)) or [getattr(error, "condition", None) or str(error)[:300]])[0]
    assert found == {"tahoe": failure.tahoes or failure.condition, "reference": failure.condition}


def test_a_query_may_lose_data(reference: Reference, sides: Sides, tmp_path: Path) -> None:
    """Commits that are gone are passed over with failOnDataLoss = false."""
    table = make(reference, str(tmp_path / "t"), "partitioned")
    for name, side in sides.items():
        side(query_of(table, tmp_path / name))
    run_statements(reference, table, LATER + LAST)
    with_a_gap(Path(table))
    found = []
    for name, side in sides.items():
        query = query_of(table, tmp_path / name, options={"failOnDataLoss": "false"})
        side(query)
        found.append((queries.offsets(query), rows(query.sink)))
    assert found[0] == found[1]
