"""Puts the bytes of a commit into the log exactly once. This module knows no actions.

Protocol: "Creation of New Log Entries": writers must never overwrite an existing one. A put that failed may have been
executed, and the answer "exists" may be caused by our own first attempt. Both cases are resolved by reading the version
back. If the version is not there yet, nothing is proved, unless the storage refused the put.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tahoe.errors import StorageRefusedError
from tahoe.events.listeners import told_retry
from tahoe.protocol.log.log_files import commit_key
from tahoe.storage.env import Env

# A put without an answer is repeated with the same bytes, so a late arrival of the first attempt does no harm.
PUT_ATTEMPTS_MAX = 3
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Committed:
    """The version is ours."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another writer has put the version."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The storage did not tell whether the version exists. Callers must not assume either outcome."""

    error: Exception


Outcome: TypeAlias = Committed | Lost | Unknown


def put_commit(env: Env, version: int, data: bytes) -> Outcome:
    """Create the log entry of a version. `data` must be unique to this attempt, for example by a `txnId`.

    Raises:
        StorageRefusedError: the storage refused the entry, and no earlier attempt can still arrive.
    """
    key = commit_key(version)
    unanswered: Exception | None = None
    for attempt in range(PUT_ATTEMPTS_MAX):
        refusal: StorageRefusedError | None = None
        try:
            if env.store.put_if_absent(key, data):
                return Committed()
        except StorageRefusedError as error:
            refusal = error
        except Exception as error:
            unanswered = error
        try:
            return Committed() if env.store.get(key) == data else Lost()
        except FileNotFoundError:
            if refusal is not None and unanswered is None:
                raise refusal from None
        except Exception as error:
            return Unknown(unanswered or error)
        pause_seconds = _PAUSE_SECONDS * (attempt + 1)
        env.sleep(pause_seconds)
        told_retry("put", env.store.url, attempt + 1, pause_seconds, unanswered or FileExistsError(), version)
    return Unknown(unanswered or FileExistsError(f"the storage returned that {key} exists, and then that it does not"))
