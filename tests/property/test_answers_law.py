"""Answers from the log, with a scan of the files that are left, are those of a scan of all rows, whatever the
statistics look like.
"""

from __future__ import annotations

from datetime import date

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tahoe.protocol.statistics.answers import Aggregate, Question
from tahoe.protocol.statistics.stats import Statistics, encode_statistics
from tahoe.protocol.types.predicate import TRUE, Column, In, Not, evaluate, untrue
from tahoe.protocol.types.schema import Field, Struct
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.answers import answer, measures_of
from tahoe.table.reading.snapshot import load_snapshot
from tests.property.random_files import COLUMNS, METADATA, PROTOCOL, Written, loaded, written
from tests.property.random_predicates import (
    PARTITION,
    SCHEMA,
    at,
    largest,
    predicates,
    rows_of,
    smallest,
    statistics_of,
)
from tests.table.builders import add, memory_env, put_commit

# Columns whose bounds the log answers with; the others are seldom asked for, because most questions about them are not
# for the log.
EXACT = [("i",), ("day",), ("st", "n"), PARTITION]


@given(st.data())
def test_untrue_is_true_for_exactly_the_rows_for_which_a_predicate_is_not(data):
    paths = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=2))
    row = {**data.draw(rows_of(paths)), "part": data.draw(st.sampled_from(["a", "b", None]))}
    predicate = data.draw(predicates(paths, [row]).filter(lambda found: "Unknown" not in repr(found)))
    assert evaluate(untrue(predicate), row) is (evaluate(predicate, row) is not True)


def test_a_list_with_null_never_proves_that_a_value_is_not_in_it():
    condition = Not(In(Column(("i",)), (1, None)))
    assert [evaluate(condition, {"i": value}) for value in (1, 2, None)] == [False, None, None]
    assert [evaluate(untrue(condition), {"i": value}) for value in (1, 2, None)] == [True, True, True]


# --- questions


@st.composite
def questions(draw, paths, rows):
    def condition():
        return draw(st.just(TRUE) | st.just(TRUE) | st.just(TRUE) | predicates(paths, rows))

    def aggregate():
        function = draw(st.sampled_from(["count", "min", "max"]))
        columns = (
            [draw(st.sampled_from(paths))] if function != "count" else draw(st.sampled_from([[], paths, paths[:1]]))
        )
        return Aggregate(function, tuple(columns), condition())

    aggregates = tuple(aggregate() for _ in range(draw(st.integers(1, 2))))
    return Question(aggregates, draw(st.sampled_from([(), (), ("part",)])), condition())


def grouped(question, rows):
    """The values of the aggregates by their keys, of rows in Python."""
    groups = {(): []} if not question.keys else {}
    for row in rows:
        if evaluate(question.condition, row) is True:
            groups.setdefault(tuple(row[key] for key in question.keys), []).append(row)
    return {
        key: [aggregated(aggregate, members) for aggregate in question.aggregates] for key, members in groups.items()
    }


def aggregated(aggregate, rows):
    found = [row for row in rows if evaluate(aggregate.condition, row) is True]
    if aggregate.function == "count":
        return sum(all(at(row, path) is not None for path in aggregate.columns) for row in found)
    return extreme(aggregate.function, [at(row, aggregate.columns[0]) for row in found])


def extreme(function, values):
    known = [value for value in values if value is not None]
    return (smallest if function == "min" else largest)(known) if known else None


def joined(question, one, other):
    """The values of two parts of a table together."""

    def both(aggregate, left, right):
        return left + right if aggregate.function == "count" else extreme(aggregate.function, [left, right])

    found = dict(one)
    for key, values in other.items():
        known = found.get(key)
        found[key] = (
            values if known is None else [both(*pair) for pair in zip(question.aggregates, known, values, strict=True)]
        )
    return found


def answered(question, rows):
    names = [*question.keys, *(str(number) for number in range(len(question.aggregates)))]
    found = [[row[name] for name in names] for row in rows.to_pylist()]
    return {tuple(row[: len(question.keys)]): row[len(question.keys) :] for row in found}


@settings(max_examples=300)
@given(st.data())
def test_answers_equal_those_of_a_scan(data):
    paths = data.draw(
        st.lists(st.sampled_from(EXACT) | st.sampled_from([*EXACT, *COLUMNS]), min_size=1, max_size=2, unique=True)
    )
    files = [data.draw(written(number, paths)) for number in range(data.draw(st.integers(0, 3)))]
    everything = [row for file in files for row in file.rows]
    question = data.draw(questions(paths, everything))
    scan = loaded(files).scan(question.condition)
    if measures_of(question, scan) is None:
        event("not a question for the log")
        return
    found = answer(question, scan)
    event(
        f"{'some' if found.left.kept_files else 'no'} files left, "
        f"{'some' if found.left.kept_files < scan.kept_files else 'none'} answered"
    )
    left = set(found.left.column("path").to_pylist())
    read = grouped(question, [row for file in files if file.action.path in left for row in file.rows])
    assert joined(question, answered(question, found.rows), read) == grouped(question, everything)


# --- what the log must be able to answer, or a scan of everything would pass the law


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.lists(st.integers(-5, 5) | st.none(), min_size=1)), max_size=4
    ),
    st.data(),
)
def test_exact_statistics_answer_everything(parts, data):
    files = []
    for number, (part, values) in enumerate(parts):
        rows = [{**dict.fromkeys(SCHEMA.names), "i": value, "part": part} for value in values]
        text = encode_statistics(statistics_of(rows, omits_nan=True), SCHEMA)
        files.append(Written(add(f"f{number}", stats=text, partition_values={"part": part}), rows))
    aggregates = [
        Aggregate("count"),
        Aggregate("count", (("i",),)),
        Aggregate("min", (("i",),)),
        Aggregate("max", (("i",),)),
    ]
    question = Question(tuple(aggregates), data.draw(st.sampled_from([(), ("part",)])))
    found = answer(question, loaded(files).scan())
    assert found.left.kept_files == 0
    assert answered(question, found.rows) == grouped(question, [row for file in files for row in file.rows])


def test_a_condition_on_days_leaves_the_files_at_its_edges():
    day = ("day",)
    files = []
    for number in range(10):
        days = [date(2026, 1, 1 + 3 * number), date(2026, 1, 3 + 3 * number)]
        statistics = Statistics(
            num_records=2, min_values={day: days[0]}, max_values={day: days[1]}, null_count={day: 0}
        )
        files.append(
            add(
                f"f{number}",
                stats=encode_statistics(statistics, Struct((Field(name="day", type=SCHEMA.find("day").type),))),
            )
        )
    env = memory_env()
    put_commit(env, 0, [PROTOCOL, METADATA, *files])
    snapshot = load_snapshot(Log(env))
    scan = snapshot.scan("day >= '2026-01-05' and day <= '2026-01-20'")
    found = answer(Question((Aggregate("count"),), condition=scan.predicate), scan)
    assert found.rows.to_pylist() == [{"0": 8}]
    assert found.left.column("path").to_pylist() == ["f1", "f6"]
