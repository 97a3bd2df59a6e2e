"""Orders in which the storage calls of two writers can happen, on tables in the store: all of them, or as many as fit
into the time.

Each writer has a store object of its own. What it does next depends on the answers that it gets, so that an answer that
was true before, such as a cached listing, makes it overwrite a commit or overlook one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tahoe.storage.env import Store
from tahoe.testing.explored_tables import Op, each_row_once, run
from tahoe.testing.explorer import Place

# Two writers of a table that has the row (R, 1).
PROGRAMS = {
    "two that append": ((Op("insert", "A"),), (Op("insert", "B"),)),
    "one that appends, one that deletes": ((Op("insert", "R", "2"),), (Op("delete"),)),
    "two that update": ((Op("update", "R", "2"),), (Op("update", "R", "3"),)),
    "one that compacts, one that deletes rows": ((Op("insert", "A"), Op("compact")), (Op("mark"),)),
}


@pytest.fixture
def place(folder_url: str, open_url: Callable[[str], Store], store_seconds: float) -> Place:
    numbers = itertools.count()
    return Place(
        new_store=lambda: open_url(f"{folder_url}/{next(numbers)}"),
        reopen=lambda store: open_url(store.url),
        seconds=store_seconds / (2 * len(PROGRAMS)),
    )


@pytest.mark.parametrize("programs", PROGRAMS.values(), ids=PROGRAMS)
def test_in_every_order_each_version_has_one_writer(
    place: Place, programs: tuple[tuple[Op, ...], tuple[Op, ...]]
) -> None:
    found = run(programs, place=place, check=each_row_once)
    assert not found.violations, found.violations
    assert found.endings, "no order came to its end: give it more time, --store-seconds"
    print(f"{found.states:,} states, {found.endings:,} endings")
