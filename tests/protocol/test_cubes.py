"""Which files of a clustered table are laid out again, and at which cost."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.log.actions import Add
from tahoe.protocol.log.cubes import PROVIDER, cube_leaves, cube_of, cube_tags, cubes_to_lay_out, joining_cubes

COLUMNS = ("a", "b.c")
SIZES = st.integers(1, 1000)


def file(
    path: str, size: int, cube: str | None = None, columns: tuple[str, ...] = COLUMNS, provider: str | None = None
) -> Add:
    tags = cube_tags(cube, columns) if cube else None
    return Add(
        path=path,
        size_bytes=size,
        modification_time_ms=0,
        tags=tags,
        clustering_provider=provider or (PROVIDER if cube else None),
    )


def paths(files: list[Add], *, full: bool = False) -> list[str]:
    cubes = [cube_of(one.tags or {}, one.clustering_provider, COLUMNS) for one in files]
    sizes = Counter[str | None]()
    for one, cube in zip(files, cubes, strict=True):
        sizes[cube] += one.size_bytes
    chosen = cubes_to_lay_out(sizes, full=full)
    return [one.path for one, cube in zip(files, cubes, strict=True) if cube in chosen]


def test_tags_are_those_of_the_reference() -> None:
    assert cube_tags("1-2", COLUMNS) == {"ZCUBE_ID": "1-2", "ZCUBE_ZORDER_BY": '["a","b.c"]'}


def test_nothing_is_done_if_nothing_was_added() -> None:
    assert paths([file("1", 10, "x"), file("2", 16, "y")]) == []
    assert paths([]) == []


def test_new_files_take_in_cubes_that_are_not_much_larger_than_they_are_together() -> None:
    files = [file("new", 10), file("x1", 8, "x"), file("y", 33, "y"), file("x2", 4, "x"), file("z", 83, "z")]
    assert paths(files) == ["new", "x1", "y", "x2"]


def test_files_of_other_columns_or_providers_are_left_alone_unless_all_are_laid_out() -> None:
    files = [
        file("new", 100),
        file("old", 1, "x", ("a",)),
        file("other", 1, provider="somebody"),
        file("order", 1, "y", ("b.c", "a")),
    ]
    assert paths(files) == ["new"]
    assert paths(files, full=True) == ["new", "old", "other", "order"]


def test_full_does_nothing_if_everything_is_one_cube() -> None:
    assert paths([file("1", 10, "x"), file("2", 10, "x")], full=True) == []
    assert paths([file("1", 10, "x"), file("2", 10, "y")], full=True) == ["1", "2"]
    assert paths([file("1", 10)], full=True) == ["1"]
    assert paths([file("1", 10, "x", ("a",))], full=True) == ["1"]


def test_a_cube_that_is_large_enough_is_closed() -> None:
    assert joining_cubes(1000, {"small": 99, "closed": 100}, closed_bytes=100) == ["small"]


@given(SIZES, st.lists(SIZES, max_size=10))
def test_no_small_cube_is_left_behind_a_larger_one(added: int, sizes: list[int]) -> None:
    cubes = {str(number): size for number, size in enumerate(sizes)}
    joined = joining_cubes(added, cubes)
    left = [size for cube, size in cubes.items() if cube not in joined]
    together = added + sum(cubes[cube] for cube in joined)
    assert all(size > 1.5 * together for size in left)


@pytest.mark.parametrize(
    ("before", "appends", "limit"), [(0, 20 * [5], 4), (100, 20 * [5], 4), (0, 80 * [1], 6), (20, 80 * [1], 6)]
)
def test_bytes_rewritten_stay_in_proportion_to_bytes_added(before: int, appends: list[int], limit: float) -> None:
    cubes = {"before": before}
    rewritten = 0
    for number, added in enumerate(appends):
        size = added + sum(cubes.pop(cube) for cube in joining_cubes(added, cubes))
        cubes[str(number)] = size
        rewritten += size
    assert rewritten <= limit * sum(appends)


@given(st.lists(SIZES, min_size=1, max_size=200))
def test_cubes_are_few_and_grow_whenever_they_are_rewritten(appends: list[int]) -> None:
    cubes: dict[str, int] = {}
    times: dict[str, int] = {}
    for number, added in enumerate(appends):
        joined = joining_cubes(added, cubes)
        times[str(number)] = 1 + max((times.pop(cube) for cube in joined), default=0)
        cubes[str(number)] = added + sum(cubes.pop(cube) for cube in joined)
    assert len(cubes) <= sum(appends).bit_length() + 1
    assert all(cubes[cube] >= times[cube] for cube in cubes)


@pytest.mark.parametrize(
    ("cube", "table", "files"),
    [(100, 100, 150), (1, 100, 4), (50, 100, 150), (10, 100, 40), (0, 0, 1)],
)
def test_a_small_cube_has_smaller_files(cube: int, table: int, files: int) -> None:
    assert cube_leaves(cube * 64, table * 64, 64) == files


@given(st.lists(SIZES, max_size=50))
def test_cubes_that_were_written_at_once_are_merged_until_no_two_are_of_similar_size(sizes: list[int]) -> None:
    cubes = {str(number): size for number, size in enumerate(sizes)}
    while joined := joining_cubes(0, cubes):
        assert len(joined) > 1
        cubes["+".join(joined)] = sum(cubes.pop(cube) for cube in joined)
    smallest = sorted(cubes.values())[:2]
    assert len(smallest) < 2 or smallest[1] > 1.5 * smallest[0]
