"""Something that another process does between two storage calls of a work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

from tahoe.storage.env import Env
from tests import sample

World = TypeVar("World")

# In `make test` something is done before one call in so many.
ONE_IN = 4


class _InterruptedStore:
    """A store before or after whose n-th call something is done."""

    def __init__(self, store: Any, turn: _Turn) -> None:
        self._store, self._turn = store, turn
        self.url = store.url

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            is_its_turn = self._turn.step()
            try:
                return method(*arguments, **named)
            finally:
                if is_its_turn and self._turn.after:
                    self._turn.act()

        return call if callable(method) else method


class _Turn:
    def __init__(self, calls: int, act: Callable[[], object], *, after: bool) -> None:
        self.left, self.act, self.after, self._lock = calls, act, after, threading.Lock()

    def step(self) -> bool:
        """Whether this is the call."""
        with self._lock:
            self.left -= 1
            if self.left == 0 and not self.after:
                self.act()
            return self.left == 0


def interrupted(env: Env, calls: int, act: Callable[[], object], *, after: bool = False) -> Env:
    """The environment of a process before whose n-th storage call something is done, or right after it has taken
    effect.
    """
    turn = _Turn(calls, act, after=after)
    return replace(env, store=_InterruptedStore(env.store, turn))  # type: ignore[arg-type]


class Interleavings(Generic[World]):
    """Runs a work again and again, each time with an act before a later call, until it comes to its end before the
    act.
    """

    def __init__(self, world: Callable[[], World], env: Callable[[World], Env]) -> None:
        self._world, self._env = world, env

    def of(self, work: Callable[[World, Env], object], act: Callable[[World], object]) -> Iterator[World]:
        calls, has_acted = 1 - sample.step(ONE_IN), True
        while has_acted:
            calls, has_acted = calls + sample.step(ONE_IN), False
            world = self._world()

            def now(world: World = world) -> None:
                nonlocal has_acted
                has_acted = True
                act(world)

            work(world, interrupted(self._env(world), calls, now))
            if has_acted:
                sample.count(1, sample.step(ONE_IN))
                yield world
        assert calls > 3, "it made no calls"
