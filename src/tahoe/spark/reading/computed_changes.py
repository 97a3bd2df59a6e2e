"""The changes of a table whose writers did not record them, from the ids of its rows.

The files that a commit removes and adds have all rows that it changed, and those that it only copied. A copy has the
row's id and the version that last changed the row, so both sides of it are left out; the two sides of an update have
the id, and other versions.

Protocol: "Row Tracking".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  the usual name in PySpark code

from tahoe.protocol.configuration.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, FIELDS
from tahoe.protocol.configuration.row_tracking import METADATA, ROW_COMMIT_VERSION, ROW_ID
from tahoe.protocol.types.names import quoted, unused_name
from tahoe.protocol.types.predicate import TRUE, Predicate, known_by
from tahoe.protocol.types.schema import Struct
from tahoe.spark.reading.filters import predicate_of
from tahoe.spark.reading.metadata_columns import Output, hidden_field, output_of
from tahoe.table.versions.change_feed import ChangeFeed

# A query that names more versions takes long to plan.
_NAMED_VERSIONS_MAX = 200

_PRE, _POST = "update_preimage", "update_postimage"


def computed_changes(
    read: Callable[[Output, Predicate], DataFrame], feed: ChangeFeed, output: str, filters: str
) -> DataFrame:
    """The rows of a feed that is not `recorded`, with the columns that a query uses.

    Args:
        read: reads the rows of the files of the feed that may match a predicate.
        output, filters: in JSON, the columns that the query uses, and conditions that hold for every row that it uses;
            see `planning.plan_scan`. Only those on versions and times leave files out, of changes that are not net: a
            condition on another column may hold for one side of an update alone.
    """
    if not feed.needs_row_ids:
        return read(output_of(output, None), predicate_of(filters))
    fields = json.loads(output)["fields"]
    names = [field["name"] for field in fields]
    needed = [*fields, *(own for own in json.loads(Struct(FIELDS).to_json())["fields"] if own["name"] not in names)]
    ids = {"type": "struct", "fields": [hidden_field(name) for name in (ROW_ID, ROW_COMMIT_VERSION)]}
    needed.append({"name": METADATA, "type": ids, "nullable": False, "metadata": {"__metadata_col": METADATA}})
    is_net = feed.range.kind == "net"
    known = TRUE if is_net else known_by(predicate_of(filters), (COMMIT_VERSION, COMMIT_TIMESTAMP))
    rows = read(output_of(json.dumps({"type": "struct", "fields": needed}), feed.snapshot.row_tracking), known)
    changes = _without_copies(rows, feed.paired_versions)
    return (_net(changes) if is_net else changes).select(*map(quoted, names))


def _without_copies(rows: DataFrame, paired: Sequence[int]) -> DataFrame:
    """The changed rows; both sides of an update are marked as such.

    Args:
        paired: the versions that remove and add rows with ids; others have no copies, and no updates that are told.
    """
    if not paired:
        return rows
    is_paired = F.col(COMMIT_VERSION).isin(list(paired)) if len(paired) <= _NAMED_VERSIONS_MAX else F.lit(True)
    sides = Window.partitionBy(COMMIT_VERSION, f"{METADATA}.{ROW_ID}")
    number, versions, kind = F.count("*").over(sides), f"{METADATA}.{ROW_COMMIT_VERSION}", F.col(CHANGE_TYPE)
    two, same = (unused_name(name, rows.columns) for name in ("two", "same"))
    is_pair = (number > 1) & F.col(f"{METADATA}.{ROW_ID}").isNotNull()
    numbered = rows.where(is_paired).select(
        "*",
        is_pair.alias(two),
        (is_pair & F.min(versions).over(sides).eqNullSafe(F.max(versions).over(sides))).alias(same),
    )
    updated = F.when(F.col(two), F.when(kind == "delete", _PRE).otherwise(_POST)).otherwise(kind)
    changed = numbered.where(~F.col(same)).withColumn(CHANGE_TYPE, updated).drop(two, same)
    return changed if len(paired) > _NAMED_VERSIONS_MAX else rows.where(~is_paired).unionAll(changed)


def _net(changes: DataFrame) -> DataFrame:
    """The first and the last change of each row, as far as they remain: a row that came and went is left out, and one
    that was there before and is there now was updated.
    """
    of_row = Window.partitionBy(f"{METADATA}.{ROW_ID}")
    is_there = F.col(CHANGE_TYPE).isin("insert", _POST)
    order = of_row.orderBy(COMMIT_VERSION, is_there)
    first, last, was_there, remains, same = (
        unused_name(name, changes.columns) for name in ("first", "last", "was_there", "remains", "same")
    )
    changed_at = f"{METADATA}.{ROW_COMMIT_VERSION}"
    whole = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    kind = F.when(F.col(first) & F.col(was_there), F.when(F.col(remains), _PRE).otherwise("delete")).when(
        F.col(last) & F.col(remains), F.when(F.col(was_there), _POST).otherwise("insert")
    )
    ends = changes.select(
        "*",
        (F.row_number().over(order) == 1).alias(first),
        (F.row_number().over(order) == F.count("*").over(of_row)).alias(last),
        (~F.first(is_there).over(whole)).alias(was_there),
        F.last(is_there).over(whole).alias(remains),
        F.first(changed_at).over(whole).eqNullSafe(F.last(changed_at).over(whole)).alias(same),
    )
    is_same = F.col(was_there) & F.col(remains) & F.col(same)  # it was deleted and restored
    left = ends.where(~is_same).withColumn(CHANGE_TYPE, kind).where(F.col(CHANGE_TYPE).isNotNull())
    return left.drop(first, last, was_there, remains, same)
