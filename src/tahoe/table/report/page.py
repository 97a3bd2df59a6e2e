"""The page: figures and advice as one HTML document that needs nothing else. It has no script, and asks for nothing
from a network.

A histogram is a table whose bars are pictures, so that picture and numbers are one. A picture over time has a table
beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.filesize import decimal as size_text

from tahoe._version import VERSION
from tahoe.protocol.types.names import counted, dotted
from tahoe.table.report.advice import Advice, percent
from tahoe.table.report.charts import bar, line_over_time, moment, stacked_over_time
from tahoe.table.report.document import document
from tahoe.table.report.figures import (
    ColumnSkipping,
    Commits,
    Compaction,
    Figures,
    LogState,
    Partitions,
    Skipping,
    Unneeded,
    Upkeep,
    VersionSize,
)
from tahoe.table.report.histograms import Bar, Histogram
from tahoe.table.report.markup import Content, Markup, element, joined

# Rows of a table over time that a reader looks through.
_SIZES_SHOWN = 12


def page(figures: Figures, advice: Sequence[Advice]) -> str:
    """The whole document."""
    title = f"{_name(figures)}, version {figures.version:,}"
    sections = _sections(figures, advice)
    return document(title, _header(figures, sections), element("main", *sections.values()), _footer(figures))


def _sections(figures: Figures, advice: Sequence[Advice]) -> dict[str, Markup]:
    """The sections by their headings."""
    made = {
        "What to do": _advice(figures, advice),
        "Files": _files(figures),
        "Deleted rows": _deleted_rows(figures),
        "Partitions": _partitions(figures.partitions),
        "Growth and commits": _history(figures),
        "Data skipping": _skipping(figures.skipping, figures.files),
        "Maintenance": None if figures.upkeep is None else _upkeep(figures.upkeep),
    }
    return {
        heading: element(
            "section", element("h2", heading, id=_anchor(heading)), content, aria_labelledby=_anchor(heading)
        )
        for heading, content in made.items()
        if content is not None
    }


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _name(figures: Figures) -> str:
    return figures.name or figures.table.rstrip("/").rpartition("/")[2] or figures.table


def _header(figures: Figures, sections: Mapping[str, Markup]) -> Markup:
    links = [element("li", element("a", heading, href=f"#{_anchor(heading)}")) for heading in sections]
    return element(
        "header",
        element("h1", _name(figures)),
        element("p", element("code", figures.table), class_="soft"),
        None if not figures.description else element("p", figures.description),
        element("p", f"Version {figures.version:,} of {moment(figures.timestamp_ms)} UTC", class_="soft"),
        element("dl", *_facts(figures), class_="facts"),
        None if not figures.keys else element("p", f"Declared keys, not enforced: {'; '.join(figures.keys)}."),
        element("nav", element("ul", *links), aria_label="Sections"),
    )


def _facts(figures: Figures) -> list[Markup]:
    """The figures at the top of the page, with one explanation for each."""
    rows, share = figures.rows, figures.rows.deleted_share
    facts: list[tuple[str, str, str]] = [
        (
            "Files",
            f"{figures.files:,}",
            f"{size_text(figures.size_bytes // figures.files)} on average" if figures.files else "",
        ),
        ("Size", size_text(figures.size_bytes), f"{figures.size_bytes:,} bytes in files"),
        ("Rows", "unknown" if rows.count is None else f"{rows.count:,}", "without deleted ones"),
        (
            "Deleted rows",
            f"{rows.deleted:,}",
            "still in files" if share is None else f"{percent(share)} of the rows in files",
        ),
        ("Columns", f"{figures.columns:,}", _laid_out(figures)),
    ]
    if figures.partitions is not None:
        facts.append(("Partitions", f"{figures.partitions.count:,}", f"by {', '.join(figures.partitions.columns)}"))
    if figures.commits is not None:
        commits = figures.commits
        facts.append(
            (
                "Commits in the log",
                f"{commits.count:,}",
                f"versions {commits.first_version:,} to {commits.last_version:,}",
            )
        )
    return [
        element(
            "div",
            element("dt", name),
            element("dd", element("span", value, data_fact=_anchor(name)), element("small", more or None)),
        )
        for name, value, more in facts
    ]


def _laid_out(figures: Figures) -> str:
    if figures.clustering_columns:
        return f"clustered by {', '.join(figures.clustering_columns)}"
    return "neither partitioned nor clustered" if not figures.partition_columns else ""


# --- what to do


def _advice(figures: Figures, advice: Sequence[Advice]) -> Markup | None:
    if figures.upkeep is None:
        return None
    if not advice:
        return element("div", element("p", _nothing(figures.upkeep)), class_="advice nothing")
    return joined(*(_piece_of_advice(found) for found in advice))


def _nothing(upkeep: Upkeep) -> str:
    """Why there is no advice, although OPTIMIZE, which is not worth it for a few files, would find something to do."""
    found = upkeep.compaction
    if isinstance(found, Compaction) and found.files:
        files, left = counted(found.files, "file"), counted(found.new_files, "file")
        return f"Nothing that is worth it. OPTIMIZE would rewrite {files} as about {left}, which saves queries little."
    return "Nothing: the figures below show no need for maintenance."


def _piece_of_advice(found: Advice) -> Markup:
    """One piece of advice: the reason first, then the statement that follows from it."""
    command = (
        None
        if found.command is None
        else joined(element("p", "On the command line:", class_="soft"), element("pre", found.command))
    )
    return element(
        "div",
        element("h3", found.title),
        element("p", found.reason),
        None if found.sql is None else joined(element("p", "In Spark:", class_="soft"), element("pre", found.sql)),
        command,
        class_="advice",
    )


# --- files, rows and partitions


def _files(figures: Figures) -> Markup:
    if not figures.files:
        return element("p", "The table has no files: it is empty.")
    sizes = _histogram(figures.file_sizes, "Sizes of files", "size", "files", _size_range, size_text)
    rows = _histogram(
        figures.file_rows, "Rows per file", "rows", "files", _count_range, _number, unknown="without statistics"
    )
    return joined(
        element("p", "Deleted rows are counted here as long as they are in files."),
        element("div", sizes, rows, class_="grid"),
    )


def _deleted_rows(figures: Figures) -> Markup | None:
    """The section of deletion vectors; None if there are no files."""
    rows, share = figures.rows, figures.rows.deleted_share
    if not figures.files:
        return None
    if not rows.files_with_deleted:
        return element("p", "No file has a deletion vector: no row in files is deleted.")
    share_text = "" if share is None else f", {percent(share)} of the rows in files"
    wide = f" The bounds of {counted(figures.files_with_wide_bounds, 'file')} may be wider than their rows."
    text = (
        f"Deletion vectors mark {counted(rows.deleted, 'row')}{share_text}. Queries read these rows and drop them."
        f"{wide if figures.files_with_wide_bounds else ''}"
    )
    shares = _histogram(
        rows.deleted_shares,
        "Deleted rows in files with a deletion vector",
        "deleted",
        "files",
        _share_range,
        lambda share: percent(share / 10_000),
    )
    return joined(element("p", text), element("div", shares, class_="grid"))


def _partitions(partitions: Partitions | None) -> Markup | None:
    """The section of partitions; None if the table is not partitioned. Shares are told only where there are enough."""
    if partitions is None:
        return None
    sizes = partitions.sizes
    text = f"{counted(partitions.count, 'partition')} by {', '.join(partitions.columns)}."
    if partitions.count > 1:
        text += (
            f" The largest one is {(sizes.largest or 0) / max(sizes.median or 0, 1):,.1f} times as large as the "
            f"middle one."
        )
    if partitions.count > 10:
        tenth = -(-partitions.count // 10)
        text += f" The largest {tenth:,} have {percent(partitions.largest_tenth_share)} of all bytes."
    distribution = _histogram(sizes, "Sizes of partitions", "size", "partitions", _size_range, size_text)
    return joined(element("p", text), element("div", distribution, _largest(partitions), class_="grid"))


def _largest(partitions: Partitions) -> Markup:
    """A table of the largest partitions, with bars relative to the first."""
    top = max(partitions.largest[0].size_bytes, 1)
    rows = [
        (
            element("th", element("code", ", ".join(found.values)), scope="row", class_="name"),
            element("td", bar(found.size_bytes / top), class_="half"),
            _numeric(size_text(found.size_bytes)),
            element("td", f"{found.files:,}", class_="number extra"),
            element("td", "unknown" if found.rows is None else f"{found.rows:,}", class_="number extra"),
        )
        for found in partitions.largest
    ]
    more = partitions.count - len(partitions.largest)
    heads = joined(
        _heads("partition", "", "size", numbers=("size",)),
        *(element("th", name, scope="col", class_="number extra") for name in ("files", "rows")),
    )
    return _figure("Largest partitions", _table(heads, rows), f"and {more:,} smaller ones" if more else None)


def _histogram(
    found: Histogram,
    title: str,
    name: str,
    counts: str,
    limits: Callable[[Bar], str],
    number: Callable[[int], str],
    unknown: str = "unknown",
) -> Markup:
    """A histogram as a table with bars."""
    top = max([bar.count for bar in found.bars] + [found.unknown, 1])
    total = max(found.count + found.unknown, 1)
    shown = [(limits(found_bar), found_bar.count) for found_bar in found.bars] + (
        [(unknown, found.unknown)] if found.unknown else []
    )
    rows = [
        (
            element("th", label, scope="row", class_="range"),
            element("td", bar(count / top, "s0" if label != unknown else "s6"), class_="wide"),
            _numeric(f"{count:,}"),
            _numeric(percent(count / total)),
        )
        for label, count in shown
    ]
    caption = None
    if found.smallest is not None and found.median is not None and found.largest is not None:
        caption = f"smallest {number(found.smallest)}, median {number(found.median)}, largest {number(found.largest)}"
    return _figure(title, _table(_heads(name, "", counts, "share", numbers=(counts, "share")), rows), caption)


def _size_range(found: Bar) -> str:
    low, high = _exact_size(found.low), _exact_size(found.high)
    unit = high.rpartition(" ")[2]
    return f"{low.removesuffix(' ' + unit) if found.low else '0'} to {high}"


def _exact_size(limit: int) -> str:
    """A round size without rounding it: `2.5 MB`."""
    number, _, unit = size_text(limit, precision=6).partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def _count_range(found: Bar) -> str:
    return f"{found.low:,}" if found.high == found.low + 1 else f"{found.low:,} to {found.high - 1:,}"


def _share_range(found: Bar) -> str:
    """Of shares in hundredths of a percent."""
    return f"{found.low // 100} to {found.high // 100}\u00a0%"


def _number(value: int) -> str:
    return f"{value:,}"


# --- over time


def _history(figures: Figures) -> Markup:
    """What the log tells of the past: the growth of the table, and its operations."""
    commits = figures.commits
    if commits is None:
        return element("p", "The log has only checkpoints: its commits were cleaned up.")
    notes = []
    if commits.first_version > 0:
        notes.append(
            f"The log begins with version {commits.first_version:,}: earlier commits were cleaned up, and are not "
            f"counted."
        )
    if commits.read < commits.count:
        notes.append(
            f"{commits.read:,} of {commits.count:,} commits were read, spread evenly over the log: the numbers by "
            "operation are estimates, and the sizes are those of some versions."
        )
    growth = figures.growth
    if len(growth) < 2:
        lacks = "has only one commit" if commits.count == 1 else "does not tell the sizes of earlier versions"
        return joined(
            _paragraph(*notes, f"The log {lacks}, so there is no growth to show."),
            element("div", _operations(commits), class_="grid"),
        )
    pictures = (
        _growth(growth, "Size of the table", [entry.size_bytes for entry in growth], _size_tick),
        _growth(growth, "Files of the table", [entry.files for entry in growth], _count_tick),
    )
    sizes = element("details", element("summary", "Sizes of versions, as a table"), _sizes(growth))
    return joined(_paragraph(*notes), element("div", *pictures, _operations(commits), class_="grid three"), sizes)


def _paragraph(*sentences: str) -> Markup | None:
    return element("p", " ".join(sentences)) if sentences else None


def _growth(growth: Sequence[VersionSize], title: str, values: Sequence[int], number: Callable[[int], str]) -> Markup:
    points = [(entry.timestamp_ms, value) for entry, value in zip(growth, values, strict=True)]
    change = (
        f"from {number(values[0])} in version {growth[0].version:,} to {number(values[-1])} in version "
        f"{growth[-1].version:,}"
    )
    return _figure(title, line_over_time(points, f"{title}: {change}", number), change)


def _sizes(growth: Sequence[VersionSize]) -> Markup:
    """Some of the versions, evenly spread, the newest one among them."""
    step = max(-(-(len(growth) - 1) // (_SIZES_SHOWN - 1)), 1)
    chosen = [*growth[:-1:step], growth[-1]]
    rows = [
        (
            element("th", f"{entry.version:,}", scope="row", class_="number"),
            element("td", moment(entry.timestamp_ms), class_="range"),
            _numeric(f"{entry.files:,}"),
            _numeric(size_text(entry.size_bytes)),
        )
        for entry in chosen
    ]
    return _scrolled(
        _table(_heads("version", "committed (UTC)", "files", "size", numbers=("version", "files", "size")), rows),
        "Sizes of versions",
    )


def _operations(commits: Commits) -> Markup:
    """Commits by operation: over time, and in total."""
    names = list(dict.fromkeys(name for period in commits.periods for name in period.operations))
    names.sort(key=lambda name: (name not in commits.operations, -commits.operations.get(name, 0)))
    kinds = {name: f"s{at}" for at, name in enumerate(names)}
    bars = [(period.start_ms, period.end_ms, period.operations) for period in commits.periods]
    title = f"Commits over time by operation, {counted(commits.count, 'commit')} in {counted(len(bars), 'period')}"
    about = "" if commits.read == commits.count else "about "
    rows = [
        (
            element(
                "th",
                _key(kinds.get(name, kinds.get("others", "s6"))),
                element("code", name),
                scope="row",
                class_="name",
            ),
            _numeric(f"{about}{count:,}"),
            _numeric(percent(count / commits.count)),
        )
        for name, count in commits.operations.items()
    ]
    total = _table(_heads("operation", "commits", "share", numbers=("commits", "share")), rows)
    if len(bars) < 2:
        return _figure("Commits", total, None)
    return _figure("Commits over time", joined(stacked_over_time(bars, kinds, title, _count_tick), total), None)


def _key(kind: str) -> Markup:
    return element("svg", element("rect", width="100%", height="100%", class_=kind), class_="key", aria_hidden="true")


def _size_tick(value: int) -> str:
    return size_text(value).replace(".0 ", " ").replace("0 bytes", "0")


def _count_tick(value: int) -> str:
    return f"{value:,}"


# --- data skipping


def _skipping(skipping: Skipping, files: int) -> Markup:
    """The section of data skipping, or one sentence if nothing can be skipped."""
    if not files:
        return element("p", "The table has no files to skip.")
    if not skipping.columns:
        text = "No file has statistics with a minimum and a maximum, so that queries skip no file by its columns."
        return element("p", text)
    sampled = (
        f" They are those of {skipping.files:,} of the {files:,} files, chosen at random."
        if skipping.files < files
        else ""
    )
    more = (
        f" {counted(skipping.more_columns, 'further column')} with bounds may be left out."
        if skipping.more_columns
        else ""
    )
    if skipping.unbounded_columns:
        more += f" Left out: {counted(skipping.unbounded_columns, 'column')} without bounds in any file."
    text = (
        "The share of files that a query skips if it filters by one column: for one value, and for a range with "
        "1\u00a0% of the rows, on average over values from all parts of the column. Each condition was evaluated by "
        "the data skipping that queries use. The values of a column are estimated from the bounds of its "
        f"files.{sampled}{more}"
    )
    heads = joined(
        element("th", "column", scope="col"),
        element("th", "type", scope="col", class_="extra"),
        element("th", "skipped by one value", scope="col"),
        element("th", "skipped by a range of 1\u00a0%", scope="col"),
        element("th", "files with bounds", scope="col", class_="number extra"),
    )
    rows = [_column_row(found) for found in skipping.columns]
    return joined(
        element("p", text),
        _figure("Files skipped by column", _scrolled(_table(heads, rows), "Files skipped by column"), None),
    )


def _column_row(found: ColumnSkipping) -> Sequence[Markup]:
    """A column's row in the table of data skipping."""
    tags = [text for text, holds in (("partition", found.is_partition), ("clustering", found.is_clustering)) if holds]
    name = joined(
        element("code", dotted(found.column)), *(joined(" ", element("span", tag, class_="tag")) for tag in tags)
    )
    return (
        element("th", name, scope="row", class_="name"),
        element("td", found.type, class_="range extra"),
        _meter(found.equality_skipped, "s0"),
        _meter(found.range_skipped, "s2"),
        element("td", f"{found.files_with_bounds:,}", class_="number extra"),
    )


def _meter(share: float, kind: str) -> Markup:
    """A share as a bar with its number."""
    return element("td", element("div", element("span", percent(share)), bar(share, kind), class_="meter"))


# --- maintenance


def _upkeep(upkeep: Upkeep) -> Markup:
    return element(
        "dl",
        *(joined(element("dt", name), element("dd", element("small", text))) for name, text in _upkeep_texts(upkeep)),
    )


def _upkeep_texts(upkeep: Upkeep) -> Iterable[tuple[str, str]]:
    """What OPTIMIZE and VACUUM would do, and the state of the log, each with its name; or why that was not planned."""
    match upkeep.compaction:
        case Compaction(files=0):
            yield "OPTIMIZE", "would do nothing."
        case Compaction() as found:
            reasons = ((found.small_files, "small"), (found.worn_files, "with too many deleted rows"))
            why = ", ".join(f"{count:,} {reason}" for count, reason in reasons if count)
            yield (
                "OPTIMIZE",
                f"would rewrite {counted(found.files, 'file')} ({size_text(found.size_bytes)}) as about "
                f"{counted(found.new_files, 'file')} of up to "
                f"{size_text(found.target_bytes)}{f': {why}' if why else ''}.",
            )
        case reason:
            yield "OPTIMIZE", f"was not planned. {reason}"
    match upkeep.unneeded:
        case Unneeded() as unneeded:
            done = (
                f"{counted(unneeded.files, 'file')} ({size_text(unneeded.size_bytes)})" if unneeded.files else "nothing"
            )
            held = (
                f" Tags hold back {counted(unneeded.held_files, 'file')} ({size_text(unneeded.held_bytes)})."
                if unneeded.held_files
                else ""
            )
            yield "VACUUM", f"would delete {done}.{held}"
        case reason:
            yield "VACUUM", f"was not planned. {reason}"
    match upkeep.log:
        case LogState() as log:
            at = "none" if log.checkpoint is None else f"version {log.checkpoint:,}"
            expired = f" {counted(log.expired_files, 'file')} of the log have expired." if log.expired_files else ""
            yield "Checkpoint", f"{at}; {counted(log.commits_after, 'commit')} behind it.{expired}"
        case reason:
            yield "Checkpoint", f"was not looked for. {reason}"


# --- parts of all sections


def _heads(*names: str, numbers: Sequence[str] = ()) -> Markup:
    return joined(
        *(
            element("th", name, scope="col", class_="number" if name in numbers else None)
            if name
            else element("td", "")
            for name in names
        )
    )


def _numeric(text: str) -> Markup:
    return element("td", text, class_="number")


def _table(heads: Markup, rows: Iterable[Sequence[Markup]]) -> Markup:
    body = [element("tr", *cells) for cells in rows]
    return element("table", element("thead", element("tr", heads)), element("tbody", *body))


def _scrolled(table: Markup, label: str) -> Markup:
    """A table that is wider than a phone."""
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def _figure(title: str, content: Content, caption: str | None) -> Markup:
    return element("figure", element("h3", title), content, None if caption is None else element("figcaption", caption))


def _footer(figures: Figures) -> Markup:
    older = "" if figures.upkeep is not None else " It is about an older version, so it has no advice."
    text = (
        f"Made by tahoe {VERSION} at {moment(figures.made_ms)} UTC.{older} Sizes are in powers of ten: 1 MB is "
        f"1,000,000 bytes."
    )
    return element("footer", element("p", text))
