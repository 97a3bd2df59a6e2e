"""Action reconciliation, as the reference implementation against which the columnar replay is tested.

Protocol: "Action Reconciliation". Small and slow on purpose; `tahoe.table.log.live_files` does the same for a million
files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from tahoe.errors import InvalidCommitError
from tahoe.protocol.log.actions import Action, Add, DomainMetadata, FileAction, Metadata, Protocol, Remove, Txn

FileKey: TypeAlias = tuple[str, str | None]
"""A logical file: the data file's canonical path, and the id of its deletion vector, if any."""


@dataclass(slots=True, kw_only=True)
class State:
    """The reconciled state of a version."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    adds: dict[FileKey, Add] = field(default_factory=dict)
    removes: dict[FileKey, Remove] = field(default_factory=dict)


def file_key(action: FileAction, canonical: Callable[[str], str]) -> FileKey:
    vector = action.deletion_vector
    return canonical(action.path), None if vector is None else vector.unique_id


def replay(commits: Iterable[Iterable[Action]], canonical: Callable[[str], str]) -> State:
    """Apply commits, oldest first. `canonical` maps all spellings of a file's path to one."""
    state = State()
    for actions in commits:
        apply_actions(state, actions, canonical)
    return state


def apply_actions(state: State, actions: Iterable[Action], canonical: Callable[[str], str]) -> None:
    """Apply the actions of one commit, or of a checkpoint to an empty state. Their order does not matter."""
    for action in actions:
        match action:
            case Protocol():
                state.protocol = action
            case Metadata():
                state.metadata = action
            case Txn():
                state.txns[action.app_id] = action
            case DomainMetadata():
                apply_domain(state.domains, action)
            case Add():
                key = file_key(action, canonical)
                state.removes.pop(key, None)
                state.adds[key] = action
            case Remove():
                key = file_key(action, canonical)
                state.adds.pop(key, None)
                state.removes[key] = action
            case _:
                pass


def apply_domain(domains: dict[str, DomainMetadata], action: DomainMetadata) -> None:
    """The newest action of a domain wins; a removed domain is not in the state."""
    if action.removed:
        domains.pop(action.domain, None)
    else:
        domains[action.domain] = action


def check_commit(actions: Iterable[Action], canonical: Callable[[str], str], *, table: str, file: str) -> None:
    """Refuse a commit whose meaning would depend on the order of its actions.

    Protocol: "A single log entry MUST NOT include more than one action that reconciles with each other", and at most
    one add and one remove per path. Of several `txn` actions with the same app id the last one wins, because existing
    readers do it that way.

    Raises:
        InvalidCommitError: the error gives the file and the duplicate.
    """
    found = list(actions)
    kinds = [type(action) for action in found]
    for kind, name in ((Metadata, "metaData"), (Protocol, "protocol")):
        if kinds.count(kind) > 1:
            raise InvalidCommitError(table=table, file=file, detail=f"it has more than one {name} action")
    if kinds.count(Add) + kinds.count(Remove) < 2:  # as most commits of a long log: nothing to compare
        return
    adds, removes = (_files_by_path(found, kind, canonical, table=table, file=file) for kind in (Add, Remove))
    for path in adds.keys() & removes.keys():
        if file_key(adds[path], canonical) == file_key(removes[path], canonical):
            raise InvalidCommitError(table=table, file=file, detail=f"it both adds and removes {adds[path].path}")


def _files_by_path(
    actions: Iterable[Action], kind: type[FileAction], canonical: Callable[[str], str], *, table: str, file: str
) -> dict[str, FileAction]:
    """The adds or the removes of a commit by their canonical paths.

    Raises:
        InvalidCommitError: a path has two of them.
    """
    files = [action for action in actions if isinstance(action, kind)]
    found = {canonical(action.path): action for action in files}
    if len(found) < len(files):
        counts = Counter(canonical(action.path) for action in files)
        twice = next(action.path for action in reversed(files) if counts[canonical(action.path)] > 1)
        raise InvalidCommitError(
            table=table, file=file, detail=f"it has more than one {kind.__name__.lower()} action for {twice}"
        )
    return found


def check_reconciled(
    actions: Iterable[Action], canonical: Callable[[str], str], *, path_once: bool = False
) -> str | None:
    """Why the actions are not reconciled, as those of a compacted file or a checkpoint must be; None if they are.

    Identical duplicates are allowed except for file actions: some parts of a checkpoint repeat actions of the whole
    checkpoint.

    Args:
        path_once: whether a path may be live with one deletion vector only, as the protocol requires. Commits that
            violate this can be read, and so can a checkpoint of them.
    """
    live: set[str] = set()
    seen: dict[tuple[object, ...], Action] = {}
    for action in actions:
        key = _reconciled_key(action, canonical)
        if key is None or (seen.get(key) == action and not isinstance(action, Add | Remove)):
            continue
        path = canonical(action.path) if path_once and isinstance(action, Add) else None
        if key in seen or path in live:
            return (
                "it has more than one action for "
                f"{action.path if isinstance(action, Add | Remove) else ' '.join(map(str, key))}"
            )
        seen[key] = action
        if path is not None:
            live.add(path)
    return None


def _reconciled_key(action: Action, canonical: Callable[[str], str]) -> tuple[object, ...] | None:
    """The key by which an action is reconciled: of all actions with the same key the last one wins."""
    match action:
        case Protocol():
            return ("protocol",)
        case Metadata():
            return ("metaData",)
        case Txn():
            return ("txn", action.app_id)
        case DomainMetadata():
            return ("domainMetadata", action.domain)
        case Add() | Remove():
            return ("file", *file_key(action, canonical))
        case _:
            return None
