"""Tags: names of versions. Each is a metadata domain of its own, so that writers of different tags do not conflict.

Protocol: "Domain Metadata". The domain `io.tahoe.tag.<name>` has the version, the time at which the tag was made, and
its expiry if it has one. The protocol does not know tags: other writers keep the domains, but not the versions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeGuard

from tahoe.errors import InvalidTagNameError, InvalidTimeTravelError
from tahoe.protocol.log.actions import DomainMetadata, domain_configuration, invalid_domain
from tahoe.protocol.log.log_files import VERSION_MAX
from tahoe.protocol.types.moments import moment_of

FEATURE = "domainMetadata"
PREFIX = "io.tahoe.tag."

_VERSION, _CREATED, _EXPIRES = "version", "createdTimestamp", "expiresTimestamp"

# Characters that need no quotes in a path, a url or a shell.
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}"
_NAME = re.compile(NAME)

# `t@17` and `t@20260131120000000` are a mistake for, and a timestamp; `t@v17` is a version.
_NUMBER = re.compile(r"[vV]?[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """The name of a version.

    Attributes:
        created_ms: when the tag was made, in milliseconds since 1970.
        expires_ms: when it expires: from then on it protects nothing; None if it does not.
    """

    name: str
    version: int
    created_ms: int
    expires_ms: int | None = None

    @property
    def created(self) -> datetime:
        return moment_of(self.created_ms)

    @property
    def expires(self) -> datetime | None:
        return None if self.expires_ms is None else moment_of(self.expires_ms)

    def holds(self, now_ms: int) -> bool:
        """Whether the tag keeps its version from being deleted."""
        return self.expires_ms is None or now_ms < self.expires_ms

    @property
    def domain(self) -> DomainMetadata:
        found = {_VERSION: self.version, _CREATED: self.created_ms, _EXPIRES: self.expires_ms}
        present = {name: value for name, value in found.items() if value is not None}
        return DomainMetadata(domain=PREFIX + self.name, configuration=json.dumps(present, separators=(",", ":")))


def is_tag(domain: str) -> bool:
    """Whether a domain is that of a tag."""
    return domain.startswith(PREFIX)


def tag_of(domain: DomainMetadata) -> Tag:
    """The tag that a domain contains. Fields that are not known are left out.

    Raises:
        InvalidActionError: the domain is malformed, so that it is unknown which version it names.
    """
    fields = domain_configuration(domain)
    version, created, expires = (fields.get(name) for name in (_VERSION, _CREATED, _EXPIRES))
    if not _is_long(version) or not _is_long(created) or not (expires is None or _is_long(expires)):
        raise invalid_domain(domain, f"{_VERSION}, {_CREATED} and {_EXPIRES} must be integers that are not negative")
    return Tag(name=domain.domain.removeprefix(PREFIX), version=version, created_ms=created, expires_ms=expires)


def _is_long(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MILLISECONDS_MAX


# The end of the year 9999, the last that a datetime can have; more versions than that there are not.
_MILLISECONDS_MAX = 253_402_300_799_999
assert _MILLISECONDS_MAX < VERSION_MAX


def tags_of(domains: Mapping[str, DomainMetadata]) -> list[Tag]:
    """The tags among the domains of a version, oldest version first.

    Raises:
        InvalidActionError: one is malformed.
    """
    found: Iterable[Tag] = (tag_of(domain) for name, domain in domains.items() if is_tag(name) and not domain.removed)
    return sorted(found, key=lambda tag: (tag.version, tag.name))


def can_be_tag(name: str) -> bool:
    """Whether a tag can have a name."""
    return bool(_NAME.fullmatch(name) and not _NUMBER.fullmatch(name))


def check_tag_name(name: str, *, table: str) -> None:
    """Refuse a name that a tag cannot have.

    Raises:
        InvalidTagNameError
    """
    if not _NAME.fullmatch(name):
        detail = (
            "it must have 1 to 128 letters from A to Z, digits, '_', '-' and '.', and must not begin with '-' or '.'"
        )
        raise InvalidTagNameError(table=table, tag=repr(name), detail=detail)
    if not can_be_tag(name):
        raise InvalidTagNameError(
            table=table, tag=repr(name), detail="digits, and digits after a v, mean a version or a timestamp"
        )


def version_or_tag(text: str, *, table: str) -> int | str:
    """What a user who names a version means: a version, or the name of a tag.

    Raises:
        InvalidTimeTravelError: it is neither.
    """
    asked = text.strip()
    if asked.isascii() and asked.isdigit():
        return int(asked)
    if not can_be_tag(asked):
        raise InvalidTimeTravelError(table=table, detail=f"{text!r} is neither a version nor the name of a tag")
    return asked
