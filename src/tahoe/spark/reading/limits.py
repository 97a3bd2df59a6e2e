"""Limits of Spark's queries, for which a scan leaves out files: from what Java tells of a plan to a limit of the
protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tahoe.protocol.statistics.limits import Order, RowLimit
from tahoe.protocol.types.predicate import Predicate
from tahoe.spark.configuration import setting_names
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.reading.answers import are_trusted, has_all_rows
from tahoe.spark.reading.filters import column_of


def limit_of(limit_json: str, condition: Predicate) -> RowLimit | None:
    """The limit that `delta.Limit` describes in JSON; None for an order by another expression than a column.

    Args:
        condition: what is true for exactly the rows of which the query needs some.
    """
    limit = json.loads(limit_json)
    if "order" not in limit:
        return RowLimit(limit["rows"], None, condition)
    [nodes] = limit["order"] or [[]]
    column = column_of(nodes)
    return (
        None
        if column is None
        else RowLimit(limit["rows"], Order(column, limit["descending"], limit["nulls_first"]), condition)
    )


def are_wanted(gateway: Gateway, options: Mapping[str, str]) -> bool:
    """Whether the session, and the reader of a table with these options, allow scans to leave out files because of a
    limit.

    The reference has the setting for LIMIT without an order. Here it is also for the first rows in an order.
    """
    return (
        are_trusted(gateway) and setting_names.LIMIT_PUSHDOWN.of(gateway.spark.conf) and has_all_rows(gateway, options)
    )
