"""Background work: jobs never overlap and keep their order, also while the interpreter is shutting down."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tahoe.storage import background
from tahoe.storage.background import finish_background, in_background

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(autouse=True)
def own_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_queue", background._Queue())


def shut_down() -> None:
    """What the interpreter does to executors before its last hooks: their threads finish, and new work is refused."""
    background._queue._executor().shutdown(wait=False)


def test_a_failed_job_does_not_stop_the_next() -> None:
    done: list[str] = []
    in_background(lambda: [][0])
    in_background(lambda: done.append("second"))
    finish_background()
    assert done == ["second"]


def test_a_job_does_not_wait_for_itself() -> None:
    done: list[str] = []

    def job() -> None:
        in_background(lambda: done.append("what it has added"))
        finish_background()
        done.append("job")

    in_background(job)
    waiting = threading.Thread(target=finish_background, daemon=True)
    waiting.start()
    waiting.join(10)
    assert done == ["job", "what it has added"]


def test_at_shutdown_a_job_waits_for_the_jobs_before_it() -> None:
    done: list[str] = []
    begun, third_begun = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        done.append("overlaps" if third_begun.wait(0.2) else "first")

    def third() -> None:
        third_begun.set()
        done.append("third")

    in_background(first)
    in_background(lambda: done.append("second"))
    begun.wait()
    shut_down()
    in_background(third)
    assert done == ["first", "second", "third"]


def test_at_shutdown_a_job_that_a_job_adds_comes_after_it() -> None:
    done: list[str] = []

    def first() -> None:
        in_background(lambda: done.append("second"))
        done.append("first")

    shut_down()
    in_background(first)
    assert done == ["first", "second"]


def test_a_program_ends_after_its_last_job() -> None:
    """Hooks of `atexit` run after executors were shut down: their jobs run too, once."""
    program = (
        "import atexit\n"
        "from tahoe.storage.background import in_background\n"
        "in_background(lambda: print('first'))\n"
        "atexit.register(lambda: in_background(lambda: print('second')))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}, check=True
    )
    assert found.stdout.split() == ["first", "second"]


def test_who_adds_more_jobs_than_may_wait_does_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a fast writer's memory grows with each commit, and its program ends hours after the last one."""

    def no_thread(_: background._Queue) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(background, "_WAITING_MAX", 3)
    monkeypatch.setattr(background._Queue, "_executor", no_thread)
    done: list[int] = []
    for number in range(10):
        in_background(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == list(range(7))


def test_a_job_that_adds_many_jobs_comes_to_its_end_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_WAITING_MAX", 3)
    done: list[object] = []

    def first() -> None:
        for number in range(10):
            in_background(lambda number=number: done.append(number))  # type: ignore[misc]
        done.append("first")

    in_background(first)
    finish_background()
    assert done == ["first", *range(10)]
