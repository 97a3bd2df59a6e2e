"""Pictures as SVG: bars, lines over time, and stacked bars over time. Colours are classes of the page's style, for
light, dark and paper.

Pictures are made here instead of by a library: there are three kinds, they need no script, follow the reader's colour
scheme and stay small. Libraries of Python write fixed colours and shapes for every letter; those of JavaScript bring
megabytes of scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tahoe.table.report.markup import Markup, element, joined

# A phone shows a picture about as wide as this, so letters keep their size.
_WIDTH, _HEIGHT = 400, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 8, 10, 26

_DAY_MS = 86_400_000


def bar(share: float, kind: str = "s0") -> Markup:
    """A horizontal bar beside a number, which fills a share of its cell. The number is the text; the bar has none."""
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}%"
    back = element("rect", width="100%", height="100%", class_="back")
    return element(
        "svg", back, element("rect", width=width, height="100%", class_=kind), class_="bar", aria_hidden="true"
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where values are in a picture: `low` at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return round(self.start + share * (self.end - self.start), 1)


def line_over_time(points: Sequence[tuple[int, int]], title: str, number: Callable[[int], str]) -> Markup:
    """A value that stays the same from each point in time to the next one, in milliseconds since 1970.

    Args:
        number: a value as text.
    """
    first, last = points[0][0], points[-1][0]
    across = _Scale(first, last, _LEFT, _WIDTH - _RIGHT)
    ticks = _ticks(max(value for _, value in points))
    up = _Scale(0, ticks[-1], _HEIGHT - _BOTTOM, _TOP)
    path = f"M{across(first)} {up(points[0][1])}" + "".join(f"H{across(at)}V{up(value)}" for at, value in points[1:])
    area = f"{path}V{up(0)}H{across(first)}Z"
    return _picture(
        title,
        ticks,
        up,
        number,
        first,
        last,
        element("path", d=area, class_="area"),
        element("path", d=path, class_="line"),
    )


def stacked_over_time(
    bars: Sequence[tuple[int, int, Mapping[str, int]]],
    kinds: Mapping[str, str],
    title: str,
    number: Callable[[int], str],
) -> Markup:
    """Counts by kind, in adjacent periods.

    Args:
        bars: start and end of each period, in milliseconds since 1970, and the count of each kind.
        kinds: the class of each kind, from the bottom up.
    """
    first, last = bars[0][0], bars[-1][1]
    across = _Scale(first, last, _LEFT, _WIDTH - _RIGHT)
    ticks = _ticks(max(sum(counts.values()) for _, _, counts in bars))
    up = _Scale(0, ticks[-1], _HEIGHT - _BOTTOM, _TOP)
    drawn = []
    for start, end, counts in bars:
        below, width = 0, max(across(end) - across(start) - 1, 0.5)
        for kind in (kind for kind in kinds if counts.get(kind)):
            top, bottom = up(below + counts[kind]), up(below)
            below += counts[kind]
            tooltip = element("title", f"{moment(start)} to {moment(end)}: {kind} {number(counts[kind])}")
            drawn.append(
                element(
                    "rect",
                    tooltip,
                    x=across(start),
                    y=top,
                    width=round(width, 1),
                    height=round(bottom - top, 1),
                    class_=kinds[kind],
                )
            )
    return _picture(title, ticks, up, number, first, last, *drawn)


def _picture(
    title: str, ticks: Sequence[int], up: _Scale, number: Callable[[int], str], first: int, last: int, *drawn: Markup
) -> Markup:
    """A picture with both axes."""
    lines = [element("path", d=f"M{_LEFT} {up(tick)}H{_WIDTH - _RIGHT}", class_="grid") for tick in ticks]
    labels = [element("text", number(tick), x=_LEFT - 6, y=up(tick) + 4, text_anchor="end") for tick in ticks]
    times = [
        element("text", text, x=x, y=_HEIGHT - 8, text_anchor=anchor)
        for text, x, anchor in zip(
            _times(first, last),
            (_LEFT, (_LEFT + _WIDTH - _RIGHT) / 2, _WIDTH - _RIGHT),
            ("start", "middle", "end"),
            strict=False,
        )
    ]
    content = joined(element("title", title), *lines, *drawn, *labels, *times)
    return element("svg", content, class_="chart", role="img", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", aria_label=title)


def _ticks(largest: int) -> list[int]:
    """0 and two to five further round numbers, the last one at or above the largest value."""
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if 5 * step >= largest:
                return list(range(0, max(-(-largest // step), 1) * step + 1, step))
        power *= 10


def _times(first: int, last: int) -> list[str]:
    """The first, the middle and the last time of an axis, as exact as its length asks for."""
    ends = [moment(first), moment((first + last) // 2), moment(last)]
    if last - first > 4 * _DAY_MS:
        return [text[:10] for text in ends]
    return [text[5:16] if last - first > 1000 * 60 else text[11:] for text in ends]


def moment(timestamp_ms: int) -> str:
    """A time as text, in UTC: `2026-11-23 17:49:00`. One that no calendar has is a number of milliseconds."""
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC)
            .isoformat(sep=" ", timespec="seconds")
            .removesuffix("+00:00")
        )
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
