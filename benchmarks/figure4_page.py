"""The picture and the tables of `docs/explanation/many-partitions.md`, from files that figure4.py has written:

python -m benchmarks.figure4_page FILE.json...
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.figure4 import STEPS, SYSTEMS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "many-partitions.md"
PICTURE = PAGE.with_suffix(".svg")

_STORAGES = {"local": "local disk", "s3": "S3, 30 ms away"}
_NAMES = {"tahoe": "tahoe", "reference": "the reference", "parquet": "Parquet"}
_QUESTIONS = {
    "open": "open, and one partition",
    "one": "one partition, once open",
    "plan": "plan a scan of all files",
    "show": "list the partitions",
    "sum": "the sum over all",
    "delete": "DELETE of 1,000 partitions",
    "append": "append to 1,000 partitions",
}

# --- figures


@dataclass(frozen=True, kw_only=True)
class Point:
    """The medians of a step's rounds.

    Attributes:
        failure: why there is no time; empty if there is one.
    """

    seconds: float | None
    processor_seconds: float | None
    megabytes: float | None
    failure: str = ""

    @property
    def least(self) -> float | None:
        """The limit that the step has passed; None if it failed for another reason, or did not."""
        limit = re.fullmatch(r"> ([0-9.]+) s", self.failure)
        return float(limit[1]) if limit else None


Place = tuple[str, str, str, int]
"""Storage, step, system and number of partitions."""


def points_of(files: Sequence[Mapping[str, Any]]) -> dict[Place, Point]:
    rounds: dict[Place, list[Mapping[str, Any]]] = {}
    for file in files:
        for figure in file["figures"]:
            place = figure["storage"], figure["step"], figure["system"], figure["partitions"]
            rounds.setdefault(place, []).append(figure)
    return {place: _median(figures) for place, figures in rounds.items()}


def _median(figures: Sequence[Mapping[str, Any]]) -> Point:
    timed = [figure for figure in figures if figure["seconds"] is not None]
    if not timed:
        return Point(seconds=None, processor_seconds=None, megabytes=None, failure=figures[-1]["failure"])
    keys = ("seconds", "processor_seconds", "megabytes")
    told = {key: [figure[key] for figure in timed if figure.get(key) is not None] for key in keys}
    return Point(**{key: statistics.median(values) if values else None for key, values in told.items()})


# --- tables


def tables(points: Mapping[Place, Point]) -> Iterator[str]:
    for storage, name in _STORAGES.items():
        sizes = sorted({place[3] for place in points if place[0] == storage})
        if not sizes:
            continue
        yield f"### {name[0].upper()}{name[1:]}"
        yield ""
        yield "| | | " + " | ".join(f"{size:,}" for size in sizes) + " |"
        yield "|---|---|" + "---|" * len(sizes)
        for step in STEPS:
            for system in SYSTEMS:
                row = [points.get((storage, step, system, size)) for size in sizes]
                if any(row):
                    question = _QUESTIONS[step] if system == SYSTEMS[0] else ""
                    yield f"| {question} | {_NAMES[system]} | " + " | ".join(map(_cell, row)) + " |"
        yield ""


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    if point.seconds is None:
        return f"> {point.least:g} s" if point.least is not None else "fails"
    assert point.megabytes is not None
    processor = "" if point.processor_seconds is None else f"{_number(point.processor_seconds)}; "
    return f"{_number(point.seconds)} s; {processor}{point.megabytes / 1024:.1f} GB"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


# --- the picture

_WIDTH, _HEIGHT, _ACROSS = 250, 200, 4
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 30, 30
_STYLE = """
  svg { font: 11px system-ui, sans-serif; }
  .back { fill: #ffffff; } text { fill: #374151; } .title { font-weight: 600; fill: #111827; }
  .grid { stroke: #e5e7eb; } .axis { stroke: #9ca3af; }
  .tahoe { --c: #1d4ed8; } .reference { --c: #d97706; } .parquet { --c: #6b7280; }
  .line { fill: none; stroke: var(--c); stroke-width: 2; } .dot { fill: var(--c); }
  .beyond { fill: none; stroke: var(--c); stroke-width: 1.5; stroke-dasharray: 3 3; } .name { fill: var(--c); }
  .open { fill: none; stroke: var(--c); stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .back { fill: #111827; } text { fill: #d1d5db; } .title { fill: #f9fafb; }
    .grid { stroke: #273142; } .axis { stroke: #6b7280; }
    .tahoe { --c: #60a5fa; } .reference { --c: #fbbf24; } .parquet { --c: #9ca3af; }
    .name { fill: var(--c); }
  }
"""


def picture(points: Mapping[Place, Point]) -> str:
    """One panel for each storage and step, with both axes logarithmic. An arrow is a time longer than the limit."""
    panels, at = [], 36
    for storage, name in _STORAGES.items():
        sizes = {step: {place[3] for place in points if place[:2] == (storage, step)} for step in STEPS}
        steps = [step for step, of_step in sizes.items() if len(of_step) > 1]  # one point is no curve
        if not steps:
            continue
        panels.append(f'<text class="title" x="12" y="{at + 12}" font-size="13">{name}</text>')
        at += 18
        for number, step in enumerate(steps):
            x, y = _WIDTH * (number % _ACROSS), at + _HEIGHT * (number // _ACROSS)
            inside = "".join(_panel(points, storage, step))
            panels.append(f'<g transform="translate({x} {y})">{inside}</g>')
        at += _HEIGHT * math.ceil(len(steps) / _ACROSS) + 8
    legend = "".join(
        f'<g class="{system}"><circle class="dot" cx="{16 + 130 * n}" cy="18" r="4"/>'
        f'<text class="name" x="{26 + 130 * n}" y="22">{_NAMES[system]}</text></g>'
        for n, system in enumerate(SYSTEMS)
    )
    note = '<text x="420" y="22">seconds over the number of partitions; an arrow: longer than the limit</text>'
    width = _WIDTH * _ACROSS
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {at}" width="{width}" height="{at}" role="img">'
        f"<title>Times over the number of partitions</title><style>{_STYLE}</style>"
        f'<rect class="back" width="{width}" height="{at}"/>{legend}{note}{"".join(panels)}</svg>\n'
    )


def _panel(points: Mapping[Place, Point], storage: str, step: str) -> Iterator[str]:
    of_panel = {place: point for place, point in points.items() if place[:2] == (storage, step)}
    sizes = sorted({place[3] for place in points})
    values = [value for point in of_panel.values() if (value := point.seconds or point.least)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) * 1.2))
    high = max(high, low + 1)
    first, last = math.log10(sizes[0]), max(math.log10(sizes[-1]), math.log10(sizes[0]) + 1)

    def x(size: float) -> float:
        return _LEFT + (math.log10(size) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(seconds: float) -> float:
        return _HEIGHT - _BOTTOM - (math.log10(seconds) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    yield f'<text class="title" x="{_LEFT}" y="18">{escape(_QUESTIONS[step])}</text>'
    for power in range(low, high + 1):
        at = y(10.0**power)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>'
    base = _HEIGHT - _BOTTOM
    yield f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>'
    for size in sizes:
        text = f"{size // 1_000_000}M" if size >= 1_000_000 else f"{size // 1000}k" if size >= 1000 else str(size)
        yield f'<text x="{x(size):.1f}" y="{base + 15}" text-anchor="middle">{text}</text>'
    for system in reversed(SYSTEMS):
        row = [(size, of_panel.get((storage, step, system, size))) for size in sizes]
        yield f'<g class="{system}">'
        timed = [(x(size), y(point.seconds)) for size, point in row if point and point.seconds]
        before: tuple[float, float] | None = None
        if timed:
            yield f'<polyline class="line" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in timed)}"/>'
        yield from (f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in timed)
        for size, point in row:
            value = point and (point.seconds or point.least)
            if not value:
                continue
            a, b = x(size), y(value)
            if point and point.seconds is None:
                if before is not None:
                    yield f'<path class="beyond" d="M{before[0]:.1f} {before[1]:.1f} L{a:.1f} {b:.1f}"/>'
                yield f'<path class="open" d="M{a - 4:.1f} {b:.1f} L{a:.1f} {b - 7:.1f} L{a + 4:.1f} {b:.1f} Z"/>'
            before = a, b
        yield "</g>"


def main() -> None:
    files = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    points = points_of(files)
    PICTURE.write_text(picture(points))
    machine = files[0]["machine"]
    notes = sorted({file["note"] for file in files if file["note"]})
    about = f"{machine['machine']}, {files[0]['at'][:10]}, a heap of {files[0]['memory']}"
    text = "\n".join([f"Measured on {about}{''.join(f'; {note}' for note in notes)}.", "", *tables(points)])
    begin, end = "% figures\n", "% end of the figures\n"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    main()
