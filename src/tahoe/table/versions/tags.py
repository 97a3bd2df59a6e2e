"""The tags of a table: which version a name means, and which versions tags hold.

The newest version of the table has all its tags. A tag says nothing about whether its version can still be read.
"""

from __future__ import annotations

from collections.abc import Iterable

from tahoe.errors import MissingVersionError, TagLostError, TagNotFoundError, VersionNotFoundError
from tahoe.protocol.log.log_files import LogFile, plan_segment
from tahoe.protocol.log.tags import PREFIX, Tag, is_tag, tag_of, tags_of, version_or_tag
from tahoe.table.reading.snapshot import Snapshot, load_snapshot

# An error names this many tags.
_NAMED_MAX = 10


def snapshot_asked(newest: Snapshot, asked: str) -> Snapshot:
    """The version that a text means: the digits of a version, or the name of a tag.

    Raises:
        TagNotFoundError, TagLostError: the table has no such tag, or its version can no longer be read.
        VersionNotFoundError: the log does not have the version.
        InvalidTimeTravelError: it is not a number, and cannot be the name of a tag.
        InvalidActionError: a tag is malformed.
    """
    meant = version_or_tag(asked, table=newest.url)
    if isinstance(meant, str):
        return tagged_snapshot(newest, tag_named(newest, meant))
    return newest if meant == newest.version else load_snapshot(newest.log, meant)


def version_named(newest: Snapshot, asked: int | str | None) -> int | None:
    """A version, given as itself, as its digits, or as a tag; None for None.

    Raises:
        TagNotFoundError, InvalidTimeTravelError, InvalidActionError: as `snapshot_asked`
    """
    meant = version_or_tag(asked, table=newest.url) if isinstance(asked, str) else asked
    return tag_named(newest, meant).version if isinstance(meant, str) else meant


def tag_named(newest: Snapshot, name: str) -> Tag:
    """The tag of a name.

    Raises:
        TagNotFoundError, InvalidActionError
    """
    domain = newest.domains.get(PREFIX + name)
    if domain is None:
        raise TagNotFoundError(table=newest.url, tag=name, known=shown_names(newest.domains) or "none")
    return tag_of(domain)


def shown_names(domains: Iterable[str]) -> str:
    """The names of the tags among some domains, as an error shows them."""
    names = sorted(domain.removeprefix(PREFIX) for domain in domains if is_tag(domain))
    return ", ".join(names[:_NAMED_MAX]) + (f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else "")


def holding_tags(newest: Snapshot, now_ms: int) -> list[Tag]:
    """The tags that have not expired, oldest version first.

    Raises:
        InvalidActionError: a tag is malformed, so that it is unknown what it holds.
    """
    return [tag for tag in tags_of(newest.domains) if tag.holds(now_ms)]


def oldest_held(newest: Snapshot, files: Iterable[LogFile], now_ms: int) -> int | None:
    """The oldest version that a tag holds, and that the files of the log make up; None if there is none.

    Raises:
        InvalidActionError: a tag is malformed, so that it is unknown what it holds.
    """
    listed = list(files)
    return next(
        (tag.version for tag in holding_tags(newest, now_ms) if _is_made_up_by(listed, tag.version, newest.url)), None
    )


def _is_made_up_by(files: list[LogFile], version: int, table: str) -> bool:
    try:
        plan_segment(files, version, table=table)
    except (VersionNotFoundError, MissingVersionError):
        return False
    return True


def tagged_snapshot(newest: Snapshot, tag: Tag) -> Snapshot:
    """The version that a tag names.

    Raises:
        TagLostError: the log does not have it any more.
        DeltaError: it cannot be read.
    """
    if tag.version == newest.version:
        return newest
    try:
        return load_snapshot(newest.log, tag.version)
    except (VersionNotFoundError, MissingVersionError) as error:
        detail = str(error).partition("] ")[2].partition(". ")[0]
        raise TagLostError(table=newest.url, tag=tag.name, version=tag.version, detail=detail) from error
