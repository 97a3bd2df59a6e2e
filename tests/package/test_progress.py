"""A bar shows how far long work is where somebody watches, and programs whose output somebody reads get none."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tahoe
from tahoe import _progress
from tahoe._progress import showing
from tahoe.cli import main


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test moves."""
    moment = [0.0]
    monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: moment[0]))
    return moment


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The terminal of a script that asks for bars, whatever this process has done before: run commands, made notebooks,
    or left a bar.
    """
    found = Terminal()
    # pytest replaces the streams of `sys`
    monkeypatch.setattr(_progress, "sys", SimpleNamespace(stderr=found, modules={}))
    monkeypatch.setattr(_progress, "_command_line", threading.Event())
    monkeypatch.setattr(_progress, "_shown", threading.Lock())
    for name, value in {_progress.SWITCH: "on", "TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    return found


def test_a_bar_appears_after_a_second_and_goes_away(now: list[float], terminal: Terminal) -> None:
    with showing("OPTIMIZE") as show_progress:
        show_progress(1, 1000)
        assert terminal.getvalue() == ""
        now[0] = 1.5
        show_progress(500, 1000)
    assert "OPTIMIZE" in terminal.getvalue()
    assert "500 of 1,000 files" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")


def test_there_is_one_bar_at_a_time(now: list[float], terminal: Terminal) -> None:
    """Two bars write over each other; and after an error none would ever appear again."""
    with pytest.raises(KeyError), showing("outer") as outer:
        now[0] = 2.0
        outer(1, 2)
        with showing("inner") as inner:
            now[0] = 4.0
            inner(1, 2)
        raise KeyError
    assert "inner" not in terminal.getvalue()
    with showing("again", "rows") as show_progress:
        now[0] = 6.0
        show_progress(7, 0)
    assert "again" in terminal.getvalue()
    assert "7 rows" in terminal.getvalue()


@pytest.mark.parametrize("case", ["a pipe", "no stream", "a script", "switched off", "the user's own", "Spark's"])
def test_nobody_watches(case: str, now: list[float], terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, calls = io.StringIO(), list[tuple[int, int]]()
    match case:
        case "a pipe":
            monkeypatch.setattr(_progress.sys, "stderr", pipe)
        case "no stream":
            monkeypatch.setattr(_progress.sys, "stderr", None)
        case "a script":
            monkeypatch.delenv(_progress.SWITCH)
        case "switched off":
            monkeypatch.setenv(_progress.SWITCH, "off")
            monkeypatch.setattr(_progress.sys, "ps1", ">>> ", raising=False)
    own: Callable[[int, int], None] | None = (lambda *told: calls.append(told)) if case == "the user's own" else None
    with showing("work", user_function=own, is_ours=case != "Spark's") as show_progress:
        now[0] = 5.0
        show_progress(1, 2)
    assert (terminal.getvalue(), pipe.getvalue()) == ("", "")
    assert calls == ([(1, 2)] if own else [])


def test_work_in_the_background_shows_nothing(now: list[float], terminal: Terminal) -> None:
    """The work after a commit would take the place of the bar that its user waits for."""

    def work() -> None:
        with showing("work") as show_progress:
            now[0] = 5.0
            show_progress(1, 2)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert terminal.getvalue() == ""


def test_an_interactive_python_is_watched(
    now: list[float], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(_progress.SWITCH)
    monkeypatch.setattr(_progress.sys, "ps1", ">>> ", raising=False)
    with showing("work") as show_progress:
        now[0] = 5.0
        show_progress(1, 2)
    assert "1 of 2 files" in terminal.getvalue()


def test_in_a_notebook_a_bar_is_an_element_of_the_cell(
    now: list[float], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []

    def display(data: Any, **_: Any) -> Any:
        drawn.append(data)
        return SimpleNamespace(update=lambda data, **_: drawn.append(data))

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr(_progress.sys, "modules", {"IPython": SimpleNamespace(get_ipython=lambda: shell)})
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.delenv(_progress.SWITCH)
    with showing("a <b>") as show_progress:
        for at in (0.0, 2.0, 2.1, 3.0):
            now[0] = at
            show_progress(int(at * 10), 40)
    texts = [data["text/html"] for data in drawn]
    assert texts == [
        "",
        '<progress value="20" max="40"></progress> a &lt;b&gt; 20 of 40 files',
        '<progress value="30" max="40"></progress> a &lt;b&gt; 30 of 40 files',
        "",
    ]
    assert terminal.getvalue() == ""


def test_long_work_says_how_far_it_is(tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes minutes on a large table shows nothing."""
    monkeypatch.setattr(_progress, "WAIT_S", -1.0)

    def shown_by(work: Callable[[], object]) -> str:
        start = len(terminal.getvalue())
        work()
        return terminal.getvalue()[start:]

    (tmp_path / "parquet").mkdir()
    for number in range(3):
        pq.write_table(pa.table({"n": [number]}), tmp_path / "parquet" / f"{number}.parquet")
    table = tahoe.Table(tmp_path / "parquet")
    assert "3 of 3 footers" in shown_by(table.convert)
    batches = (batch for number in range(3) for batch in pa.table({"n": [number]}).to_batches())
    assert "3 rows" in shown_by(
        lambda: table.append(pa.RecordBatchReader.from_batches(pa.schema({"n": pa.int64()}), batches))
    )
    assert " commits" in shown_by(lambda: tahoe.Table(tmp_path / "parquet").version)
    assert "4 of 4 files" in shown_by(lambda: table.clone(tmp_path / "copy"))
    assert "4 of 4 files" in shown_by(table.optimize)
    assert "4 of 4 files" in shown_by(lambda: table.vacuum(0, retention_check=False))


def test_the_command_line_shows_a_bar(tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    tahoe.Table(tmp_path / "t").append(pa.table({"n": [1]}))
    tahoe.Table(tmp_path / "t").delete("n = 1")
    monkeypatch.setattr(_progress, "WAIT_S", -1.0)
    monkeypatch.delenv(_progress.SWITCH)
    monkeypatch.setattr(sys, "argv", ["tahoe", "vacuum", str(tmp_path / "t"), "--retain", "0", "--no-retention-check"])
    with pytest.raises(SystemExit):
        main()
    assert "1 of 1 files" in terminal.getvalue()
