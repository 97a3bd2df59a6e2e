"""Which files of a log can be deleted because they are wrong: a file is deleted only if its correct content can be
rebuilt from the others.

Protocol: "Checkpoints", "Log Compaction Files", "Version Checksum File", "Last Checkpoint File". Commits are never
touched. A wrong checkpoint is deleted only if all commits up to its version exist, because otherwise the commits and
the checkpoint before it may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tahoe.errors import VersionNotFoundError
from tahoe.protocol.log import log_files
from tahoe.protocol.log.log_files import LogFile
from tahoe.table.log.delta_log import Log
from tahoe.table.reading.snapshot import load_snapshot
from tahoe.table.verify.files import TEMPORARY_AGE_MS
from tahoe.table.verify.findings import UNREADABLE, Finding, Kind
from tahoe.table.verify.log import checkpoint_name
from tahoe.table.verify.repairs import Repair, RepairKind, Unrepaired, unrepaired

_CHECKPOINTS = (Kind.BROKEN_CHECKPOINT, Kind.INCOMPLETE_CHECKPOINT, Kind.WRONG_CHECKPOINT)

_NO_COMMITS = "the log has lost commits that it covers, so that its correct content cannot be rebuilt"


@dataclass(frozen=True, slots=True)
class _Planner:
    """Decides about findings of one log.

    Attributes:
        files: the files of the log, listed before it was checked.
    """

    log: Log
    files: Sequence[LogFile]

    def decide(self, finding: Finding) -> Repair | Unrepaired:
        if finding.kind is Kind.BROKEN_HINT:
            return _deletion(finding, [log_files.LAST_CHECKPOINT])
        if finding.kind is Kind.WRONG_CHECKSUM_FILE:
            return _deletion(finding, [f"{log_files.LOG_FOLDER}/{finding.file}"])
        if finding.kind is Kind.WRONG_COMPACTED_LOG:
            return self._about_compacted(finding)
        return self._checkpoint(finding) if finding.kind in _CHECKPOINTS else unrepaired(finding)

    def _about_compacted(self, finding: Finding) -> Repair | Unrepaired:
        file = next((f for f in self.files if f.name == finding.file), None)
        if file is None or not self._has_commits(file.version, file.end_version):
            return unrepaired(finding, _NO_COMMITS)
        return _deletion(finding, [file.key])

    def _checkpoint(self, finding: Finding) -> Repair | Unrepaired:
        files = self._files_of(finding)
        if not files or not self._is_dispensable(finding, files):
            return unrepaired(finding, _NO_COMMITS)
        if finding.kind is Kind.INCOMPLETE_CHECKPOINT and not self._is_old(files):
            return unrepaired(finding, "its writer may still be writing it")
        return _deletion(finding, [file.key for file in files])

    def _files_of(self, finding: Finding) -> list[LogFile]:
        if finding.kind is Kind.INCOMPLETE_CHECKPOINT:
            return [file for file in self.files if file.name == finding.file]
        found = (c for c in log_files.complete_checkpoints(self.files) if checkpoint_name(c) == finding.file)
        return [file for checkpoint in found for file in checkpoint.files]

    def _is_dispensable(self, finding: Finding, files: Iterable[LogFile]) -> bool:
        """Whether the version of a checkpoint can be loaded without it; of a wrong one, from the commits alone."""
        version = finding.version
        if version is None or (finding.kind is Kind.WRONG_CHECKPOINT and not self._has_commits(0, version)):
            return False
        try:
            load_snapshot(self.log, version, by_checksum=False, unusable=frozenset(file.name for file in files))
        except (*UNREADABLE, VersionNotFoundError):
            return False
        return True

    def _has_commits(self, first: int, last: int) -> bool:
        return {f.version for f in self.files if f.kind is log_files.Kind.COMMIT}.issuperset(range(first, last + 1))

    def _is_old(self, files: Iterable[LogFile]) -> bool:
        return all(self.log.env.clock_ms() - file.modified_ms > TEMPORARY_AGE_MS for file in files)


def plan_log_repairs(log: Log, files: Sequence[LogFile], findings: Iterable[Finding]) -> list[Repair | Unrepaired]:
    """Decide about the findings of a log.

    Args:
        files: those of the log, listed before it was checked.
    """
    planner = _Planner(log, files)
    return [planner.decide(finding) for finding in findings]


def _deletion(finding: Finding, keys: Sequence[str]) -> Repair:
    return Repair(finding=finding, action=RepairKind.DELETE_LOG_FILE, keys=tuple(keys))
