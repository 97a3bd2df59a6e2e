"""Refuses queries with triggers that tables cannot have, before they start."""

from __future__ import annotations

from tahoe.errors import UnsupportedOperationError
from tahoe.spark.jvm.gateway import Gateway, JavaObject
from tahoe.spark.jvm.statements.streaming_plans import tables_of, trigger_of

# By the simple names of Spark's classes.
_REFUSED = {"ContinuousTrigger": "A continuous trigger", "RealTimeTrigger": "A real-time trigger"}

_REMEDY = (
    'Use trigger(processingTime="0 seconds") for a batch as soon as there is a commit, trigger(processingTime="1 '
    'minute"), or '
    "trigger(availableNow=True)."
)


def check_trigger(gateway: Gateway, plan: JavaObject) -> None:
    """Refuse the start of a query.

    Args:
        plan: the logical plan that starts the query, a `WriteToStreamStatement`.

    Raises:
        UnsupportedOperationError: the query has another trigger than micro-batches, and reads or writes a Delta table.
    """
    operation = _REFUSED.get(trigger_of(plan))
    tables = tables_of(gateway, plan) if operation is not None else []
    if tables:
        why = (
            "supports them only for sources and sinks that process single records, but a table is read in whole commits"
        )
        detail = f"Spark {gateway.spark.version} {why}"
        raise UnsupportedOperationError(operation=operation, table=tables[0], detail=detail, remedy=_REMEDY)
