"""A page as one HTML document that needs nothing else: it has no script, and asks for nothing from a network."""

from __future__ import annotations

from tahoe.table.report.markup import Markup, element
from tahoe.table.report.style import STYLE

# Nothing is loaded, nothing runs, and nothing is sent, whatever a name in the table contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, *content: Markup) -> str:
    """The whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, element('body', *content), lang='en')}\n"
