"""Redistributes rows before they are written, by one shuffle. Either files become as large as wanted, because Spark's
adaptive execution cuts the shuffle into tasks by the sizes that it measures; or a function of the caller says which
rows are in which file.

The shuffle is a query of its own over the rows of the user's query, so its settings do not apply to the stages of the
user's query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.spark.jvm.gateway import Gateway, JavaObject

# Given a function that returns the rows of a query, and their bytes as Spark estimates them, returns the rows as they
# are to be written, or None if they are left as they are. It may evaluate the rows more than once: that runs the last
# stage of their query again.
LayOut: TypeAlias = Callable[[Callable[[], DataFrame], int], DataFrame | None]

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_DIRECT = "org.apache.spark.sql.catalyst.expressions.DirectShufflePartitionID"

# Without partition columns, the rows of a task are sent in pieces of this many rows to up to this many groups, which
# are next to each other: joined again, they are in their order.
_PIECE_ROWS = 1 << 19
_PIECES = 8
_TASK = "__tahoe_task"

# The row number in Spark's `monotonically_increasing_id`.
_ROW_MASK = (1 << 33) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Redistribution:
    """How rows are redistributed.

    Attributes:
        task_bytes: the size of a task's rows as Spark shuffles them. Larger groups of rows are split, smaller ones
            joined.
        blocks_max: how many blocks the shuffle may have: the tasks before it times the groups after it.
        groups_max: how many groups of rows there may be.
    """

    task_bytes: int
    blocks_max: int
    groups_max: int

    def groups(self, tasks: int) -> int:
        return min(max(self.blocks_max // tasks, 1), self.groups_max)


def redistributed(
    gateway: Gateway, session: JavaObject, query: JavaObject, columns: Sequence[int], redistribution: Redistribution
) -> JavaObject:
    """The executed plan of a query with its rows redistributed: with all rows of the same values in one task, if they
    are not too many.

    All stages of the query but the last run now. Rows of a single task are left as they are.

    Args:
        session: runs the shuffle; its settings are changed.
        columns: the positions of the columns whose values belong together; without columns, rows stay in their order.
    """
    rows = query.toRdd()
    tasks = int(rows.getNumPartitions())
    if tasks <= 1:
        return query.executedPlan()
    settings = session.sessionState().conf()
    for name, value in _settings(redistribution, tasks, keeps_cores_busy=bool(columns)).items():
        settings.setConfString(name, value)
    frame = session.internalCreateDataFrame(rows, query.analyzed().schema(), False)
    placed = frame if columns else frame.withColumn(_TASK, _place(tasks, redistribution.groups(tasks)))
    plan = placed.queryExecution().analyzed()
    output = list(gateway.items(plan.output().iterator()))
    by = [output[column] for column in columns] or [gateway.java_class(_DIRECT)(output[-1])]
    rebalanced = gateway.build(_LOGICAL + "RebalancePartitions", gateway.seq(by), plan)
    whole = rebalanced if columns else gateway.build(_LOGICAL + "Project", gateway.seq(output[:-1]), rebalanced)
    return gateway.module("org.apache.spark.sql.classic.Dataset").ofRows(session, whole).queryExecution().executedPlan()


def laid_out(gateway: Gateway, session: JavaObject, query: JavaObject, lay_out: LayOut) -> JavaObject | None:
    """The executed plan of a query with its rows laid out; None if they are left as they are.

    All stages of the query but the last run as soon as `lay_out` asks for the rows.

    Args:
        session: runs the shuffle.
    """

    def rows() -> DataFrame:
        return gateway.dataframe(session.internalCreateDataFrame(query.toRdd(), query.analyzed().schema(), False))

    arranged = lay_out(rows, int(query.optimizedPlan().stats().sizeInBytes()))
    return None if arranged is None else arranged._jdf.queryExecution().executedPlan()


def _place(tasks: int, groups: int) -> JavaObject:
    """The group of a row. Later tasks have the same or later groups."""
    pieces = max(1, min(_PIECES, groups // tasks))
    number = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_MASK))
    piece = F.pmod((number / _PIECE_ROWS).cast("long"), F.lit(pieces))
    place = F.spark_partition_id().cast("long") * pieces + piece
    count = tasks * pieces
    return (place if count <= groups else F.floor(place * groups / count)).cast("int")._jc


def _settings(redistribution: Redistribution, tasks: int, *, keeps_cores_busy: bool) -> dict[str, str]:
    """The settings of adaptive execution.

    Args:
        keeps_cores_busy: use more and smaller tasks if cores would be idle. The files of a partition are not more for
            it.
    """
    adaptive = "spark.sql.adaptive."
    return {
        adaptive + "enabled": "true",
        adaptive + "advisoryPartitionSizeInBytes": str(redistribution.task_bytes),
        adaptive + "optimizeSkewsInRebalancePartitions.enabled": "true",
        adaptive + "coalescePartitions.enabled": "true",
        adaptive + "coalescePartitions.initialPartitionNum": str(redistribution.groups(tasks)),
        adaptive + "coalescePartitions.parallelismFirst": str(keeps_cores_busy).lower(),
    }
