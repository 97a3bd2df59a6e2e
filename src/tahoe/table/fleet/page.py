"""The page of a fleet: all tables in one table, and what to do first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.filesize import decimal as size_text

from tahoe.protocol.types.names import counted
from tahoe.table.fleet.fleet import FleetReport, TableRow
from tahoe.table.report.charts import bar, moment
from tahoe.table.report.document import document
from tahoe.table.report.markup import Markup, element, joined

# More pieces of advice are not read; JSON has them all.
TASKS_SHOWN = 25

HEADINGS = (
    *("table", "rows", "size", "files", "small", "deleted rows"),
    *("old bytes", "commits/day", "growth/day", "last write"),
)


def texts_of(row: TableRow) -> list[str]:
    """The cells of a table's row, under `HEADINGS`."""
    figures = row.figures
    if figures is None:
        return [row.name, *[""] * (len(HEADINGS) - 1)]
    return [
        row.name,
        "unknown" if figures.rows.count is None else f"{figures.rows.count:,}",
        size_text(figures.size_bytes),
        f"{figures.files:,}",
        _number(row.small_files),
        f"{figures.rows.deleted:,}",
        _size(row.retained_bytes),
        "" if row.commits_a_day is None else f"{row.commits_a_day:,.1f}",
        _size(row.bytes_a_day, sign="+"),
        moment(figures.timestamp_ms)[:16],
    ]


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _size(count: float | None, sign: str = "") -> str:
    if count is None:
        return ""
    return f"-{size_text(int(-count))}" if count < 0 else f"{sign}{size_text(int(count))}"


def page(report: FleetReport) -> str:
    """The whole document."""
    title = f"Tables in {report.place}"
    facts = [
        ("Tables", f"{len(report.tables):,}"),
        ("Size", size_text(sum(row.figures.size_bytes for row in report.tables if row.figures))),
        ("Files", f"{sum(row.figures.files for row in report.tables if row.figures):,}"),
        ("Bytes of older versions", size_text(sum(row.retained_bytes or 0 for row in report.tables))),
        ("Cannot be read", f"{len(report.broken):,}"),
    ]
    shown = [element("div", element("dt", name), element("dd", value)) for name, value in facts]
    header = element("header", element("h1", title), element("dl", *shown, class_="facts"))
    sections = {
        "Cannot be read": _broken(report.broken),
        "What to do first": _tasks(report),
        "Tables": _tables(report.tables),
    }
    made = (element("section", element("h2", name), content) for name, content in sections.items() if content)
    return document(title, header, element("main", *made))


def _broken(rows: Sequence[TableRow]) -> Markup | None:
    if not rows:
        return None
    return joined(*(element("div", element("h3", row.name), element("p", row.error), class_="advice") for row in rows))


def _tasks(report: FleetReport) -> Markup:
    tasks = report.tasks
    if not tasks:
        return element("div", element("p", "Nothing: no table needs maintenance."), class_="advice nothing")
    shown = [
        element(
            "div",
            element("h3", f"{task.table.name}: {task.advice.title}"),
            element("p", task.advice.reason),
            element("pre", task.command or task.advice.sql),
            class_="advice",
        )
        for task in tasks[:TASKS_SHOWN]
    ]
    more = len(tasks) - len(shown)
    return joined(*shown, element("p", f"and {counted(more, 'piece')} of advice more", class_="soft") if more else None)


def _tables(rows: Sequence[TableRow]) -> Markup:
    """All tables, largest first, with bars relative to the largest."""
    ordered = sorted(rows, key=lambda row: -(row.figures.size_bytes if row.figures else -1))
    top = max([row.figures.size_bytes for row in rows if row.figures], default=0) or 1
    heads = [element("th", name, scope="col", class_=None if n == 0 else "number") for n, name in enumerate(HEADINGS)]
    body = [element("tr", *_cells(row, top)) for row in ordered]
    table = element(
        "table", element("thead", element("tr", heads[0], element("td", ""), *heads[1:])), element("tbody", *body)
    )
    return element("figure", element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Tables"))


def _cells(row: TableRow, top: int) -> list[Markup]:
    name, *others = texts_of(row)
    share = row.figures.size_bytes / top if row.figures else 0.0
    picture = bar(share) if row.figures else element("span", "cannot be read", class_="note")
    return [
        element("th", element("code", name), scope="row", class_="name"),
        element("td", picture, class_="half"),
        *(element("td", text, class_="number") for text in others),
    ]
