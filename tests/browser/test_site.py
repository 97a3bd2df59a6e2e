"""The site that `make docs` builds fits a phone and a desk, and loads nothing from outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

SITE = Path(__file__).resolve().parents[2] / "build" / "docs"

# What sticks out of the window, unless it is in a frame that scrolls.
STICKING_OUT = """() => [...document.querySelectorAll('article :is(code, table, pre, dt, p, li, h1)')]
    .filter(element => {
        for (let frame = element.parentElement; frame; frame = frame.parentElement)
            if (['auto', 'scroll'].includes(getComputedStyle(frame).overflowX)) return false;
        return element.getBoundingClientRect().right > innerWidth + 1;
    }).map(element => element.textContent)"""


# Code and tables of which a part is out of sight until one scrolls.
CUT_OFF = """() => [...document.querySelectorAll('article :is(pre, table)')]
    .filter(element => element.scrollWidth > element.clientWidth + 1).map(element => element.textContent.slice(0, 80))"""


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    found = sorted(SITE.rglob("*.html"))
    if not found:
        message = "NOT RUN: there is no site in build/docs: run make docs"
        if os.environ.get("TAHOE_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_the_window(browser: Browser, pages: list[Path], width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 900})
    requested: list[str] = []
    opened.on("request", lambda request: requested.append(request.url))

    def found() -> Iterator[tuple[str, object]]:
        for page in pages:
            opened.goto(page.as_uri())
            if sticking_out := opened.evaluate(STICKING_OUT):
                yield page.relative_to(SITE).as_posix(), sticking_out

    assert list(found()) == []
    assert [url for url in requested if not url.startswith("file://")] == []
    opened.close()


def test_a_desk_shows_whole_lines_of_code_and_whole_tables(browser: Browser, pages: list[Path]) -> None:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})

    def found() -> Iterator[tuple[str, object]]:
        for page in pages:
            opened.goto(page.as_uri())
            if page.stem != "genindex" and (cut_off := opened.evaluate(CUT_OFF)):
                yield page.relative_to(SITE).as_posix(), cut_off

    assert list(found()) == []
    opened.close()


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("gdpr", "howto/erase"),
        ("schema mismatch", "reference/writing"),
        ("concurrent", "howto/several-writers"),
        ("liquid clustering", "reference/layout"),
        ("rollback", "howto/undo-a-mistake"),
    ],
)
def test_the_search_finds_a_page_by_other_words(browser: Browser, pages: list[Path], words: str, page: str) -> None:
    assert pages
    opened = browser.new_page()
    opened.goto(f"{(SITE / 'search.html').as_uri()}?q={words}")
    opened.wait_for_selector("#search-results li a")
    found = opened.eval_on_selector_all("#search-results li a", "links => links.slice(0, 5).map(link => link.href)")
    assert any(f"/{page}.html" in link for link in found), found
    opened.close()
