"""Endpoints of commits: what is ratified of a table, and ratifying the next version.

Protocol: "Commit Protocol" of catalog-managed tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from tahoe.catalog.commits import ratified
from tahoe.catalog.grants import MODIFY, SELECT
from tahoe.catalog.ratification import TableChange
from tahoe.catalog.server.calls import (
    Call,
    integer,
    location,
    optional_integer,
    optional_record,
    text,
)
from tahoe.catalog.server.commit_checks import Proposed, checked, is_staged_name
from tahoe.catalog.server.infos import Json
from tahoe.catalog.server.refusals import Refusal, conflict, invalid, not_found, unimplemented
from tahoe.catalog.server.securables import Found, require, table_by_id
from tahoe.catalog.server.service import Known
from tahoe.events.listeners import background_job
from tahoe.protocol.log.log_files import STAGED_FOLDER, commit_key
from tahoe.storage.background import in_background
from tahoe.storage.managed import ManagedStore
from tahoe.storage.ratified import Ratified, RatifiedCommit
from tahoe.table.table import Table

# The code by which clients of tahoe know that a table's commits are those of its log alone.
NOT_MANAGED = "TABLE_NOT_MANAGED"


def get_commits(call: Call) -> Json:
    start, end = integer(call.body, "start_version"), optional_integer(call.body, "end_version")
    found, state = _table(call, SELECT)
    last = state.latest if end is None else end
    asked = [commit for commit in state.commits if start <= commit.version <= last]
    return {"commits": commit_infos(call, found, asked), "latest_table_version": state.latest}


def commit_infos(call: Call, found: Found, commits: Iterable[RatifiedCommit]) -> list[dict[str, Any]]:
    """Ratified commits as clients are told of them, with their in-commit timestamps."""
    log = call.service.catalog.open(found.row["id"], found.row["url"]).log
    told = []
    for commit in commits:
        info = log.commit_info(commit.version)
        stamp = None if info is None else info.in_commit_timestamp_ms
        told.append(_commit_info(commit, commit.modified_ms if stamp is None else stamp))
    return told


def _commit_info(commit: RatifiedCommit, timestamp_ms: int) -> dict[str, Any]:
    return {
        "version": commit.version,
        "timestamp": timestamp_ms,
        "file_name": commit.file,
        "file_size": commit.size_bytes,
        "file_modification_timestamp": commit.modified_ms,
    }


def post_commit(call: Call) -> Json:
    """Ratify a staged commit, and forget those that are published. Either may be left out."""
    given = optional_record(call.body, "commit_info")
    published = optional_integer(call.body, "latest_backfilled_version")
    if optional_record(call.body, "uniform") is not None:
        raise unimplemented("The server keeps no metadata of Iceberg.")
    if given is None and published is None:
        raise invalid("Neither commit_info nor latest_backfilled_version is given.")
    proposed = None if given is None else proposed_commit(given)
    found, state = _table(call, MODIFY)
    change(call, found, state, proposed, published)
    return {}


def change(call: Call, found: Found, state: Ratified, proposed: Proposed | None, published: int | None) -> None:
    """Forget the commits up to a published version, and ratify a commit.

    Raises:
        Refusal: either is not legal, or the version is another commit's.
    """
    if published is not None:
        _published(call.service.catalog.open(found.row["id"], found.row["url"]), state, published)
    if proposed is not None:
        base = proposed.commit.version - 1
        _ratify(call, asked_of(call, found, state, base, [proposed]), proposed.commit)


def proposed_commit(given: Mapping[str, Any]) -> Proposed:
    commit = RatifiedCommit(
        version=integer(given, "version"),
        file=text(given, "file_name"),
        size_bytes=integer(given, "file_size"),
        modified_ms=integer(given, "file_modification_timestamp"),
    )
    return Proposed(commit=commit, timestamp_ms=optional_integer(given, "timestamp"))


def _table(call: Call, privilege: str) -> tuple[Found, Ratified]:
    with call.service.begin() as connection:
        return managed_table(connection, call, call.body, privilege)


def managed_table(
    connection: sa.Connection, call: Call, given: Mapping[str, Any], privilege: str
) -> tuple[Found, Ratified]:
    """The table that a caller names by id and url, and what is ratified of it."""
    table_id, url = text(given, "table_id"), location(given, "table_uri")
    found = table_by_id(connection, call, table_id)
    require(call.rights, privilege, found.securable)
    check_managed(found)
    if url != found.row["url"]:
        raise invalid(f"The table is at {found.row['url']}, not at {url}.")
    try:
        return found, ratified(connection, table_id)
    except FileNotFoundError as error:
        raise not_found("table", table_id) from error


def check_managed(found: Found) -> None:
    if found.row["kind"] != "managed":
        raise Refusal(400, NOT_MANAGED, f"{found.name} is an external table.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Commits of a table that are to be ratified.

    Attributes:
        state: what was ratified of it when the call began.
        base: the version behind which they are made.
    """

    found: Found
    table: Table
    state: Ratified
    base: int
    proposed: Sequence[Proposed]

    @property
    def change(self) -> TableChange:
        commits = [each.commit for each in self.proposed]
        return TableChange(table_id=self.found.row["id"], url=self.table.url, base=self.base, commits=commits)

    @property
    def store(self) -> ManagedStore:
        assert isinstance(self.table.env.store, ManagedStore)
        return self.table.env.store


def asked_of(call: Call, found: Found, state: Ratified, base: int, proposed: Sequence[Proposed]) -> Asked:
    """Commits that follow a version of a table, in the order of their versions.

    Raises:
        Refusal: they do not.
    """
    if state.latest < 0 or base > state.latest:
        raise invalid(f"Version {base + 1} does not follow {state.latest}, the latest one.")
    versions = [each.commit.version for each in proposed]
    if versions != [*range(base + 1, base + 1 + len(proposed))]:
        raise invalid(f"Versions {versions} do not follow {base}, one after the other.")
    table = call.service.catalog.open(found.row["id"], found.row["url"])
    return Asked(found=found, table=table, state=state, base=base, proposed=proposed)


def _ratify(call: Call, asked: Asked, commit: RatifiedCommit) -> None:
    if asked.base == asked.state.latest:
        after = definition_after(call, asked)
        if asked.store.commits.ratify(commit):
            ratified_now(call, asked, after)
            return
    if not are_ratified(asked):
        raise conflict(f"Version {commit.version} is another commit's; {asked.state.latest} is the latest one.")


def definition_after(call: Call, asked: Asked) -> Known:
    """The definition of a table with commits that are all legal.

    Raises:
        Refusal: one is not, and why.
    """
    known = call.service.known(asked.found.row["id"], asked.found.row["url"], asked.base)
    for proposed in asked.proposed:
        known = checked(asked.table, known, proposed)
    return known


def ratified_now(call: Call, asked: Asked, after: Known) -> None:
    """What follows once the commits of a table are ratified."""
    call.service.learn(asked.found.row["id"], after)
    newest = asked.proposed[-1].commit.version
    publish = partial(asked.store.publish_behind, newest)
    in_background(background_job("publish", asked.store.url, newest, publish))


def are_ratified(asked: Asked) -> bool:
    """Whether commits own their versions already: their writer asks again if it has lost the answer, and the first call
    may still be running. Each commit differs from all others, by the id of its transaction.
    """
    return all(_is_ratified(asked.store, each.commit) for each in asked.proposed)


def _is_ratified(store: ManagedStore, commit: RatifiedCommit) -> bool:
    if not is_staged_name(commit.file, commit.version):
        return False
    try:
        return store.get(commit_key(commit.version)) == store.get(f"{STAGED_FOLDER}/{commit.file}")
    except FileNotFoundError:
        return False


def _published(table: Table, state: Ratified, version: int) -> None:
    """Forget commits that a client has published. The log must have them: else they would be lost."""
    store = table.env.store
    assert isinstance(store, ManagedStore)
    if version > state.latest:
        raise invalid(f"Version {version} cannot be published: {state.latest} is the latest one.")
    for commit in state.commits:
        if commit.version > version:
            break
        there = store.inner.head(commit_key(commit.version))
        if there is None or there.size_bytes != commit.size_bytes:
            raise invalid(f"Version {commit.version} is not in the log, or is another commit there.")
    store.commits.published(version)
