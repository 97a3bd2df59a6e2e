"""A browser for the tests: headless Chromium, driven by playwright. `.ci/run` requires it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

# The names under which distributions install it.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Skipped loudly where there is no Chromium; where TAHOE_BROWSER=required says that there must be one, it fails."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        message = (
            "NOT RUN: there is no Chromium to look at pages with: apt-get install chromium (scripts/chromium), or "
            "another package with it"
        )
        if os.environ.get("TAHOE_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    options = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=options)
        yield started
        started.close()
