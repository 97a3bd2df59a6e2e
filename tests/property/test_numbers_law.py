"""The law of numbers: one that was assigned under a table id is never assigned to anything else, whatever happens to
the table.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import sample
from tests.examples import fewer
from tests.property.assigned_numbers import OPERATIONS, World

EVERYTHING = ("map", "track rows", "stamp", "vectors")

# What may take numbers back.
BACKWARDS = [
    "restore to the first rows",
    "clone",
    "shallow clone",
    "clone of a table without the column",
    "create or replace",
    "overwrite the schema",
    "drop the identity column",
    "suspend",
    "drop row tracking",
    "drop domains",
    "drop timestamps",
    "drop identity",
    "clean up",
]


def run(*operations: str) -> None:
    """The law, after each of some operations."""
    world = World()
    for operation in operations:
        world.do(operation)
    world.check_log()


@given(st.sets(st.sampled_from(EVERYTHING)), st.lists(st.sampled_from(list(OPERATIONS)), min_size=1, max_size=12))
@example(set(), ["append", "map", "add a column", "restore to the first rows", "map", "add a column"])
@example({"map"}, ["append", "clone", "map", "add a column"])
@example({"track rows"}, ["append", "append", "drop row tracking", "restore to the first rows"])
@example({"track rows"}, ["append", "append", "drop row tracking", "drop domains", "clean up", "track rows"])
@example({"track rows"}, ["shallow clone", "truncate", "shallow clone"])
@example({"track rows"}, ["append", "append", "vectors", "delete", "restore to the first rows"])
@example(set(), ["append", "append", "overwrite the schema", "clean up", "clone", "append", "restore one back"])
@example({"map"}, ["append", "clone", "map", "restore to the first rows"])
@fewer(2)
def test_no_number_is_assigned_twice(switched: set[str], operations: list[str]) -> None:
    run(*sorted(switched), *operations, "append")


@pytest.mark.parametrize("first", BACKWARDS)
def test_no_pair_of_operations_brings_a_number_back(first: str) -> None:
    for second in sample.part(BACKWARDS, 4, first=BACKWARDS.index(first)):
        run(
            "append", *EVERYTHING, "append", first, *EVERYTHING, "append", "add a column", second, *EVERYTHING, "append"
        )
