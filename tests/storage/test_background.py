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
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}, check=True)
    assert found.stdout.split() == ["first", "second"]
