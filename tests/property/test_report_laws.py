"""The arithmetic of reports: values between bounds, distributions, and text in a page. For any values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tahoe.protocol.types.predicate import order
from tahoe.table.report.column_values import between, files_by_rows, values_between
from tahoe.table.report.histograms import BARS_MAX, histogram
from tahoe.table.report.markup import element

LONGS = st.integers(-(2**63), 2**63 - 1)
DECIMALS = st.integers(-(10**38) + 1, 10**38 - 1).map(
    lambda digits: Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -10))
)
KINDS = (
    LONGS,
    st.floats(allow_nan=False, allow_infinity=False),
    DECIMALS,
    st.dates(),
    st.datetimes(timezones=st.just(UTC)),
    st.text(),
    st.text("ab", max_size=3),
)
PAIRS = st.one_of(*(st.tuples(kind, kind) for kind in KINDS))
POSITIONS = st.integers(0, 2**32 - 1)


@given(PAIRS, POSITIONS)
@example(("a", "a\U0010ffff"), 2**31)
@example((Decimal("-99999999999999999999999999.9999999999"), Decimal("99999999999999999999999999.9999999999")), 1)
@example((-1.7e308, 1.7e308), 2**31)
def test_a_value_between_bounds_is_a_value_of_the_column_within_them(pair, position):
    low, high = sorted(
        pair, key=lambda value: value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    )
    value = between(low, high, position)
    assert type(value) is type(low)
    assert order(low, value) <= 0 <= order(high, value)
    if isinstance(value, Decimal):
        assert value.as_tuple().exponent == low.as_tuple().exponent


@given(st.lists(PAIRS, max_size=20))
def test_values_are_in_order_and_only_of_bounds_that_are_in_order(pairs):
    for kind in (int, float, Decimal, date, datetime, str):
        lows = [low if type(low) is kind else None for low, _ in pairs]
        values = values_between(lows, [high for _, high in pairs])
        assert all(order(one, other) <= 0 for one, other in pairwise(values))
        assert len(values) <= sum(low is not None for low in lows)


@given(st.lists(st.floats(0, 1e12), max_size=20), st.integers(1, 50))
def test_a_file_gives_as_many_values_as_its_share_of_the_rows(rows, count):
    found = files_by_rows(np.array(rows, float), count)
    assert len(found) == (count if sum(rows) > 0 else 0)
    for file, number in enumerate(rows):
        if len(found):
            assert abs(np.count_nonzero(found == file) - count * number / sum(rows)) <= 1 + 1e-6


@given(st.lists(st.one_of(st.integers(0, 10), st.integers(0, 2**62), st.integers(990, 1010)), max_size=30))
def test_a_histogram_counts_every_value_once_between_its_limits(values):
    found = histogram(np.array(values, np.int64), unknown=3)
    assert (found.count, found.unknown) == (len(values), 3)
    for bar in found.bars:
        is_last = bar is found.bars[-1]
        assert bar.count == sum(bar.low <= value < bar.high or (is_last and value == bar.high) for value in values)
    assert all(one.high == other.low for one, other in pairwise(found.bars))
    assert len(found.bars) <= BARS_MAX + 4
    assert all(bar.count for bar in (*found.bars[:1], *found.bars[-1:]))
    if values:
        assert (found.smallest, found.largest) == (min(values), max(values))


class _Read(HTMLParser):
    """The elements and the text of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])), st.text(st.characters(exclude_categories=["Cc", "Cs"])))
@example("<script>alert(1)</script>", '" onload="alert(1)')
@example("</style><img src=x onerror=alert(1)>", "' x='")
def test_text_in_a_page_stays_text(content, attribute):
    read = _Read()
    read.feed(element("p", content, title=attribute))
    read.close()
    assert read.tags == ["p"]
    assert [name for name, _ in read.attributes] == ["title"]
    if content.isprintable() and attribute.isprintable():
        assert (read.text, read.attributes[0][1]) == (content, attribute)
