"""Commands, which pass through Spark's optimiser before they run: those that write to a Delta table are run here instead, those that would
damage one are refused, and all others go their way.
"""

from __future__ import annotations

from collections.abc import Mapping

from tahoe.spark import guard, planning
from tahoe.spark.gateway import Gateway, JavaObject


def instead_of(gateway: Gateway, name: str, plan: JavaObject) -> JavaObject | None:
    """The plan to run instead of a command, or None to run it as it is.

    It is asked more than once, and for EXPLAIN too: nothing is done here.
    """
    guard.check(gateway, name, plan)
    return None


def run(gateway: Gateway, plan: JavaObject) -> JavaObject:
    return gateway.seq([])


def save(gateway: Gateway, mode: str, options: Mapping[str, str], given: JavaObject, data: JavaObject) -> JavaObject:
    return planning.relation(gateway, options, given)


def insert(gateway: Gateway, files: JavaObject, data: JavaObject, overwrite: bool) -> None:
    pass


def create(gateway: Gateway, staged: JavaObject) -> None:
    pass
