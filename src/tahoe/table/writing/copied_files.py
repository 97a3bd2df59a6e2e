"""Commits a run of COPY INTO: the rows of some source files, and the record that they were loaded, in one version.

Protocol: "Domain Metadata". The part of the record is written before the commit, under a name of its own. If the writer
dies in between, no version names it. Two runs change the same domain, so the second conflicts: its caller looks up
again what is left to load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tahoe.protocol.configuration.feature_upgrade import upgrade
from tahoe.protocol.log.copied_files import DOMAIN, FEATURE, CopiedFiles, copied_files
from tahoe.table.log.copied_files import SCHEMA, loaded_among, with_loaded
from tahoe.table.reading.snapshot import Snapshot
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WrittenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to load, as it was listed.

    Attributes:
        path: its url.
    """

    path: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which of the listed files a run loads.

    Attributes:
        record: of what the version that was looked at had loaded.
        files: to load.
        skipped: how many were loaded before.
        changed: how many of those have another size or modification time now.
    """

    record: CopiedFiles
    files: Sequence[SourceFile]
    skipped: int = 0
    changed: int = 0


def chosen(snapshot: Snapshot, listed: Sequence[SourceFile], *, force: bool, reloads_changed: bool) -> Choice:
    """Those of the listed files that are to be loaded into a version of a table.

    Args:
        force: load all of them, also those that were loaded before.
        reloads_changed: load those again that have changed since they were loaded.

    Raises:
        CopiedFilesLostError: it is unknown what was loaded.
        InvalidActionError: the domain is malformed.
    """
    record = copied_files(snapshot.domains, snapshot.metadata.id)
    if force:
        return Choice(record=record, files=listed)
    entries = loaded_among(snapshot.log.env.store, record, sorted({file.path for file in listed}))
    paths, sizes, times = (entries[name].to_pylist() for name in SCHEMA.names[:3])
    known = {path: (size, time) for path, size, time in zip(paths, sizes, times, strict=True)}
    before = [file for file in listed if file.path in known]
    changed = {file.path for file in before if known[file.path] != (file.size_bytes, file.modified_ms)}
    again = changed if reloads_changed else set[str]()
    return Choice(
        record=record,
        files=[file for file in listed if file.path not in known or file.path in again],
        skipped=len(before) - len(again),
        changed=len(changed) - len(again),
    )


def commit_copied(
    plan: WritePlan,
    choice: Choice,
    files: Sequence[WrittenFile],
    metrics: Mapping[str, int],
    discard: Callable[[], None] = lambda: None,
) -> int | None:
    """Commit data files together with the record that their source files were loaded.

    Args:
        plan: an append to the version that the choice was made for.
        discard: deletes the data files; called if it is certain that they were not committed.

    Raises:
        DeltaConcurrentModificationException: another run was first, or another commit conflicts; nothing was committed.
        CopiedFilesLostError, CommitOutcomeUnknownError
    """
    env = plan.table.env
    columns = {
        "path": [file.path for file in choice.files],
        "size_bytes": [file.size_bytes for file in choice.files],
        "modified_ms": [file.modified_ms for file in choice.files],
        "loaded_ms": [env.clock_ms()] * len(choice.files),
    }
    try:
        after, key = with_loaded(env, choice.record, pa.table(columns, schema=SCHEMA))
    except BaseException:
        discard()
        raise

    def discard_all() -> None:
        discard()
        env.discard([key])

    protocol = upgrade(plan.protocol, {FEATURE})
    plan = replace(plan, protocol=protocol, domains={**plan.domains, DOMAIN: after.domain})
    return plan.commit(files, metrics, discard_all)
