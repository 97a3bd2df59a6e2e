"""HTML and SVG elements. All text is escaped, unless it is markup already. Knows nothing of what a page says."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

from tahoe.protocol.types.names import visible


class Markup(str):
    """Text that is HTML or SVG, in contrast to text that is to be shown."""

    __slots__ = ()


Content: TypeAlias = "Markup | str | int | None"

# Elements without content and without an end tag, in HTML.
_VOID = frozenset({"meta", "br"})


def element(name: str, /, *content: Content, **attributes: str | float | None) -> Markup:
    """An element. Attributes that are None are left out; `class_` is `class`, and other underscores are hyphens."""
    attributes_text = "".join(
        f' {_attribute(key)}="{_shown(str(value))}"' for key, value in attributes.items() if value is not None
    )
    return (
        Markup(f"<{name}{attributes_text}>")
        if name in _VOID
        else Markup(f"<{name}{attributes_text}>{joined(*content)}</{name}>")
    )


def joined(*content: Content) -> Markup:
    """Content one after the other."""
    return Markup(
        "".join(part if isinstance(part, Markup) else _shown(str(part)) for part in content if part is not None)
    )


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key


def _shown(text: str) -> str:
    """Text as it is shown. Characters that could reverse or hide other text are shown as escapes."""
    return escape(visible(text, lines=True))
