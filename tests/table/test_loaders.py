"""Many small requests: in order, and not one by one handed over to threads."""

from __future__ import annotations

import pytest

from tahoe.table.log.loaders import LOADERS, load_all, load_pieces


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 63, 64, 65, 1000, 10_000])
def test_results_are_in_order(count: int) -> None:
    assert list(load_all(lambda item: -item, range(count))) == [-item for item in range(count)]
    assert [item for piece in load_pieces(list, range(count)) for item in piece] == list(range(count))


def test_all_threads_have_work_and_many_small_items_are_handed_over_together() -> None:
    assert len(list(load_pieces(len, range(LOADERS)))) == LOADERS
    assert len(list(load_pieces(len, range(50_000)))) < 1000


def test_an_error_reaches_the_caller_after_the_results_before_it() -> None:
    def load(item: int) -> int:
        if item == 100:
            raise KeyError(item)
        return item

    results = load_all(load, range(1000))
    with pytest.raises(KeyError):
        for _ in range(1000):
            next(results)
