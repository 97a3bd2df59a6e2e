"""The page of `tahoe report` in a real browser: it loads alone, fits every screen, and says what the table says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page

import tahoe
from tahoe.table.report.report import TableReport

HOSTILE = "<script>window.hacked = 1</script><img src=http://127.0.0.1:9/x onerror='window.hacked = 1'>\u202e\"'&`"

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


def eventful(folder: Path) -> tahoe.Table:
    """Hostile names, partitions, column mapping, deletion vectors, and commits of several kinds."""
    table = tahoe.Table(str(folder / "t<b>"))
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    for number in range(12):
        pairs = 10 + number
        rows = {
            "n": range(number * 50, number * 50 + 2 * pairs),
            HOSTILE: ["x" * 200] * 2 * pairs,
            "p" + HOSTILE: [HOSTILE, None] * pairs,
        }
        table.append(pa.table(rows), partition_by=["p" + HOSTILE], properties=properties if number == 0 else None)
    with table.transaction(operation=HOSTILE) as changes:
        changes.delete("n < 15")
    return table


def empty(folder: Path) -> tahoe.Table:
    table = tahoe.Table(str(folder / "empty"))
    table.append(pa.table({"n": pa.array([], pa.int64())}))
    return table


def single(folder: Path) -> tahoe.Table:
    table = tahoe.Table(str(folder / "single"))
    table.append(pa.table({"n": [1]}))
    return table


@pytest.fixture(scope="module", params=[eventful, empty, single], ids=lambda build: build.__name__)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tahoe.Table:
    return request.param(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def report(table: tahoe.Table) -> TableReport:
    return table.report()


@pytest.fixture
def page(browser: Browser, report: TableReport, tmp_path: Path) -> Iterator[Page]:
    """The open page. At the end, nothing was requested but the file, and the console is empty."""
    file = tmp_path / "report.html"
    report.save(file)
    opened = browser.new_page(viewport=DESK)
    requested: list[str] = []
    said: list[str] = []
    opened.on("request", lambda request: requested.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(file.as_uri())
    yield opened
    opened.wait_for_load_state("networkidle")
    opened.close()
    assert requested == [file.as_uri()]
    assert said == []


def test_the_page_says_what_the_table_says(page: Page, table: tahoe.Table) -> None:
    listing, snapshot = table.files(), table.snapshot()

    def fact(name: str) -> str:
        return page.locator(f"[data-fact={name}]").inner_text()

    assert fact("files") == f"{listing.num_rows:,}"
    assert fact("rows") == f"{table.to_arrow().num_rows:,}"
    assert fact("deleted-rows") == f"{sum(listing['deleted_records'].to_pylist()):,}"
    assert fact("commits-in-the-log") == f"{len(table.history()):,}"
    assert page.locator("dl.facts").inner_text().count(f"{snapshot.live.size_bytes:,} bytes in files") == 1
    for title in ("Sizes of files", "Rows per file"):
        counts = page.locator("figure", has_text=title).locator("tbody tr td:nth-child(3)").all_inner_texts()
        assert sum(int(count.replace(",", "")) for count in counts) == listing.num_rows


def test_the_page_says_what_was_measured_of_each_column(page: Page, report: TableReport) -> None:
    rows = page.locator("figure", has_text="Files skipped by column").locator("tbody tr")
    shown = [[cell.inner_text().strip() for cell in row.locator("td").all()] for row in rows.all()]
    columns = report.figures.skipping.columns
    assert len(shown) == len(columns)
    for cells, column in zip(shown, columns, strict=True):
        assert cells[0] == column.type
        for text, share in ((cells[1], column.equality_skipped), (cells[2], column.range_skipped)):
            assert abs(float(text.strip("<> %\u00a0")) - 100 * share) <= 0.1


def test_nothing_in_the_table_is_more_than_text(page: Page) -> None:
    assert page.evaluate("[document.scripts.length, document.images.length, window.hacked ?? null]") == [0, 0, None]
    assert page.locator("a").evaluate_all(
        "links => links.every(link => link.hash && document.querySelector(link.hash))"
    )


@pytest.mark.parametrize("screen", [PHONE, DESK], ids=["phone", "desk"])
def test_the_page_fits_the_screen(page: Page, screen: dict[str, int]) -> None:
    page.set_viewport_size(screen)
    wide = (
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll')).map(e => "
        "e.outerHTML)"
    )
    assert page.locator("main *, header *").evaluate_all(wide) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
    overflowing = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).map(box => box.outerHTML)"
    assert page.locator("figure, .advice, dl.facts div").evaluate_all(overflowing) == []


def test_pictures_and_tables_have_names(page: Page) -> None:
    assert page.title() != ""
    assert page.locator("h1").count() == 1
    named = "pictures => pictures.every(p => p.getAttribute('aria-label') && p.querySelector('title').textContent)"
    assert page.locator("svg[role=img]").evaluate_all(named)
    assert page.locator("table").evaluate_all(
        "tables => tables.every(t => t.querySelector('th') && t.closest('figure, details'))"
    )


def test_colours_follow_the_reader_and_paper_is_white(page: Page) -> None:
    def background() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    page.emulate_media(color_scheme="light")
    light = background()
    page.emulate_media(color_scheme="dark")
    assert light != background()
    page.emulate_media(media="print", color_scheme="dark")
    assert background() == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--text')").strip() == "#1c2024"
