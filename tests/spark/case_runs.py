"""Runs cases of the table of Spark's methods and statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from tests.spark import method_cases, spark_api, statement_cases
from tests.spark.method_cases import AS_PARQUET, Case
from tests.spark.places import KINDS, Place, Places, Refusal, answer

CASES = {
    **{names: [case] for names, case in method_cases.METHODS.items()},
    **statement_cases.STATEMENTS,
    **statement_cases.FEATURES,
}

Unchanged: TypeAlias = Mapping[tuple[str, str], Place]
"""Tables that no case changes, by format and kind."""

# How Spark refuses what is no statement: such a case would show nothing.
_NO_STATEMENT = "PARSE_SYNTAX_ERROR"


def names_here() -> list[str]:
    """The names of the cases of what the Spark that is installed has."""
    here = spark_api.methods() | spark_api.statements() | set(statement_cases.FEATURES)
    return [names for names in CASES if names in here or here & set(names.split())]


@contextmanager
def unchanged_tables(places: Places) -> Iterator[Unchanged]:
    made = {("delta", kind): places.make("delta", kind) for kind in KINDS}
    made |= {("parquet", kind): places.make("parquet", kind) for kind in KINDS if kind.endswith("name")}
    yield made
    for place in made.values():
        places.drop(place)
    for view in statement_cases.VIEWS:
        places.spark.sql(f"DROP VIEW IF EXISTS {view}")


def wrong_answers(name: str, places: Places, unchanged: Unchanged, kinds: Iterable[str]) -> dict[str, str]:
    """What is answered otherwise than it should, by what was asked of which table."""
    wrong = {}
    for case in CASES[name]:
        of_parquet: dict[str, object] = {}
        for kind in kinds:
            expected, found = case.instead_of_parquet(kind), _answered(case, "delta", kind, places, unchanged)
            if expected is AS_PARQUET:
                by_name = kind.replace("path", "name")
                if by_name not in of_parquet:
                    of_parquet[by_name] = _answered(case, "parquet", by_name, places, unchanged)
                expected = of_parquet[by_name]
            if not _is_as_expected(found, expected, is_parquets=case.instead_of_parquet(kind) is AS_PARQUET):
                what = case.ask if isinstance(case.ask, str) else name
                wrong[f"{what}, by {kind}"] = f"{found} instead of {expected}"
    return wrong


def _is_as_expected(found: object, expected: object, *, is_parquets: bool) -> bool:
    if isinstance(found, Refusal):
        if found.condition == _NO_STATEMENT:
            return False
        if is_parquets:
            return isinstance(expected, Refusal)  # each has reasons of its own
    return found == expected


def _answered(case: Case, form: str, kind: str, places: Places, unchanged: Unchanged) -> object:
    if not case.changes:
        return answer(case.ask, unchanged[form, kind])
    place = places.make(form, kind)
    try:
        return answer(case.ask, place)
    finally:
        places.drop(place)
