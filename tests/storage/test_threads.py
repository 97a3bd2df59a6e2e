"""Work in threads: results in order, few items ahead, nothing more begins after an error, and small requests are handed
over together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tahoe.storage.threads import REQUESTS, in_pieces, in_threads, load_all, on_all_cores

COUNTS = [0, 1, 2, 15, 16, 63, 64, 65, 1000, 10_000]


@pytest.mark.parametrize("count", COUNTS)
def test_results_are_in_order(count: int) -> None:
    expected = [-item for item in range(count)]
    assert list(in_threads(lambda item: -item, range(count), 3)) == expected
    assert list(load_all(lambda item: -item, range(count))) == expected
    assert on_all_cores(lambda item: -item, range(count)) == expected
    assert [item for piece in in_pieces(list, range(count)) for item in piece] == list(range(count))


def test_all_threads_have_work_and_many_small_items_are_handed_over_together() -> None:
    assert len(list(in_pieces(len, range(REQUESTS)))) == REQUESTS
    assert len(list(in_pieces(len, range(50_000)))) < 1000


def test_few_items_are_taken_before_their_results_are_asked_for() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1000):
            taken.append(item)
            yield item

    results = in_threads(lambda item: item, items(), 4, ahead=3)
    assert [next(results) for _ in range(10)] == list(range(10))
    assert len(taken) <= 14
    results.close()  # type: ignore[attr-defined]
    assert len(taken) <= 14


def test_after_an_error_no_further_item_begins() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 5:
            raise KeyError(item)
        return item

    results = in_threads(work, range(10_000), 2)
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(KeyError):
        next(results)
    assert len(begun) < 20


@pytest.mark.parametrize(
    "load", [lambda work, items: load_all(work, items), lambda work, items: in_threads(work, items)]
)
def test_an_error_reaches_the_caller_after_the_results_before_it(load) -> None:
    def work(item: int) -> int:
        if item == 100:
            raise KeyError(item)
        return item

    results = load(work, range(1000))
    with pytest.raises(KeyError):
        for _ in range(1000):
            next(results)


def test_work_inside_of_a_thread_does_not_make_more_threads() -> None:
    def inside(_: int) -> set[str]:
        return set(on_all_cores(lambda _: threading.current_thread().name, range(20)))

    assert all(len(names) == 1 for names in in_threads(inside, range(8), 4))


def test_a_single_item_needs_no_thread() -> None:
    assert list(in_threads(lambda _: threading.current_thread(), [1])) == [threading.main_thread()]
