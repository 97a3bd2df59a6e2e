"""Endpoints of commits: what is ratified of a table, and ratifying the next version.

Protocol: "Commit Protocol" of catalog-managed tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tahoe.catalog.commits import ratified
from tahoe.catalog.grants import MODIFY, SELECT
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
from tahoe.protocol.log.log_files import STAGED_FOLDER, commit_key
from tahoe.storage.background import in_background
from tahoe.storage.managed import ManagedStore
from tahoe.storage.ratified import Ratified, RatifiedCommit
from tahoe.table.table import Table


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
    table = call.service.catalog.open(found.row["id"], found.row["url"])
    if published is not None:
        _published(table, state, published)
    if proposed is not None:
        _ratify(call, found, table, state, proposed)


def proposed_commit(given: Mapping[str, Any]) -> Proposed:
    commit = RatifiedCommit(
        version=integer(given, "version"),
        file=text(given, "file_name"),
        size_bytes=integer(given, "file_size"),
        modified_ms=integer(given, "file_modification_timestamp"),
    )
    return Proposed(commit=commit, timestamp_ms=optional_integer(given, "timestamp"))


def _table(call: Call, privilege: str) -> tuple[Found, Ratified]:
    """The table that a call names by id and url, and what is ratified of it."""
    table_id, url = text(call.body, "table_id"), location(call.body, "table_uri")
    with call.service.begin() as connection:
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
        raise Refusal(400, "FAILED_PRECONDITION", f"{found.name} is an external table.")


def _ratify(call: Call, found: Found, table: Table, state: Ratified, proposed: Proposed) -> None:
    commit, store = proposed.commit, table.env.store
    assert isinstance(store, ManagedStore)
    if state.latest < 0 or commit.version > state.latest + 1:
        raise invalid(f"Version {commit.version} does not follow {state.latest}, the latest one.")
    if commit.version <= state.latest:
        if _is_ratified(store, commit):
            return
        raise conflict(f"Version {commit.version} is another commit's; {state.latest} is the latest one.")
    after = checked(table, call.service.known(found.row["id"], found.row["url"], state.latest), proposed)
    if not store.commits.ratify(commit):
        raise conflict(f"Version {commit.version} is another commit's.")
    call.service.learn(found.row["id"], after)
    in_background(lambda: _publish(store, commit.version))


def _is_ratified(store: ManagedStore, commit: RatifiedCommit) -> bool:
    """Whether a commit owns its version already: its writer asks again if it has lost the answer. Each commit differs
    from all others, by the id of its transaction.
    """
    if not is_staged_name(commit.file, commit.version):
        return False
    try:
        return store.get(commit_key(commit.version)) == store.get(f"{STAGED_FOLDER}/{commit.file}")
    except FileNotFoundError:
        return False


def _publish(store: ManagedStore, version: int) -> None:
    store.publish(version)


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
