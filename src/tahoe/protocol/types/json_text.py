"""The JSON of a log: its texts, and parsing them, which are untrusted input.

Values are never nested too deeply for recursive code, and every invalid text raises a ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeGuard

# Each nested struct takes three levels of JSON, so a hundred of them can be nested. Walking a value may take a stack
# frame per level, and Python allows a thousand.
DEPTH_MAX = 300


def load_json(text: str | bytes, **hooks: Any) -> Any:
    """The value of a JSON text; `hooks` are those of `json.loads`.

    Raises:
        ValueError: it is not JSON, not UTF-8, or nested deeper than `DEPTH_MAX`.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode().removeprefix("\ufeff")  # the codec for this is slow
        value = json.loads(decoded, **hooks)
    except RecursionError:
        raise too_deep() from None
    if may_be_too_deep(decoded) and _is_too_deep(value):
        raise too_deep()
    return value


def may_be_too_deep(text: str | bytes) -> bool:
    """Whether a text has so many brackets that its value may be nested too deeply."""
    brackets = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    return brackets > DEPTH_MAX


dump_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
"""The JSON text of a value, without spaces. `json.dumps` would make an encoder for each value."""


def too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEPTH_MAX} levels deep")


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [child for outer in level for child in _children(outer)]
        if not level:
            return False
    return True


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def is_text(value: Any) -> TypeGuard[str]:
    """Whether a value is a string that UTF-8 can encode: JSON escapes can produce lone surrogates, which it cannot."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
