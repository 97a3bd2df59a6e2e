"""The page of a race: charts for each kind of question, all numbers in tables, and how it was run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tahoe_race.engines import ENGINES

TITLES = {
    "tpch": "TPC-H's 22 queries",
    "tpcds": "TPC-DS's 99 queries",
    "load": "Load lineitem from Parquet",
    "dml": "DELETE, UPDATE and MERGE of 0.1, 1 and 10 %",
    "append": "20 appends of one row",
    "optimize": "OPTIMIZE of 200 files",
    "vacuum": "VACUUM of 200 files",
    "stream": "A stream of 20 batches",
    "first": "The first result of a new process",
}
_OURS = ("tahoe", "tahoe-comet")

# How many times the length of tahoe's a bar of the picture has at most; an arrow says that it would be longer.
_LONGEST = 6

# Of the picture: the width of a column, the height of a bar with its space, and where the first kind begins.
_COLUMN, _ROW, _TOP = 450, 19, 60

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5b6875; --paper: #fff; --line: #d9dfe5; --ours: #0b7a75;
        --theirs: #9aa7b4; --bad: #a33; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --soft: #9aa7b4; --paper: #14191f; --line: #333c46;
        --ours: #2bb5ad; --theirs: #66727f; --bad: #e88; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
       margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } p, li { max-width: 45rem; } .soft { color: var(--soft); }
.bars { display: grid; grid-template-columns: 10rem 1fr; gap: .3rem .8rem; align-items: center; }
.bar { background: var(--theirs); height: 1.1rem; border-radius: 2px; min-width: 2px; }
.ours { background: var(--ours); }
.row { display: flex; gap: .6rem; align-items: center; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; } .best { font-weight: 600; } .bad { color: var(--bad); }
details { margin: .8rem 0; }
"""


def of_group(results: Sequence[Mapping[str, Any]], group: str) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The results of a group by question and engine."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for result in results:
        if result["group"] == group:
            found.setdefault(result["question"], {})[result["engine"]] = result
    return found


def median(result: Mapping[str, Any] | None) -> float | None:
    """The seconds that count, or None if the engine did not do it."""
    return statistics.median(result["seconds"]) if result and result["seconds"] and not result["error"] else None


def totals(questions: Mapping[str, Mapping[str, Mapping[str, Any]]], engines: Sequence[str]) -> dict[str, float]:
    """The sum of medians of the engines that did all that anyone did, so that nobody gains by what he leaves out."""
    done = [q for q, by in questions.items() if any(median(r) is not None for r in by.values())]
    found = {}
    for engine in engines:
        seconds = [median(questions[question].get(engine)) for question in done]
        if seconds and None not in seconds:
            found[engine] = sum(s for s in seconds if s is not None)
    return found


def page(race: Mapping[str, Any]) -> str:
    """The page as HTML, which loads nothing.

    Args:
        race: as `race.json` has it.
    """
    engines = list(race["engines"])
    parts = [_head(race, engines)]
    for group, title in TITLES.items():
        questions = of_group(race["results"], group)
        if questions:
            parts.append(f"<h2 id='{group}'>{escape(title)}</h2>")
            parts += [_bars(questions, engines), _numbers(questions, engines)]
    parts.append(_method(race, engines))
    head = (
        "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>A race of Delta engines</title><style>{_STYLE}</style>"
    )
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _head(race: Mapping[str, Any], engines: Sequence[str]) -> str:
    versions = ", ".join(f"{ENGINES[e].label} ({escape(race['versions'][e])})" for e in engines)
    return (
        "<h1>A race of Delta engines</h1>"
        f"<p>{escape(race['when'])}, scale factor {escape(race['scale'])}, the median of {race['rounds']} rounds "
        "after a warm-up, all engines in one run, turn by turn, on the same files. Shorter is faster. An engine has a "
        "bar where it did everything, with the same rows as the others.</p>"
        f"<p class='soft'>{escape(race['machine'])}<br>{versions}</p>"
    )


def _bars(questions: Mapping[str, Mapping[str, Mapping[str, Any]]], engines: Sequence[str]) -> str:
    found = totals(questions, engines)
    longest = max(found.values(), default=1.0)
    bars = []
    for engine in engines:
        label = f"<div>{escape(ENGINES[engine].label)}</div>"
        if engine not in found:
            failed = sum(1 for by in questions.values() if median(by.get(engine)) is None)
            bars.append(f"{label}<div class='soft'>not all: {failed} of {len(questions)} missing</div>")
            continue
        width = 80 * found[engine] / longest
        name = "bar ours" if engine in _OURS else "bar"
        bars.append(
            f"{label}<div class='row'><div class='{name}' style='width:{width:.1f}%'></div>"
            f"<span>{found[engine]:.2f} s</span></div>"
        )
    return f"<div class='bars'>{''.join(bars)}</div>"


def _numbers(questions: Mapping[str, Mapping[str, Mapping[str, Any]]], engines: Sequence[str]) -> str:
    rows, reasons = [], []
    for question, by in questions.items():
        best = min((s for e in engines if (s := median(by.get(e))) is not None), default=None)
        cells = []
        for engine in engines:
            seconds = median(by.get(engine))
            if seconds is None:
                cells.append("<td class='bad'>no</td>")
                reasons.append((ENGINES[engine].label, question, by[engine]["error"] if engine in by else ""))
            else:
                cells.append(f"<td class='best'>{seconds:.2f}</td>" if seconds == best else f"<td>{seconds:.2f}</td>")
        rows.append(f"<tr><td>{escape(question)}</td>{''.join(cells)}</tr>")
    head = "".join(f"<th>{escape(ENGINES[e].label)}</th>" for e in engines)
    told = "".join(
        f"<li><b>{escape(label)}</b>, {escape(question)}: <span class='soft'>{escape(error[:300])}</span></li>"
        for label, question, error in reasons
    )
    why = f"<details><summary>Why there is no number</summary><ul>{told}</ul></details>" if told else ""
    return (
        "<details><summary>Seconds of each question</summary><div class='scroll'><table>"
        f"<tr><th>question</th>{head}</tr>{''.join(rows)}</table></div></details>{why}"
    )


def _method(race: Mapping[str, Any], engines: Sequence[str]) -> str:
    told = "".join(
        f"<li><b>{escape(ENGINES[e].label)}</b>: {escape(', '.join(ENGINES[e].requirements).format(tahoe='tahoe'))}"
        f"{'; ' + escape(ENGINES[e].coordinate) if ENGINES[e].coordinate else ''}. {escape(ENGINES[e].told)}</li>"
        for e in engines
    )
    return (
        "<h2 id='method'>How it was run</h2><p>Each engine runs in processes and an environment of its own, by its "
        f"public interface. The tables that all read were written by {escape(ENGINES[race['writer']].label)}; Spark on "
        "Parquet reads the same data files. What changes a table has a fresh copy each time, made while no clock runs. "
        "After a change, the table's count and sums are compared.</p>"
        f"<ul>{told}</ul><p class='soft'>{escape(race['command'])}</p>"
    )


def picture(race: Mapping[str, Any]) -> str:
    """The race as an SVG for the README: how much longer than tahoe each engine takes, by kind of question. More than
    three kinds stand in two columns.
    """
    engines = [e for e in race["engines"] if e != "tahoe"]
    groups = []
    for group, title in TITLES.items():
        found = totals(of_group(race["results"], group), race["engines"])
        if "tahoe" in found and len(found) > 1:
            groups.append((title, {e: s / found["tahoe"] for e, s in found.items() if e in engines}))
    lines, x, y, bottom, half = [], 0, _TOP, 0, len(groups) if len(groups) < 4 else (len(groups) + 1) // 2
    for number, (title, ratios) in enumerate(groups):
        if number == half:
            x, y = _COLUMN, _TOP
        lines.append(f"<g transform='translate({x},{y})'>{_of_picture(title, ratios)}</g>")
        y += _ROW * (len(ratios) + 1) + 34
        bottom = max(bottom, y)
    style = (
        "text{font-family:system-ui,sans-serif;fill:#3a4653}.h{font-size:17px;font-weight:600}.t{font-size:14px;"
        "font-weight:600}.l{font-size:12px}.o{fill:#0b7a75}.p{fill:#9aa7b4}svg{background:#fff}"
        "@media(prefers-color-scheme:dark){text{fill:#d5dde5}.o{fill:#2bb5ad}.p{fill:#66727f}svg{background:#14191f}}"
    )
    head = "<text x='20' y='28' class='h'>Time beside tahoe's: shorter is faster</text>"
    width = x + _COLUMN
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {bottom}' width='{width}' height='{bottom}'>"
        f"<style>{style}</style>{head}{''.join(lines)}</svg>\n"
    )


def _of_picture(title: str, ratios: Mapping[str, float]) -> str:
    """The title and the bars of one kind of question, from (0, 0) on."""
    lines = [f"<text x='20' y='0' class='t'>{escape(title)}</text>"]
    for number, (engine, ratio) in enumerate([("tahoe", 1.0), *ratios.items()]):
        y, width = 8 + _ROW * number, 40 * min(ratio, _LONGEST)
        told = f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2g}"
        lines.append(
            f"<text x='130' y='{y + 13}' class='l' text-anchor='end'>{escape(ENGINES[engine].label)}</text>"
            f"<rect x='138' y='{y + 2}' width='{width:.0f}' height='14' class='{'o' if engine in _OURS else 'p'}'/>"
            f"<text x='{145 + width:.0f}' y='{y + 13}' class='l'>{'→ ' if ratio > _LONGEST else ''}{told}</text>"
        )
    return "".join(lines)
