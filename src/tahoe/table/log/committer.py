"""Putting the bytes of a commit into the log, exactly once. It knows no actions.

Protocol: "Creation of New Log Entries": writers must never overwrite an existing one. A put that failed may have landed, and an
answer "exists" may come from our own first try: both are settled by reading the version back. That it is not there yet proves nothing:
only a storage that refuses has decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tahoe.errors import StorageRefusedError
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
        StorageRefusedError: the storage would not take the entry, and no earlier try can still arrive.
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
        env.sleep(_PAUSE_SECONDS * (attempt + 1))
    return Unknown(unanswered or FileExistsError(f"the storage returned that {key} exists, and then that it does not"))
