"""Putting the bytes of a commit into the log, exactly once. It knows no actions.

Protocol: "Creation of New Log Entries": writers must never overwrite an existing one. A put that failed may have landed, and an
answer "exists" may come from our own first try: both are settled by reading the version back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tahoe.protocol.log_files import commit_key
from tahoe.storage.env import Env

# A put that failed without a trace is sent again with the same bytes, so that a late arrival of the first does no harm.
PUT_ATTEMPTS_MAX = 3
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Committed:
    """The version is ours."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another writer has the version."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The storage would not tell whether the version is there. Nothing may be assumed."""

    error: Exception


Outcome: TypeAlias = Committed | Lost | Unknown


def put_commit(env: Env, version: int, data: bytes) -> Outcome:
    """Create the log entry of a version. `data` must be unique to this attempt, which a `txnId` in it makes so.

    Raises:
        Exception: what the storage raised, where the entry is known not to be there after several tries.
    """
    key = commit_key(version)
    for attempt in range(PUT_ATTEMPTS_MAX):
        failure: Exception | None = None
        try:
            if env.store.put_if_absent(key, data):
                return Committed()
        except Exception as error:
            failure = error
        try:
            return Committed() if env.store.get(key) == data else Lost()
        except FileNotFoundError:
            if failure is not None and attempt == PUT_ATTEMPTS_MAX - 1:
                raise failure from None
        except Exception as error:
            return Unknown(failure or error)
        env.sleep(_PAUSE_SECONDS * (attempt + 1))
    return Unknown(FileExistsError(f"the storage says that {key} exists, and that it does not"))
