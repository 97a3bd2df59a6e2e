"""The record of the source files that COPY INTO has loaded into a table: which files of the log it consists of.

Protocol: "Domain Metadata". The domain `io.tahoe.copyInto` names immutable parts in `_delta_log/_copied`. A part has
the files that some runs of COPY INTO have loaded, one after the other, and says in its name which. Parts are joined as
they grow, so that a record of a million files has few of them. The domain belongs to one table: if the table was
replaced, the record is empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from tahoe.protocol.log.actions import DomainMetadata, domain_configuration, invalid_domain
from tahoe.protocol.log.log_files import LOG_FOLDER

FEATURE = "domainMetadata"
DOMAIN = "io.tahoe.copyInto"
FOLDER = f"{LOG_FOLDER}/_copied"

# A part is joined with the one before unless that one has more than this many times as many files. With 4, a record of
# a million files has at most nine parts. If they are loaded in runs of a thousand, each entry is written ten times, and
# if they are loaded one by one, twenty times.
_GROWTH = 4

_NAME = re.compile(r"([0-9]{20})-([0-9]{20})\.[A-Za-z0-9-]+\.parquet")

_TABLE, _PARTS, _NEXT, _FILE, _FILES = "tableId", "parts", "next", "name", "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPart:
    """One file of the record.

    Attributes:
        name: in `FOLDER`: the first and the last run of COPY INTO that it has, and a unique id.
        files: how many loaded files it lists.
    """

    name: str
    files: int

    @property
    def key(self) -> str:
        return f"{FOLDER}/{self.name}"

    @property
    def runs(self) -> tuple[int, int]:
        """The first and the last run of COPY INTO whose files the part has."""
        found = _NAME.fullmatch(self.name)
        assert found is not None, self.name  # it was checked when it was read
        return int(found[1]), int(found[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedFiles:
    """The record of a version of a table.

    Attributes:
        table_id: of the table that the files were loaded into.
        parts: oldest first. A file that was loaded again is in several; the last one counts.
        next_run: the number of the next run. It never falls, not even by RESTORE.
    """

    table_id: str
    parts: tuple[CopiedPart, ...] = ()
    next_run: int = 0

    @property
    def domain(self) -> DomainMetadata:
        parts = [{_FILE: part.name, _FILES: part.files} for part in self.parts]
        body = {_TABLE: self.table_id, _NEXT: self.next_run, _PARTS: parts}
        return DomainMetadata(domain=DOMAIN, configuration=json.dumps(body, separators=(",", ":")))

    def joined_with(self, new_files: int) -> tuple[CopiedPart, ...]:
        """The parts, oldest first, that a new part of so many files takes in: they are no longer named then."""
        kept, files = len(self.parts), new_files
        while kept and self.parts[kept - 1].files <= _GROWTH * files:
            kept -= 1
            files += self.parts[kept].files
        return self.parts[kept:]

    def part_name(self, joined: tuple[CopiedPart, ...], unique_id: str) -> str:
        """The name of the part of the next run. The first part of a record begins at 0, so that it covers what a table
        that was replaced has left.
        """
        is_first = len(joined) == len(self.parts)
        first = 0 if is_first else joined[0].runs[0] if joined else self.next_run
        return f"{first:020d}-{self.next_run:020d}.{unique_id}.parquet"

    def after(self, joined: tuple[CopiedPart, ...], part: CopiedPart) -> CopiedFiles:
        """The record with the part of the next run, which has taken others in."""
        kept = self.parts[: len(self.parts) - len(joined)]
        return replace(self, parts=(*kept, part), next_run=self.next_run + 1)


def copied_files(domains: Mapping[str, DomainMetadata], table_id: str) -> CopiedFiles:
    """The record of a version; an empty one if nothing was loaded, or the table was replaced since.

    Raises:
        InvalidActionError: the domain is malformed, so that it is unknown what was loaded.
    """
    domain = domains.get(DOMAIN)
    if domain is None or domain.removed:
        return CopiedFiles(table_id=table_id)
    fields = domain_configuration(domain)
    stored_id, next_run, parts = fields.get(_TABLE), fields.get(_NEXT), fields.get(_PARTS)
    if not isinstance(stored_id, str) or not _is_count(next_run) or not isinstance(parts, list):
        raise invalid_domain(domain, f"it needs {_TABLE}, a text, {_NEXT}, a number, and {_PARTS}, a list")
    if stored_id != table_id:
        return CopiedFiles(table_id=table_id, next_run=next_run)
    return CopiedFiles(table_id=table_id, parts=tuple(_part(domain, part) for part in parts), next_run=next_run)


def _part(domain: DomainMetadata, part: Any) -> CopiedPart:
    name, files = (part.get(_FILE), part.get(_FILES)) if isinstance(part, dict) else (None, None)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not _is_count(files):
        raise invalid_domain(domain, f"{part!r} is no part with a {_FILE} and a number of {_FILES}")
    return CopiedPart(name=name, files=files)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def taken_over(
    domains: Mapping[str, DomainMetadata], record: CopiedFiles, *, table_id: str
) -> dict[str, DomainMetadata]:
    """The domain that gives a table the record of an earlier version or of another table, if that changes its own.

    Args:
        domains: of the table now.
        table_id: of the table after the change.
    """
    before = domains.get(DOMAIN)
    if before is None and not record.parts:
        return {}
    next_runs = record.next_run, 0 if before is None else copied_files(domains, table_id).next_run
    after = replace(record, table_id=table_id, next_run=max(next_runs)).domain
    return {} if after == before else {DOMAIN: after}


def superseded(names: Iterable[str], settled: Iterable[CopiedPart], kept: Iterable[CopiedPart]) -> list[str]:
    """The names of the parts that no version needs any more.

    Whatever a settled part covers was replaced before that part was committed, by it or by an earlier one: by joining,
    RESTORE, or because its writer failed.

    Args:
        names: what is in the folder; other files are left out.
        settled: parts that all versions that can still be read have, or a part that covers them.
        kept: parts that are needed in any case.
    """
    ranges, needed = [part.runs for part in settled], {part.name for part in kept}

    def is_covered(name: str) -> bool:
        found = _NAME.fullmatch(name)
        return found is not None and any(lo <= int(found[1]) and int(found[2]) <= hi for lo, hi in ranges)

    return [name for name in names if name not in needed and is_covered(name)]
