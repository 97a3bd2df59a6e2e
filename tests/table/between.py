"""Something that another process does between two storage calls of a work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

from tahoe.storage.env import Env

World = TypeVar("World")


class _InterruptedStore:
    """A store before whose n-th call something is done."""

    def __init__(self, store: Any, turn: _Turn) -> None:
        self._store, self._turn = store, turn
        self.url = store.url

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._turn.step()
            return method(*arguments, **named)

        return call if callable(method) else method


class _Turn:
    def __init__(self, calls: int, act: Callable[[], object]) -> None:
        self.left, self.act, self.lock = calls, act, threading.Lock()

    def step(self) -> None:
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.act()


def interrupted(env: Env, calls: int, act: Callable[[], object]) -> Env:
    """The environment of a process before whose n-th storage call something is done."""
    turn = _Turn(calls, act)
    return replace(env, store=_InterruptedStore(env.store, turn))  # type: ignore[arg-type]


class Interleavings(Generic[World]):
    """Runs a work again and again, each time with an act before a later call, until it comes to its end before the act."""

    def __init__(self, world: Callable[[], World], env: Callable[[World], Env]) -> None:
        self._world, self._env = world, env

    def of(self, work: Callable[[World, Env], object], act: Callable[[World], object]) -> Iterator[World]:
        calls, has_acted = 0, True
        while has_acted:
            calls, has_acted = calls + 1, False
            world = self._world()

            def now(world: World = world) -> None:
                nonlocal has_acted
                has_acted = True
                act(world)

            work(world, interrupted(self._env(world), calls, now))
            if has_acted:
                yield world
        assert calls > 3, "it made no calls"
