"""Runs of COPY INTO without Spark: which files are loaded, and the record that is committed; without rows."""

from __future__ import annotations

import tahoe
from tahoe.protocol.log.copied_files import copied_files
from tahoe.table.log.copied_files import all_loaded
from tahoe.table.writing.copied_files import Choice, SourceFile, chosen, commit_copied
from tahoe.table.writing.planning import plan_write
from tahoe.table.writing.write_plan import WritePlan
from tahoe.table.writing.write_request import WriteRequest


def files(*names: str, size_bytes: int = 1) -> list[SourceFile]:
    return [SourceFile(path=f"file:///in/{name}", size_bytes=size_bytes, modified_ms=5) for name in names]


def planned(table: tahoe.Table) -> WritePlan:
    request = WriteRequest(mode="append", schema=table.snapshot().schema, operation="COPY INTO")
    plan = plan_write(table, request)
    assert plan is not None
    return plan


def choice_of(plan: WritePlan, *names: str, force: bool = False) -> Choice:
    assert plan.snapshot is not None
    return chosen(plan.snapshot, files(*names), force=force, reloads_changed=False)


def load(table: tahoe.Table, *names: str, force: bool = False) -> list[str]:
    """Load the files that are new; returns their names."""
    plan = planned(table)
    choice = choice_of(plan, *names, force=force)
    if choice.files:
        commit_copied(plan, choice, [], {})
    return [file.path.rpartition("/")[2] for file in choice.files]


def loaded(table: tahoe.Table, version: int | None = None) -> list[str]:
    """The names of the files that a version has loaded."""
    snapshot = table.snapshot(version)
    entries = all_loaded(table.env.store, copied_files(snapshot.domains, snapshot.metadata.id))
    return [path.rpartition("/")[2] for path in entries["path"].to_pylist()]
