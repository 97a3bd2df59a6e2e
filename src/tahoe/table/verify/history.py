"""Checks what commits did to the live files: damage by writers that did not see each other, and wrong row ids.

Protocol: "Add File and Remove File" (`dataChange`), "Writer Requirements for Row Tracking". A commit that only
rearranges rows must take as many out of the table as it puts in. Damage is reported only as long as files that have it
are live: a version that was restored since, or an overwrite, ends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tahoe.errors import DeltaError, InvalidPropertyError
from tahoe.protocol.changes.legality import Definition, Transition
from tahoe.protocol.configuration.column_mapping import column_id, physical_name, stored_name
from tahoe.protocol.configuration.features import supports
from tahoe.protocol.configuration.row_tracking import FEATURE, assigns_row_ids, enabled_row_tracking
from tahoe.protocol.log.actions import Action, Add, Cdc, Metadata, Protocol, Remove
from tahoe.protocol.log.log_files import commit_name
from tahoe.protocol.types.schema import walk_fields
from tahoe.table.arrow.parquet import open_parquet
from tahoe.table.log.delta_log import Log
from tahoe.table.verify.file_replay import Entry, FileChange, Totals
from tahoe.table.verify.findings import Finding, Kind, Severity, finding

# Operations that add rows or files as they are elsewhere, and do not take rows over from the files that they remove.
_FRESH = frozenset({"WRITE", "RESTORE", "CLONE", "TRUNCATE", "CONVERT", "STREAMING UPDATE", "FSCK"})

# Operations whose files have the row ids of an earlier version, or of another table.
_CLONE = "CLONE"
_WITH_EARLIER_IDS = frozenset({"RESTORE", _CLONE})

# Stands for rows that are lost, and that no file of the commit has.
_LOST = ""

# The number of files that a finding names.
_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class _Damage:
    """A finding that holds as long as files with wrong rows are live.

    Attributes:
        files: the canonical paths of these files; rows that are lost without a file have `_LOST`.
    """

    finding: Finding
    files: set[str]


@dataclass(slots=True)
class History:
    """What the commits so far did. `recent` has the versions that removed files, of the last thousands of commits."""

    log: Log
    damage: list[_Damage] = field(default_factory=list)
    recent: dict[str, int] = field(default_factory=dict)
    authors: dict[int, str] = field(default_factory=dict)
    ids: dict[tuple[str, int], str] = field(default_factory=dict)  # physical names, by table and column id
    _older: dict[str, int] = field(default_factory=dict)

    def forget(self) -> None:
        """Keep only the last two batches of removed files."""
        self._older, self.recent = self.recent, {}

    def check(self, change: Transition, files: FileChange, totals: Totals) -> Iterator[Finding]:
        """Check one commit. What depends on later commits comes from `still_there`.

        Args:
            totals: after the commit.
        """
        keeps_files = totals.files > len(
            {entry.path for entry in (*files.added, *(after for _, after in files.replaced))}
        )
        yield from (_illegal(change, detail) for detail in self._column_ids(change, keeps_files=keeps_files))
        yield from _contents(change, files)
        if keeps_files:
            yield from _partitioning(change)
        with suppress(InvalidPropertyError):  # which has been reported
            yield from _row_ids(change, files)
        found = self._rows(change, files)
        self._follow(change, files)
        if found is not None:
            self.damage.append(_Damage(found, {entry.path for entry in files.added} or {_LOST}))
        elif files.absent:
            yield self._harmless(change, files)
        if files.removed or files.absent:
            self.authors[change.version] = author(change)
        self.recent.update((entry.path, change.version) for entry in files.removed)

    def still_there(self) -> Iterator[Finding]:
        """The damage that the last version has."""
        yield from (damage.finding for damage in self.damage if damage.files)

    def _column_ids(self, change: Transition, *, keeps_files: bool) -> Iterator[str]:
        """Column ids that stood for other columns before, while files with those columns are live."""
        definition = change.after
        if not change.has(Metadata, Protocol) or definition.mapping_mode == "none":
            return
        with suppress(DeltaError):  # which has been reported
            for path, column in walk_fields(definition.metadata.schema):
                number, name = column_id(column), physical_name(column)
                if number is None:
                    continue
                before = self.ids.setdefault((definition.metadata.id, number), name)
                if before != name and keeps_files:
                    yield (
                        f"column {'.'.join(path)} has the id {number}, which was that of the column with the physical "
                        f"name {before}"
                    )
                self.ids[definition.metadata.id, number] = name

    def _follow(self, change: Transition, files: FileChange) -> None:
        """Follow the rows of damaged files into the files that replace them."""
        takes_rows_over = not _is_fresh(change)
        starts_anew = not takes_rows_over and (files.removed or _operation(change) == "RESTORE")
        entries = Counter(entry.path for entry in files.removed)
        for damage in self.damage:
            if starts_anew:
                damage.files.discard(_LOST)
            gone = {entry.path for entry in files.removed} & damage.files
            gone -= {entry.path for entry in files.added}  # it has another deletion vector now
            damage.files.difference_update(gone)
            if damage.finding.kind is Kind.DUPLICATE_FILE:
                gone = {path for path in gone if entries[path] > 1}  # else one of the entries is left, as it should
            if gone and takes_rows_over:
                damage.files.update(entry.path for entry in files.added)

    def _rows(self, change: Transition, files: FileChange) -> Finding | None:
        """Rows that stand twice, or are lost, because of a commit."""
        if files.doubled:
            rows = _sum(entry.live_rows for entry in files.doubled)
            named = _paths_text([entry.path for entry in files.doubled])
            why = f"{named} is added with another deletion vector, but its entry before is not removed"
            return _doubled_rows(change, why, rows, Kind.DUPLICATE_FILE)
        takes_over_gone = bool(files.absent and files.added) and not _is_fresh(change)
        if not _only_moves(change.actions):
            # It may change the number of rows. Wrong is only: it takes rows over from files that were gone already.
            return _doubled_rows(change, self._absent_text(files), None) if takes_over_gone else None
        before, after = self._moved_rows(files)
        if takes_over_gone:
            surplus = None if before is None or after is None else after - before
            return _doubled_rows(change, self._absent_text(files), surplus)
        if before is None or after is None or before == after:
            return None
        found = (
            f"{_commit(change)} must only move rows (dataChange is false), but takes {before} rows out and puts "
            f"{after} in"
        )
        return _damage_finding(
            change,
            found,
            f"{abs(after - before)} rows {'are new or stand twice' if after > before else 'are lost'} since then",
        )

    def _moved_rows(self, files: FileChange) -> tuple[int | None, int | None]:
        """The live rows of the removed and of the added files; None if they are not known. If the statistics of the two
        differ, they may be wrong: then the footers are read.
        """
        before, after = (_sum(entry.live_rows for entry in entries) for entries in (files.removed, files.added))
        if before is None or after is None or before == after:
            return before, after
        removed, added = (
            _sum(self._stored_rows(entry) for entry in entries) for entries in (files.removed, files.added)
        )
        return removed, added

    def _stored_rows(self, entry: Entry) -> int | None:
        """The live rows of a file by its footer, or by its statistics if it is gone or cannot be read."""
        try:
            store, key = self.log.locate(entry.path if "://" in entry.path else f"{self.log.url}/{entry.path}")
            with open_parquet(store, key) as parquet:
                return int(parquet.metadata.num_rows) - entry.deleted
        except (DeltaError, OSError, pa.ArrowException):
            return entry.live_rows

    def _absent_text(self, files: FileChange) -> str:
        """Why the removed files were not live, for the first of them, and how many more there are."""
        texts = []
        for remove, live_entries in files.absent[:_NAMED_MAX]:
            version = self.recent.get(remove.path, self._older.get(remove.path))
            if live_entries:
                texts.append(f"{remove.path} is live with another deletion vector than the one that is removed")
            elif version is not None:
                texts.append(f"{remove.path} had been removed by version {version}{self.authors.get(version, '')}")
            else:
                texts.append(f"{remove.path} was not live")
        rest = len(files.absent) - _NAMED_MAX
        return "; ".join(texts) + (f"; and {rest} more files" if rest > 0 else "")

    def _harmless(self, change: Transition, files: FileChange) -> Finding:
        """A warning of a commit that removes files that are not live, but leaves no wrong row."""
        detail = f"{_commit(change)} removes files that are not live: {self._absent_text(files)}"
        found = finding(
            Kind.ILLEGAL_LOG_FILE,
            file=commit_name(change.version),
            version=change.version,
            detail=detail,
            severity=Severity.WARNING,
        )
        return replace(
            found, next_step="No row is wrong because of it, but its writer does not see the commits of others."
        )


def author(change: Transition) -> str:
    """By which operation of which engine a commit was made, in brackets; empty if it does not say."""
    fields = {} if change.info is None else change.info.fields
    said = [
        str(fields[name]) for name in ("operation", "engineInfo", "clientVersion") if isinstance(fields.get(name), str)
    ][:2]
    return f" ({' by '.join(said)})" if said else ""


def _commit(change: Transition) -> str:
    return f"version {change.version}{author(change)}"


def _operation(change: Transition) -> str:
    return "" if change.info is None else str(change.info.fields.get("operation") or "")


def _is_fresh(change: Transition) -> bool:
    """Whether a commit takes no rows over from the files that it removes."""
    operation = _operation(change)
    return not _only_moves(change.actions) and (operation in _FRESH or operation.startswith(("CREATE", "REPLACE")))


def _only_moves(actions: Iterable[Action]) -> bool:
    """Whether a commit says that it changes no rows."""
    files = [action for action in actions if isinstance(action, Add | Remove)]
    return (
        bool(files)
        and not any(file.data_change for file in files)
        and not any(isinstance(action, Cdc) for action in actions)
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = list(numbers)
    return None if any(number is None for number in found) else sum(number for number in found if number is not None)


def _paths_text(paths: Sequence[str]) -> str:
    rest = len(paths) - _NAMED_MAX
    return ", ".join(paths[:_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")


def _doubled_rows(change: Transition, why: str, rows: int | None, kind: Kind = Kind.WRONG_ROWS) -> Finding:
    effect = "rows stand twice since then" if rows is None else f"{rows} rows stand twice since then"
    return _damage_finding(
        change, f"{_commit(change)} puts rows into the table that stay in other files: {why}", effect, kind
    )


def _damage_finding(change: Transition, what: str, effect: str, kind: Kind = Kind.WRONG_ROWS) -> Finding:
    found = finding(kind, file=commit_name(change.version), version=change.version, detail=f"{what}. So {effect}")
    if change.version == 0:
        return found
    last = change.version - 1
    step = f"Restore version {last} (tahoe restore --version {last}) and repeat the writes since, or correct the rows."
    return replace(found, next_step=step)


# --- files that are added again, and row ids


def _contents(change: Transition, files: FileChange) -> Iterator[Finding]:
    """A path stands for one content forever: it may get other statistics and tags, but no other size or partition.

    A clone of a folder of Parquet files, or of an Iceberg table, says what its source is by now.
    """
    if _clones_no_delta_table(change):
        return
    for before, after in files.replaced:
        differs = [
            what
            for what, old, new in (
                ("bytes", before.size_bytes, after.size_bytes),
                ("partition values", dict(before.partition_values), dict(after.partition_values)),
            )
            if old != new
        ]
        if differs:
            detail = f"{_commit(change)} adds {after.path} again, which was live, with other {' and '.join(differs)}"
            yield _illegal(change, detail)


def _clones_no_delta_table(change: Transition) -> bool:
    parameters = change.info.fields.get("operationParameters") if change.info is not None else None
    source = parameters.get("source") if isinstance(parameters, dict) else None
    return _operation(change) == _CLONE and str(source).startswith(("parquet.", "iceberg."))


def _partitioning(change: Transition) -> Iterator[Finding]:
    """Other partition columns while files are live that have no values of them, or whose values are no longer read."""
    if change.before is None or not change.has(Metadata):
        return
    before, after = (_stored_partitions(definition) for definition in (change.before, change.after))
    if before != after:
        detail = (
            f"the table was partitioned by {before or 'nothing'} and is by {after or 'nothing'}, but files of before "
            f"are live"
        )
        yield _illegal(change, detail)


def _stored_partitions(definition: Definition) -> str:
    with suppress(DeltaError):  # which has been reported
        metadata, mode = definition.metadata, definition.mapping_mode
        fields = (metadata.schema.find(name) for name in metadata.partition_columns)
        return ", ".join(stored_name(field, mode) for field in fields if field is not None)
    return ""


def _row_ids(change: Transition, files: FileChange) -> Iterator[Finding]:
    """Wrong row ids in a commit: assigned twice, changed for a file that is added again, or missing although the table
    assigned ids before. If row tracking is enabled, the check of the last version reports missing ones.
    """
    protocol, metadata = change.after.protocol, change.after.metadata
    if not supports(protocol, FEATURE):
        return
    if _operation(change) not in _WITH_EARLIER_IDS:
        yield from _fresh_ids(change, files)
        for before, after in files.replaced:
            if before.base_row_id is not None and after.base_row_id != before.base_row_id:
                detail = (
                    f"it adds {after.path} again with base row id {after.base_row_id}, but it had {before.base_row_id}"
                )
                yield _illegal(change, detail)
    was_assigned = change.before is not None and assigns_row_ids(change.before.protocol, change.before.metadata)
    is_enabled = enabled_row_tracking(protocol, metadata.configuration) is not None  # then the last version tells
    lacking = [entry.path for entry in files.added if entry.base_row_id is None]
    if lacking and was_assigned and not is_enabled and assigns_row_ids(protocol, metadata):
        yield _illegal(change, f"the table assigns row ids, but it adds {_paths_text(lacking)} without a base row id")


def _fresh_ids(change: Transition, files: FileChange) -> Iterator[Finding]:
    """New files whose row ids were assigned before, or whose rows do not say that this commit made them."""
    paths = {entry.path for entry in files.removed}
    added = [entry for entry in files.added if entry.path not in paths and entry.base_row_id is not None]
    mark = change.row_id_mark
    if again := [entry.path for entry in added if entry.base_row_id is not None and entry.base_row_id <= mark]:
        yield _illegal(
            change, f"it gives {_paths_text(again)} row ids that were assigned before: the high-water mark was {mark}"
        )
    if stale := [entry.path for entry in added if entry.row_commit_version != change.version]:
        yield _illegal(
            change,
            f"it gives {_paths_text(stale)} another default row commit version than its own version, {change.version}",
        )


def _illegal(change: Transition, detail: str) -> Finding:
    return finding(Kind.ILLEGAL_LOG_FILE, file=commit_name(change.version), version=change.version, detail=detail)
