"""A writer that dies at any of its storage calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tahoe.storage.env import Env


class Died(BaseException):
    """The process is gone. Nothing cleans up after it."""


class _DyingStore:
    """A store whose process dies before or after its n-th call. Afterwards no call has an effect."""

    def __init__(self, store: Any, life: _Life) -> None:
        self._store, self._life = store, life
        self.url = store.url

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            is_last = self._life.step()
            if is_last and not self._life.after:
                self._life.end()
            try:
                return method(*arguments, **named)
            finally:
                if is_last:
                    self._life.end()

        return call if callable(method) else method


class _Life:
    def __init__(self, calls: int, *, after: bool) -> None:
        self.left, self.after, self.is_over = calls, after, False
        self._lock = threading.Lock()

    def step(self) -> bool:
        with self._lock:
            if self.is_over:
                raise Died
            self.left -= 1
            return self.left == 0

    def end(self) -> None:
        self.is_over = True
        raise Died


def dying(env: Env, calls: int, *, after: bool) -> Env:
    """The environment of a process that dies at its n-th storage call: before it, or right after it has taken
    effect.
    """
    life = _Life(calls, after=after)
    return replace(env, store=_DyingStore(env.store, life), store_at=lambda url: _DyingStore(env.store_at(url), life))  # type: ignore[arg-type, return-value]


def deaths(work: Callable[[Env], object], env: Callable[[], Env], *, every: int = 1) -> Iterator[Env]:
    """Run a work again and again, each time with a death at a later call, until it comes to its end. Yields what each
    death has left.

    Args:
        env: makes the world anew.
        every: of so many calls it dies at one only.
    """
    for after in (False, True):
        calls = 0
        while True:
            calls += every
            world = env()
            try:
                work(dying(world, calls, after=after))
            except Died:
                yield world
            else:
                assert calls > 3, "it made no calls"
                break
