"""Tables that were changed as no writer may, and runs that are killed at one call of the storage after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import tahoe
from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import Action, Add, encode_commit
from tahoe.storage.env import Env
from tahoe.storage.memory import MemoryStore
from tahoe.table.log.delta_log import Log
from tests.table.builders import memory_env


def rewrite(env: Env, version: int, change: Callable[[Action], Action | None]) -> None:
    """Change the actions of a commit, and delete the checksums of this version and later ones."""
    actions = [changed for a in Log(env).read_version(version) if (changed := change(a)) is not None]
    env.store.put(log_files.commit_key(version), encode_commit(actions))
    first = f"{log_files.LOG_FOLDER}/{log_files.checksum_name(version)}"
    for info in list(env.store.list_from(log_files.LOG_FOLDER)):
        if info.key.endswith(".crc") and info.key >= first:
            env.store.delete(info.key)


def with_statistics(env: Env, version: int, text: str | None, where: Callable[[Add], bool] = lambda _: True) -> None:
    """Replace the statistics in a commit."""
    rewrite(env, version, lambda a: a.replace(stats=text) if isinstance(a, Add) and where(a) else a)


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A store whose process is killed after some calls. What follows, also in the background, does not happen
    either.
    """

    def __init__(self, store: Any, calls: int) -> None:
        self._store, self._left = store, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise Killed
            return found(*arguments, **options)

        return call


def copied(env: Env) -> Env:
    """Another table with the same files."""
    copy = memory_env(start_ms=env.clock_ms())
    assert isinstance(copy.store, MemoryStore)
    assert isinstance(env.store, MemoryStore)
    copy.store._content.files.update(env.store._content.files)
    return copy


def lives(env: Env, run: Callable[[tahoe.Table], Any]) -> Iterator[tahoe.Table]:
    """Copies of a table on which `run` was killed at its first call, at its second, and so on; the last run comes to
    its end.
    """
    for calls in itertools.count():
        copy = copied(env)
        store: Any = Mortal(copy.store, calls)
        try:
            run(tahoe.Table(copy.store.url, env=replace(copy, store=store)))
        except Killed:
            yield tahoe.Table(copy.store.url, env=copy)
        else:
            yield tahoe.Table(copy.store.url, env=copy)
            return
