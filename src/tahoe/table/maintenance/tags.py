"""Tags: gives a version a name, and takes it away. VACUUM and log cleanup of tahoe keep what a version with a name
needs.

Protocol: "Domain Metadata". A tag is made only of a version that no VACUUM and no log cleanup may be deleting: one that
was the newest within the retentions of the table. A run that began before the tag, and does not see it, keeps such a
version; a run that begins later sees the tag. After the commit this is checked again, because the version may have
expired meanwhile; then the tag is taken back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from tahoe.errors import (
    DeltaError,
    InvalidArgumentError,
    InvalidTimeTravelError,
    MissingVersionError,
    TagBesideVacuumError,
    TagExistsError,
    TagExpiryError,
    TagFilesMissingError,
    TagNotFoundError,
    TagRetentionError,
    VersionNotFoundError,
)
from tahoe.protocol.configuration.feature_upgrade import upgrade
from tahoe.protocol.configuration.features import check_writable, supported_features
from tahoe.protocol.configuration.properties import DELETED_FILE_RETENTION, LOG_RETENTION
from tahoe.protocol.log.actions import DomainMetadata
from tahoe.protocol.log.tags import FEATURE, PREFIX, Tag, check_tag_name, tag_of, tags_of
from tahoe.protocol.types.moments import moment_of
from tahoe.table.adoption.adopt import planned_anew
from tahoe.table.adoption.missing_files import missing_since, shown
from tahoe.table.cleanup.vacuums_at_work import VacuumsAtWork
from tahoe.table.commit.continuity import check_same_table
from tahoe.table.commit.draft import Draft, OperationInfo
from tahoe.table.log.vacuum_starts import vacuum_cutoff_ms
from tahoe.table.reading.snapshot import Snapshot, load_snapshot
from tahoe.table.versions.history import parse_timestamp, version_before
from tahoe.table.versions.table_reader import TableReader
from tahoe.table.versions.tags import shown_names

_logger = logging.getLogger("tahoe")

CREATE, DROP = "CREATE TAG", "DROP TAG"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRequest:
    """What CREATE TAG asks for.

    Attributes:
        version, timestamp: of the version that gets the name, which may have another tag; the newest version if both
            are None.
        expires: when the tag expires; None if it does not.
        replace: move the tag if the name exists.
        retention_check: refuse a version that VACUUM or log cleanup may be deleting.
        engine: the program that hosts tahoe, for the history.
    """

    name: str
    version: int | str | None = None
    timestamp: str | date | None = None
    expires: str | date | None = None
    replace: bool = False
    retention_check: bool = True
    user_metadata: str | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagReport:
    """What CREATE TAG did.

    Attributes:
        version: the version of the table that was committed; that of the tag is `tag.version`.
        added_features: the writer features that the table did not have before. Writers without them can no longer write
            to it.
    """

    table: str
    tag: Tag
    version: int
    added_features: tuple[str, ...] = ()


def create_tag(table: TableReader, request: TagRequest) -> TagReport:
    """Give a version a name.

    Raises:
        InvalidTagNameError, TagExpiryError, InvalidArgumentError: the name or the expiry cannot be used.
        TagExistsError: the name is taken.
        VersionNotFoundError, TimestampOutOfRangeError, InvalidTimeTravelError: the log does not have the version.
        TagRetentionError: the version has expired, and no other tag holds it.
        TagBesideVacuumError: a VACUUM is at work that may delete files of the version.
        TagFilesMissingError: files of the version are gone.
        DeltaProtocolError: the table needs a writer feature that tahoe does not support.
        MetadataChangedException: the table was replaced meanwhile.
    """
    check_tag_name(request.name, table=table.url)
    now_ms = table.env.clock_ms()
    expires_ms = _expires_ms(request, now_ms, table.url)
    first = table.snapshot()
    asked_for_newest = request.version is None and request.timestamp is None
    tagged = first if asked_for_newest else table.snapshot(request.version, request.timestamp)
    tag = Tag(name=request.name, version=tagged.version, created_ms=now_ms, expires_ms=expires_ms)
    work = _Tagging(table=table, request=request, first=first, tagged=tagged, tag=tag)
    version = planned_anew(table, work.plan)
    work.verify(version)
    if work.added:
        _logger.warning(
            "%s: version %s adds the writer feature %s, which stores tags; writers without it can no longer write "
            "to the table",
            table.url,
            version,
            FEATURE,
        )
    return TagReport(table=table.url, tag=tag, version=version, added_features=work.added)


def _expires_ms(request: TagRequest, now_ms: int, table: str) -> int | None:
    """When a new tag expires; None if it does not. A time that is past already is refused."""
    if request.expires is None:
        return None
    try:
        expires_ms = parse_timestamp(request.expires, table=table)
    except InvalidTimeTravelError:
        found = f"{request.expires!r}"
        raise InvalidArgumentError(
            argument="expires",
            table=table,
            found=found,
            expected="a timestamp",
            remedy='Pass "2027-01-31", or a datetime.',
        ) from None
    if expires_ms <= now_ms:
        expires, now = (_text(moment_ms) for moment_ms in (expires_ms, now_ms))
        raise TagExpiryError(table=table, tag=request.name, expires=expires, now=now)
    return expires_ms


def _text(moment_ms: int) -> str:
    return moment_of(moment_ms).isoformat(sep=" ", timespec="seconds")


@dataclass(kw_only=True)
class _Tagging:
    """A tag that is made, behind whatever the newest version is.

    Attributes:
        first: the newest version when the work began.
        tagged: the version that gets the name.
        before: the domain of the tag of this name that the commit replaces.
        added: the features that the commit adds.
    """

    table: TableReader
    request: TagRequest
    first: Snapshot
    tagged: Snapshot
    tag: Tag
    before: DomainMetadata | None = None
    added: tuple[str, ...] = ()
    _has_files: bool = field(default=False, init=False)
    _vacuums: VacuumsAtWork = field(init=False)

    def __post_init__(self) -> None:
        self._vacuums = VacuumsAtWork(version=self.tagged.version)

    def plan(self, newest: Snapshot | None) -> Callable[[], int]:
        """The commit that adds the tag to the newest version."""
        newest = newest or self.table.snapshot()
        check_same_table(self.first, newest)
        check_writable(newest.protocol, newest.metadata, table=newest.url)
        self.before = newest.domains.get(self.tag.domain.domain)
        if self.before is not None and not self.request.replace:
            raise TagExistsError(table=newest.url, tag=self.tag.name, version=tag_of(self.before).version)
        self._check_retention(newest, newest.version)
        self._check_vacuums(newest)
        if not self._has_files:
            self._check_files(newest)
            self._has_files = True
        draft = _draft(newest, self.tag.domain)
        self.added = tuple(sorted(supported_features(draft.protocol) - supported_features(newest.protocol)))
        parameters = {"tag": self.tag.name, "version": self.tag.version, "addedFeatures": list(self.added)}
        expires = {} if self.tag.expires is None else {"expires": self.tag.expires.isoformat()}
        return lambda: self._commit_draft(draft, CREATE, parameters | expires)

    def _commit_draft(self, draft: Draft, operation: str, parameters: Mapping[str, Any]) -> int:
        return _commit(draft, operation, parameters, self.request.user_metadata, self.request.engine)

    # --- whether the version can be held

    def _check_retention(self, newest: Snapshot, latest: int) -> None:
        if self.request.retention_check and not self._is_kept(newest, latest):
            hours = f"{_retention(newest) / timedelta(hours=1):g}"
            raise TagRetentionError(table=newest.url, version=self.tag.version, hours=hours)

    def _is_kept(self, newest: Snapshot, latest: int) -> bool:
        """Whether a VACUUM or a log cleanup that began before the version after `latest` was committed keeps the
        version.

        They keep the last version that was committed at or before their cutoff, all later ones, and those that tags
        hold.
        """
        now_ms, version = self.table.env.clock_ms(), self.tag.version
        kept = version_before(newest, now_ms - _retention(newest) // timedelta(milliseconds=1))
        domains = {**newest.domains, self.tag.domain.domain: self.before}
        tags = tags_of({name: domain for name, domain in domains.items() if domain is not None})
        return (
            kept is None
            or version >= min(kept, latest)
            or any(tag.version == version and tag.holds(now_ms) for tag in tags)
        )

    def _check_vacuums(self, newest: Snapshot, committed: int | None = None) -> None:
        """Refuse a version of which a VACUUM may be deleting files, that began before the tag was committed and need
        not know it.
        """
        vacuum = self._vacuums.deleting(newest, committed) if self.request.retention_check else None
        if vacuum is not None:
            version = self.tag.version
            raise TagBesideVacuumError(table=newest.url, version=version, vacuumVersion=vacuum.began, kept=vacuum.kept)

    def _check_files(self, newest: Snapshot) -> None:
        missing = missing_since(self.tagged, newest)
        if missing:
            raise TagFilesMissingError(
                table=newest.url, version=self.tag.version, count=len(missing), files=shown(missing)
            )

    def verify(self, committed: int) -> None:
        """After the commit: check that the version can still be read, and that it had not expired before. If not, take
        the tag back.

        Raises:
            TagRetentionError, TagBesideVacuumError, TagFilesMissingError, VersionNotFoundError, MissingVersionError: it
                cannot be held.
        """
        try:
            newest = self.table.snapshot()
            load_snapshot(newest.log, self.tag.version, by_checksum=False)  # raises if it can no longer be read
            self._check_retention(newest, committed - 1)
            self._check_vacuums(newest, committed)
            has_ended = vacuum_cutoff_ms(newest.log, self.first.version, committed) is not None
            if has_ended or not self._is_kept(newest, committed - 1):
                self._check_files(newest)
        except (
            TagRetentionError,
            TagBesideVacuumError,
            TagFilesMissingError,
            VersionNotFoundError,
            MissingVersionError,
        ):
            self._take_back()
            raise
        except DeltaError as error:
            _logger.warning(
                "%s: the tag %s is made, but it could not be checked afterwards: %s",
                self.table.url,
                self.tag.name,
                error,
            )

    def _take_back(self) -> None:
        """Remove the tag, or put the one that it has replaced in its place."""

        def plan(newest: Snapshot | None) -> Callable[[], int | None]:
            mine = self.tag.domain
            if newest is None or newest.domains.get(mine.domain) != mine:
                return lambda: None
            draft = _draft(newest, self.before or mine.replace(removed=True))
            return lambda: self._commit_draft(draft, DROP, {"tag": self.tag.name, "version": self.tag.version})

        try:
            planned_anew(self.table, plan)
        except DeltaError as error:
            _logger.warning(
                "%s: the tag %s names version %s, which cannot be held, and it could not be dropped: %s",
                self.table.url,
                self.tag.name,
                self.tag.version,
                error,
            )


def _retention(newest: Snapshot) -> timedelta:
    """How long the table keeps a version that is not the newest any more."""
    return min(known.get(newest.properties, table=newest.url) for known in (DELETED_FILE_RETENTION, LOG_RETENTION))


def drop_tag(
    table: TableReader,
    name: str,
    *,
    if_exists: bool = False,
    user_metadata: str | None = None,
    engine: str | None = None,
) -> int | None:
    """Take the name away from its version.

    Returns:
        the version that was committed; None if there is no such tag.

    Raises:
        TagNotFoundError: there is no such tag, and `if_exists` is false.
        DeltaProtocolError: the table needs a writer feature that tahoe does not support.
    """

    def plan(newest: Snapshot | None) -> Callable[[], int | None]:
        newest = newest or table.snapshot()
        check_writable(newest.protocol, newest.metadata, table=newest.url)
        domain = newest.domains.get(PREFIX + name)
        if domain is None:
            if if_exists:
                return lambda: None
            raise TagNotFoundError(table=newest.url, tag=name, known=shown_names(newest.domains) or "none")
        draft = _draft(newest, domain.replace(removed=True))
        return lambda: _commit(draft, DROP, {"tag": name}, user_metadata, engine)

    return planned_anew(table, plan)


def _draft(newest: Snapshot, domain: DomainMetadata) -> Draft:
    """The commit that sets or removes a domain. Commits of other writers may come first, unless they concern the same
    domain.
    """
    protocol = upgrade(newest.protocol, frozenset({FEATURE}))
    check_writable(protocol, newest.metadata, table=newest.url)
    return Draft(
        log=newest.log,
        base=newest,
        protocol=protocol,
        metadata=newest.metadata,
        domains={domain.domain: domain},
        carries=False,
        compacts=False,
    )


def _commit(
    draft: Draft, operation: str, parameters: Mapping[str, Any], user_metadata: str | None, engine: str | None
) -> int:
    info = OperationInfo(operation=operation, parameters=parameters, user_metadata=user_metadata, engine=engine)
    with draft:
        version = draft.commit(info)
    assert version is not None  # it records no `txn`
    return version
