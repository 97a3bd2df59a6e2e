"""`tahoe.Table` as an engine: the same statements, without Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tahoe
from tahoe.errors import DeltaError
from tests.dml.calls import Call
from tests.dml.expressions import SOURCE, TARGET
from tests.dml.model import Statement
from tests.dml.runner import Answer, StatementRefused


class OnArrow:
    """`tahoe.Table`'s delete, update and merge."""

    refuses_idle_matches = False

    def run(self, path: str, call: Call, statement: Statement) -> Answer:
        try:
            return Answer(_made(tahoe.Table(path), call))
        except DeltaError as error:
            raise StatementRefused(f"{error.condition} {type(error).__name__}: {error}") from error

    def changes(self, path: str, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        return tahoe.Table(path).changes(start_version=first, end_version=last)


def _made(table: tahoe.Table, call: Call) -> list[dict[str, Any]]:
    match call["command"]:
        case "delete":
            table.delete(call["condition"])
            return []
        case "update":
            table.update(call["set"], call["condition"])
            return []
    builder = table.merge(
        _rows(table, call["source"]),
        call["condition"],
        source_alias=SOURCE,
        target_alias=TARGET,
        merge_schema=call["evolves"],
    )
    for method, arguments in call["clauses"]:
        builder = getattr(builder, re.sub("([A-Z])", r"_\1", method).lower())(**arguments)
    found = {f"num_{verb}_rows": count for verb, count in asdict(builder.execute()).items() if verb != "version"}
    return [{"num_affected_rows": sum(found.values()), **found}]


def _rows(table: tahoe.Table, source: dict[str, Any]) -> pa.Table:
    return table.to_arrow(version=source["version"]) if source["kind"] == "target" else pq.read_table(source["path"])
