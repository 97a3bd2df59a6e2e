"""A query that tracks its schema goes from one implementation to the other, with its checkpoint and its log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tahoe.protocol.streams.stream_schema import parse_entry
from tests.interop.queries import Query, run
from tests.interop.reference import Reference, ReferenceFailure

FAILURES = (ReferenceFailure, StreamingQueryException)
EVOLVES = "DELTA_STREAMING_METADATA_EVOLUTION"


def test_a_query_goes_on_in_the_other_implementation(spark: SparkSession, reference: Reference, tmp_path: Path) -> None:
    source, sink = str(tmp_path / "source"), str(tmp_path / "sink")

    def query(options: Mapping[str, str]) -> Query:
        checkpoint = f"{sink}-checkpoint"
        tracking = {"schemaTrackingLocation": checkpoint, **options}
        return Query(
            sources=[source], sink=sink, checkpoint=checkpoint, options=tracking, columns=["to_json(struct(*)) AS row"]
        )

    def ours(**options: str) -> None:
        run(spark, query(options))

    def theirs(**options: str) -> None:
        reference.stream(query(options))

    def evolves(goes_on: Callable[[], None]) -> None:
        with pytest.raises(FAILURES, match=EVOLVES):
            goes_on()

    def suffix_in(goes_on: Callable[[], None]) -> str:
        """The suffix of settings for this query, from the error that asks for an acknowledgement."""
        with pytest.raises(
            FAILURES, match="DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
        ) as caught:
            goes_on()
        found = re.search(r"\.ckpt_-?\d+", str(caught.value))
        assert found is not None
        return found[0]

    reference.run(
        f"CREATE TABLE delta.`{source}` (id INT, a STRING, b STRING) USING delta TBLPROPERTIES "
        f"('delta.columnMapping.mode' = 'name')",
        f"INSERT INTO delta.`{source}` VALUES (1, 'a', 'b')",
    )
    ours()
    reference.run(
        f"ALTER TABLE delta.`{source}` RENAME COLUMN a TO c", f"INSERT INTO delta.`{source}` VALUES (2, 'c', 'b')"
    )
    evolves(theirs)
    suffix = suffix_in(theirs)
    assert suffix_in(ours) == suffix
    ours(allowSourceColumnRename="always")
    reference.run(f"ALTER TABLE delta.`{source}` DROP COLUMN b", f"ALTER TABLE delta.`{source}` ADD COLUMN d INT")
    evolves(lambda: ours(allowSourceColumnRename="always"))
    reference.run(f"INSERT INTO delta.`{source}` VALUES (3, 'c', 3)")
    assert suffix_in(theirs) == suffix  # has merged the two changes
    with reference.settings({f"spark.databricks.delta.streaming.allowSourceColumnDrop{suffix}": "always"}):
        theirs()
        reference.run(
            f"ALTER TABLE delta.`{source}` ADD COLUMN e INT", f"INSERT INTO delta.`{source}` VALUES (4, 'c', 4, 4)"
        )
        evolves(theirs)
    ours()
    found = sorted(row.row for row in spark.read.format("delta").load(sink).collect())
    assert [json.loads(row) for row in found] == [
        {"id": 1, "a": "a", "b": "b"},
        {"id": 2, "c": "c", "b": "b"},
        {"id": 3, "c": "c", "d": 3},
        {"id": 4, "c": "c", "d": 4, "e": 4},
    ]
    check_files(Path(f"{sink}-checkpoint"))


def check_files(checkpoint: Path) -> None:
    """Both have written the log: byte for byte what our encoder writes, and all of one source."""
    (folder,) = checkpoint.glob("_schema_log_*")
    files = sorted((file for file in folder.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    entries = [parse_entry(file.read_bytes(), str(file)) for file in files]
    assert [entry.to_bytes() for entry in entries] == [file.read_bytes() for file in files]
    assert [entry.previous for entry in entries] == [None, None, None, 1, None]
    assert {entry.source_path for entry in entries} == {f"file:{checkpoint}/sources/0"}
