"""A call of an endpoint, and reading what it was given: every value is checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tahoe.catalog.grants import Rights
from tahoe.catalog.server.refusals import invalid
from tahoe.catalog.server.service import Service
from tahoe.protocol.types.json_text import is_text
from tahoe.storage.locations import normalise

INTEGER_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call.

    Attributes:
        path, query: the parameters in the url.
        body: the JSON object that was sent; empty if none was.
        headers: by their names in lower case.
    """

    service: Service
    rights: Rights
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an endpoint answers, if it is more than a JSON object."""

    status: int = 200
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def text(given: Mapping[str, Any], name: str) -> str:
    found = optional_text(given, name)
    if not found:
        raise invalid(f"{name} is missing.")
    return found


def optional_text(given: Mapping[str, Any], name: str) -> str | None:
    found = given.get(name)
    if found is None:
        return None
    if not isinstance(found, str) or "\0" in found or not is_text(found):
        raise invalid(f"{name} must be text.")
    return found


# Other locations are relative to the server's folders.
_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/")


def location(given: Mapping[str, Any], name: str) -> str:
    """The url of a folder."""
    found = text(given, name)
    if _ABSOLUTE.match(found) is None:
        raise invalid(f"{name} must be a url, or an absolute path.")
    return normalise(found)


def choice(given: Mapping[str, Any], name: str, known: Collection[str]) -> str:
    found = text(given, name)
    if found not in known:
        raise invalid(f"{name} must be one of {', '.join(sorted(known))}, not {found!r}.")
    return found


def integer(given: Mapping[str, Any], name: str) -> int:
    found = optional_integer(given, name)
    if found is None:
        raise invalid(f"{name} is missing.")
    return found


def optional_integer(given: Mapping[str, Any], name: str) -> int | None:
    found = given.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= INTEGER_MAX:
        raise invalid(f"{name} must be a number from 0 to {INTEGER_MAX}.")
    return found


def optional_record(given: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = given.get(name)
    if found is not None and not isinstance(found, dict):
        raise invalid(f"{name} must be an object.")
    return found


def records(given: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = given.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise invalid(f"{name} must be a list of objects.")
    return found


def texts(given: Mapping[str, Any], name: str) -> list[str]:
    found = given.get(name) or []
    if not isinstance(found, list):
        raise invalid(f"{name} must be a list.")
    return [text({name: each}, name) for each in found]


def properties(given: Mapping[str, Any]) -> Mapping[str, str]:
    return text_map(given, "properties")


def text_map(given: Mapping[str, Any], name: str) -> Mapping[str, str]:
    found = optional_record(given, name) or {}
    return {text({"a key": key}, "a key"): text_or_empty(found, key) for key in found}


def text_or_empty(given: Mapping[str, Any], name: str) -> str:
    return optional_text(given, name) or ""


def is_true(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "").lower() == "true"


# So many entries a page has, unless fewer are asked for.
_PAGE_MAX = 1000
_PAGE = 100


def page_size(call: Call) -> int:
    asked = call.query.get("max_results", "0")
    if not asked.isascii() or not asked.isdigit() or len(asked) > 9:
        raise invalid("max_results must be a number.")
    return min(int(asked) or _PAGE, _PAGE_MAX)


def page_start(call: Call) -> str:
    """The name behind which a page begins."""
    return optional_text(call.query, "page_token") or ""
