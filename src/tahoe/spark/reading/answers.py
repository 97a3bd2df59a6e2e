"""Answers aggregations of Spark's from the log: what of a query the log decides, and how its values come into the plan.

An aggregation becomes one of values that Python has: one row for each combination of partition values that the query
names, with the values of those aggregates that `tahoe.protocol.statistics.answers` knows how to combine. All other
aggregates must not depend on how often a row occurs, nor on other columns than partition columns: Spark evaluates them
over these rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from tahoe.protocol.statistics.answers import Aggregate, PartitionOf, Question, is_plain, measure_of
from tahoe.protocol.types.predicate import Predicate
from tahoe.spark.configuration import setting_names
from tahoe.spark.jvm.gateway import Gateway
from tahoe.spark.jvm.table_cache import scan_of
from tahoe.spark.reading.filters import column_of, is_value, predicate_of
from tahoe.spark.reading.scan import Reader
from tahoe.table.reading.answers import answer
from tahoe.table.reading.scan import Scan
from tahoe.table.reading.snapshot import Snapshot

# With these, in a session or as an option of a reader, a scan may return fewer rows than the log has.
_LENIENT = {"ignoreMissingFiles": setting_names.IGNORES_MISSING, "ignoreCorruptFiles": setting_names.IGNORES_CORRUPT}

# Functions of Spark's whose result does not depend on how often a value occurs.
_REPEATABLE = frozenset({"Min", "Max"})

_COMBINED: Mapping[str, Literal["count", "min", "max", "count_distinct"]] = {
    "Count": "count",
    "Min": "min",
    "Max": "max",
}


def are_wanted(gateway: Gateway, options: Mapping[str, str]) -> bool:
    """Whether the session, and the reader of a table with these options, allow answers from the log."""
    return are_trusted(gateway) and has_all_rows(gateway, options)


def are_trusted(gateway: Gateway) -> bool:
    """Whether queries may rely on statistics for more than the data skipping by their conditions.

    One setting, for answers, limits and joins, suffices where statistics are wrong.
    """
    return setting_names.ANSWERS_FROM_LOG.of(gateway.spark.conf)


def has_all_rows(gateway: Gateway, options: Mapping[str, str]) -> bool:
    """Whether a scan returns all rows that the log has. `options`: of the reader."""
    by_name, conf = {name.lower(): value for name, value in options.items()}, gateway.spark.conf
    return not any(
        by_name[name.lower()].lower() == "true" if by_name.get(name.lower()) else setting.of(conf)
        for name, setting in _LENIENT.items()
    )


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """The answer to an aggregation.

    Attributes:
        question: what the log was asked.
        combined: for each aggregate of the query, whether the log gives its values; Spark evaluates the others over
            `rows`.
        is_whole: whether `rows` are the result, without another aggregation.
        rows: the partition values by which rows are grouped, and the values of the combined aggregates.
        left: the files that must be read as well.
        files: how many files the log has answered.
    """

    question: Question
    combined: tuple[bool, ...]
    is_whole: bool
    rows: pa.Table
    left: Scan
    files: int

    @property
    def shape(self) -> tuple[str, str, bool]:
        """The partition columns, and which aggregates are combined, as Java reads them; and `is_whole`."""
        return (
            "\0".join(self.question.keys),
            "".join(str(int(is_combined)) for is_combined in self.combined),
            self.is_whole,
        )

    def label(self, name: str) -> str:
        """The label of the rows in Spark's plans: `t v3 [12 files answered from the log, 2 of 30 read]`."""
        files = f"{self.files:,} file{'' if self.files == 1 else 's'} answered from the log"
        return (
            f"{name} v{self.left.snapshot.version} [{files}, {self.left.kept_files:,} of {self.left.total_files:,} "
            f"read]"
        )


def answer_from_log(reader: Reader, aggregation: str) -> LogAnswer | None:
    """Answer an aggregation from the log; None if it does not decide any part of it."""
    query = json.loads(aggregation)
    log_answer = _answer_to(reader, query, counts_distinct=True)
    if log_answer is None and any(function["distinct"] for function in query["functions"]):
        # Spark counts the values of the log with those of files that are read
        log_answer = _answer_to(reader, query, counts_distinct=False)
    return log_answer


def _answer_to(reader: Reader, query: Mapping[str, Any], *, counts_distinct: bool) -> LogAnswer | None:
    """The answer to an aggregation; None also if it would leave as many files to read as a scan, or if answers for
    some of the files cannot be combined with the rows of the others.
    """
    log_question = _log_question(query, reader.predicate, reader.snapshot, counts_distinct=counts_distinct)
    if log_question is None:
        return None
    scan = scan_of(reader.snapshot, reader.predicate)
    try:
        decided = answer(log_question.question, scan)
    except OverflowError:  # so much text that a scan is not slower
        return None
    files_left = decided.left.kept_files
    if files_left and (files_left == scan.kept_files or log_question.is_indivisible):
        return None
    is_whole, files = log_question.is_final and not files_left, scan.kept_files - files_left
    return LogAnswer(log_question.question, log_question.combined, is_whole, decided.rows, decided.left, files)


# --- what Spark asks


@dataclass(frozen=True, slots=True)
class _LogQuestion:
    """What to ask the log for an aggregation.

    `is_final`: the answer for all files is the query's result. `is_indivisible`: an answer for some files only is of
    no use.
    """

    question: Question
    combined: tuple[bool, ...]
    is_final: bool

    @property
    def is_indivisible(self) -> bool:
        return any(aggregate.function == "count_distinct" for aggregate in self.question.aggregates)


def _log_question(
    query: Mapping[str, Any], condition: Predicate, snapshot: Snapshot, *, counts_distinct: bool
) -> _LogQuestion | None:
    """What to ask the log; None if it cannot answer.

    Args:
        counts_distinct: the log counts different values of partition columns, if all it is asked for is its to give.
    """
    functions, groups = query["functions"], query["groups"]
    aggregates = _combinable(functions, snapshot, is_grouped=bool(groups), counts_distinct=counts_distinct)
    others = [function for function, aggregate in zip(functions, aggregates, strict=True) if aggregate is None]
    columns_by_part = [list(_names(part, snapshot)) for part in (*groups, *others)]
    if not all(map(_is_repeatable, others)) or not all(names and None not in names for names in columns_by_part):
        return None
    keys = tuple(dict.fromkeys(name for names in columns_by_part for name in names if name is not None))
    combined = tuple(aggregate for aggregate in aggregates if aggregate is not None)
    if not combined and not keys:
        return None
    is_final = not others and _are_plain_columns(groups, snapshot)
    return _LogQuestion(
        Question(combined, keys, condition), tuple(aggregate is not None for aggregate in aggregates), is_final
    )


def _combinable(
    functions: Sequence[Mapping[str, Any]], snapshot: Snapshot, *, is_grouped: bool, counts_distinct: bool
) -> list[Aggregate | None]:
    """The aggregates that the log can give, None for others. Rows by partition values leave those of partition columns
    to Spark.
    """
    aggregates = [_aggregate(function, snapshot, counts_distinct=counts_distinct) for function in functions]
    if is_grouped or None in aggregates:
        return [None if one is None or _is_of_partition(one, snapshot) else one for one in aggregates]
    return aggregates


def _aggregate(function: Mapping[str, Any], snapshot: Snapshot, *, counts_distinct: bool) -> Aggregate | None:
    """An aggregate function as the log may answer it; None if it is of another kind, or of more than columns."""
    kind = _COMBINED.get(function["name"])
    if kind == "count" and function["distinct"]:
        kind = "count_distinct" if counts_distinct else None
    if kind is None:
        return None
    arguments = [nodes for nodes in function["arguments"] if not (kind == "count" and is_value(nodes))]
    columns = [column for nodes in arguments if (column := column_of(nodes)) is not None]
    if len(columns) < len(arguments) or (kind == "count_distinct" and len(columns) != 1):
        return None
    aggregate = Aggregate(kind, tuple(columns), predicate_of(json.dumps(function["condition"])))
    return None if _measure(aggregate, snapshot) is None else aggregate


def _measure(aggregate: Aggregate, snapshot: Snapshot) -> Any:
    return measure_of(aggregate, snapshot.schema, snapshot.partition_columns, snapshot.column_mapping_mode)


def _is_of_partition(aggregate: Aggregate, snapshot: Snapshot) -> bool:
    return isinstance(_measure(aggregate, snapshot), PartitionOf)


def _is_repeatable(function: Mapping[str, Any]) -> bool:
    return function["distinct"] or function["name"] in _REPEATABLE


def _names(part: Mapping[str, Any], snapshot: Snapshot) -> Iterator[str | None]:
    """The partition columns to which a part of the query refers, as the schema spells them; None for any other
    column.
    """
    partitions: Collection[str] = {name.lower() for name in snapshot.partition_columns}
    for nodes in part["references"]:
        path = column_of(nodes)
        field = None if path is None or len(path) > 1 else snapshot.schema.find(path[0])
        yield field.name if field is not None and field.name.lower() in partitions else None


def _are_plain_columns(groups: Sequence[Mapping[str, Any]], snapshot: Snapshot) -> bool:
    """Whether all groups are partition columns that need no further grouping."""
    fields = [
        None if (path := column_of(group["expression"])) is None else snapshot.schema.find(path[0]) for group in groups
    ]
    return all(field is not None and is_plain(field) for field in fields)
