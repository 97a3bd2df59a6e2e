"""A difference as an HTML page, and as tables in a notebook. The page has no script, and asks for nothing from a
network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.filesize import decimal as size_text

from tahoe.protocol.types.names import counted
from tahoe.protocol.types.value_texts import cell
from tahoe.table.difference.compared import Change, ComparedVersions
from tahoe.table.reading.notebook import html_or_reason
from tahoe.table.reading.plain_values import first_rows
from tahoe.table.report.document import document
from tahoe.table.report.markup import Markup, element, joined

# Rows of each kind that a notebook shows; the page shows more.
_NOTEBOOK_ROWS = 10

_ARROW = " → "


def page(found: ComparedVersions, limit: int) -> str:
    """The whole document."""
    name = found.after.metadata.name or found.after.url.rstrip("/").rpartition("/")[2]
    title = f"{name}: version {found.before.version:,} to {found.after.version:,}"
    header = element("header", element("h1", title), element("p", element("code", found.after.url), class_="soft"))
    sections = (
        element("section", element("h2", heading), content) for heading, content in sections_of(found, limit).items()
    )
    return document(title, header, element("main", *sections))


def notebook(found: ComparedVersions) -> str:
    """Tables without a style of their own."""
    versions = f"{found.after.url}, version {found.before.version:,} to {found.after.version:,}"

    def made() -> str:
        parts = sections_of(found, _NOTEBOOK_ROWS).items()
        shown = (joined(element("p", element("b", heading)), content) for heading, content in parts)
        return element("div", element("b", versions), *shown)

    return html_or_reason(found.after.url, made)


def sections_of(found: ComparedVersions, limit: int) -> dict[str, Markup]:
    """What differs, by headings; parts without a difference are left out."""
    counts = found.counts
    numbers = [
        ("inserted", f"{counts.inserted:,}"),
        ("deleted", f"{counts.deleted:,}"),
        *([] if found.matched_by == "whole rows" else [("updated", f"{counts.updated:,}")]),
    ]
    by = f"by {', '.join(found.keys)}" if found.keys else f"by {found.matched_by}"
    made: dict[str, Markup] = {
        f"Rows, {by}": joined(_table((), numbers), _updated_columns(found)),
        **rows_of(found, limit),
    }
    if found.schema:
        made["Columns"] = _table(
            ("column", "what", "before", "after"), ((c.column, c.kind, c.before, c.after) for c in found.schema)
        )
    for heading, changes in (
        ("Properties", found.properties),
        ("Protocol", found.protocol),
        ("Name and layout", found.layout),
    ):
        if changes:
            made[heading] = _changes(changes)
    made["Files"] = _table(("files", "count", "size"), file_lines(found))
    return made


def file_lines(found: ComparedVersions) -> list[tuple[str, str, str]]:
    """The files by what became of them."""
    files = found.files
    return [
        ("added", f"{len(files.added):,}", size_text(files.added_bytes)),
        ("removed", f"{len(files.removed):,}", size_text(files.removed_bytes)),
        ("with other deleted rows", f"{len(files.changed_vectors):,}", ""),
        ("in both", f"{files.shared:,}", ""),
    ]


def rows_of(found: ComparedVersions, limit: int) -> dict[str, Markup]:
    """The first rows of each kind."""
    names, counts = found.inserted_batches().schema.names, found.counts
    kinds = (
        ("Inserted rows", counts.inserted, (_texts(row, names) for row in first_rows(found.inserted_batches(), limit))),
        ("Deleted rows", counts.deleted, (_texts(row, names) for row in first_rows(found.deleted_batches(), limit))),
        ("Updated rows", counts.updated, updated_texts(found, limit)),
    )
    return {
        heading: joined(_table(names, rows), _more(max(count - limit, 0))) for heading, count, rows in kinds if count
    }


def updated_texts(found: ComparedVersions, limit: int) -> Iterator[list[str]]:
    """Updated rows as texts: what changed in a row is told before and after."""
    for row in first_rows(found.updated_batches(), limit):
        before, after = row["before"], row["after"]
        yield [
            text if text == now else f"{text}{_ARROW}{now}"
            for text, now in ((cell(before[name]), cell(after[name])) for name in after)
        ]


def _texts(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [cell(row[name]) for name in names]


def _more(count: int) -> Markup | None:
    return element("p", f"and {counted(count, 'row')} more", class_="soft") if count else None


def _updated_columns(found: ComparedVersions) -> Markup | None:
    told = ", ".join(f"{name} in {count:,}" for name, count in found.updated_columns.items())
    return element("p", f"Updated columns: {told}.") if told else None


def _changes(changes: Sequence[Change]) -> Markup:
    return _table(("name", "before", "after"), ((c.name, c.before, c.after) for c in changes))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Markup:
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in headings)))
    body = (element("tr", *(element("td", "" if text is None else text) for text in row)) for row in rows)
    table = element("table", head if headings else None, element("tbody", *body))
    return element("div", table, class_="scroll")
