"""Streaming queries as values, and the one place where such a query is run: by tahoe in our process, by the reference
in its own.

Nothing of tahoe is imported here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query from tables into a table.

    Attributes:
        sources: the paths of the tables, whose rows are united.
        options: of the readers.
        counts: a column to count rows by, in complete mode.
        distinct: a column whose values are written once.
        columns: expressions to write; all columns if there are none.
        mode: the output mode; append, or complete with `counts`, if none is given.
    """

    sources: Sequence[str]
    sink: str
    checkpoint: str
    options: Mapping[str, str] = field(default_factory=dict)
    counts: str = ""
    distinct: str = ""
    columns: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    mode: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def frame(self, spark: SparkSession) -> DataFrame:
        readers = [spark.readStream.format("delta").options(**self.options).load(path) for path in self.sources]
        rows = reduce(DataFrame.union, readers)
        if self.counts:
            rows = rows.groupBy(self.counts).count()
        if self.distinct:
            rows = rows.select(self.distinct).dropDuplicates([self.distinct])
        return rows.selectExpr(*self.columns) if self.columns else rows


def run(spark: SparkSession, query: Query, one_batch: bool = False) -> None:
    """Run a query over all that its sources have, or for one batch, and wait for it. Raises what Spark raises."""
    writer = query.frame(spark).writeStream.format("delta").option("checkpointLocation", query.checkpoint)
    writer = writer.outputMode(query.mode or ("complete" if query.counts else "append")).partitionBy(
        *query.partition_by
    )
    if not one_batch:
        writer.trigger(availableNow=True).start(query.sink).awaitTermination()
        return
    running = writer.trigger(processingTime="1 hour").start(query.sink)  # the first batch at once, the next one never
    try:
        while running.isActive and not running.recentProgress:
            time.sleep(0.02)
        if running.exception() is not None:
            running.awaitTermination()
    finally:
        running.stop()


def offsets(query: Query) -> list[list[str]]:
    """The offsets of each batch in a query's checkpoint, as they are written there: one of each source."""
    files = sorted(
        (file for file in Path(query.checkpoint, "offsets").iterdir() if file.name.isdigit()),
        key=lambda file: int(file.name),
    )
    return [file.read_text().splitlines()[2:] for file in files]


def conditions(message: str) -> list[str]:
    """The conditions of Delta that an error's message names."""
    return re.findall(r"\[((?:DELTA|DIFFERENT_DELTA)_[A-Z_.]+)\]", message)
