"""The race: answers that are compared before times are, engines that cannot, and a page that shows both."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tahoe_race
from tahoe_race import answers
from tahoe_race.__main__ import main
from tahoe_race.engines import ENGINES, SIDES
from tahoe_race.page import TITLES, page, picture, totals
from tahoe_race.questions import GROUPS, Question
from tahoe_race.race import Race, Result, Side
from tahoe_race.tables import copy_of, without_log

VALUES = st.one_of(st.none(), st.integers(-1000, 1000), st.floats(-1e6, 1e6), st.text("ab", max_size=2))


@given(st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=6), st.randoms())
def test_rows_are_the_same_in_any_order_and_rounded(rows: list[list[Any]], chance: Any) -> None:
    shuffled = [[v * (1 + 1e-9) if isinstance(v, float) else v for v in row] for row in rows]
    chance.shuffle(shuffled)
    assert answers.same(rows, rows)
    if len({str(row) for row in rows}) == len(rows) and not any(isinstance(v, float) for row in rows for v in row):
        assert answers.same(rows, shuffled)


def test_rows_with_the_same_values_in_other_columns_are_kept_apart() -> None:
    for rows in ([[None, 0], [0, None]], [[12345, "a"], [12346, "a"]]):
        assert answers.same(rows, rows[::-1])


@pytest.mark.parametrize(
    ("one", "other"),
    [([[1]], [[2]]), ([[1], [1]], [[1]]), ([["a"]], [["b"]]), ([[None]], [[0]]), ([[1.0]], [[1.1]]), ([[1, 2]], [[1]])],
)
def test_other_rows_are_told_apart(one: list[list[Any]], other: list[list[Any]]) -> None:
    assert not answers.same(one, other)


def test_decimals_and_floats_of_two_engines_are_one_number() -> None:
    assert answers.same([["A", 38273.11, None]], [["A", 38273.1100001, None]])


class Fake:
    """A side that answers from a list."""

    def __init__(self, name: str, replies: list[dict[str, Any]]) -> None:
        self.name, self.replies, self.asked = name, iter(replies), list[str]()
        self.tables_of = ""

    def ask(self, do: str, **_: Any) -> dict[str, Any]:
        self.asked.append(do)
        return next(self.replies)


class NoCourse:
    homes: Mapping[str, Path] = {}


def raced(**replies: list[dict[str, Any]]) -> dict[str, Result]:
    engines = list(replies)
    race = Race(engines=engines, groups=["append"], scale="1", rounds=2, folder=Path("/nowhere"))
    question = Question("q", "append", "append", lambda engine: {"path": engine})
    sides: Any = {name: Fake(name, answered) for name, answered in replies.items()}
    found: Iterator[Result] = race._asked(question, NoCourse(), sides)  # type: ignore[arg-type]
    return {result.engine: result for result in found}


def told(seconds: float, *rows: Any) -> dict[str, Any]:
    return {"seconds": seconds, "rows": [list(rows)]}


def test_the_first_round_does_not_count() -> None:
    found = raced(tahoe=[told(9, 1), told(1, 1), told(3, 1)])
    assert found["tahoe"].seconds == [1, 3]
    assert found["tahoe"].median == 2


def test_an_engine_with_other_rows_has_no_time() -> None:
    replies = {"tahoe": [told(1, 5)] * 3, "delta-rs": [told(0.1, 6)] * 3}
    found = raced(**replies)
    assert found["tahoe"].median == 1
    assert found["delta-rs"].median is None
    assert "its rows are not those" in found["delta-rs"].error


def test_an_engine_that_fails_is_asked_once() -> None:
    found = raced(tahoe=[told(1, 5)] * 3, duckdb=[{"error": "NotImplementedError: no"}])
    assert found["duckdb"].error == "NotImplementedError: no"
    assert found["tahoe"].median == 1


def results() -> list[dict[str, Any]]:
    def one(question: str, engine: str, seconds: float, error: str = "") -> dict[str, Any]:
        return {"question": question, "group": "tpch", "engine": engine, "seconds": [seconds], "error": error}

    return [
        one("a", "tahoe", 1.0),
        one("a", "delta-spark", 2.0),
        one("b", "tahoe", 1.0),
        one("b", "delta-spark", 2.0),
        one("a", "delta-rs", 0.1),
        one("b", "delta-rs", 0.1, "<script>alert(1)</script>"),
    ]


def race_told() -> dict[str, Any]:
    engines = ["tahoe", "delta-spark", "delta-rs"]
    return {
        "when": "2026-01-01 00:00 UTC",
        "machine": "2 cores",
        "command": "python -m tahoe_race",
        "scale": "0.1",
        "rounds": 1,
        "engines": engines,
        "versions": dict.fromkeys(engines, "1 & 2"),
        "writer": "delta-spark",
        "results": results(),
    }


def test_a_total_is_for_those_who_did_everything() -> None:
    """Who leaves out a question would look faster."""
    questions = {"a": {}, "b": {}}
    for result in results():
        questions[result["question"]][result["engine"]] = result
    assert totals(questions, ["tahoe", "delta-spark", "delta-rs"]) == {"tahoe": 2.0, "delta-spark": 4.0}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened, self.loads = list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_loads_nothing_and_escapes_what_engines_say() -> None:
    text = page(race_told())
    tags = Tags()
    tags.feed(text)
    assert tags.loads == []
    assert "script" not in tags.opened
    assert "1 of 2 missing" in text
    assert "4.00 s" in text


def test_the_picture_is_well_formed_and_shows_the_ratio() -> None:
    root = ElementTree.fromstring(picture(race_told()))
    words = [text for element in root.iter() if (text := element.text)]
    assert "2.0" in words
    assert "delta-rs" not in words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engines", "tahoe,presto"], "no engine presto"),
        (["--only", "tpch,tpcc"], "no kind of question tpcc"),
        (["--engines", ","], "Name at least one engine"),
        (["--python", "tahoe=/nowhere/python"], "expected ENGINE=PATH"),
        (["--jars", "presto=/tmp"], "expected ENGINE=PATH"),
        (["--rounds", "0"], "--rounds"),
        (["--engines", "duckdb,parquet"], "Someone must write the tables"),
        (["--scale", "big"], "--scale"),
    ],
)
def test_what_is_mistyped_is_told_before_anything_is_installed(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main([*arguments, "--folder", str(tmp_path / "f"), "--output", str(tmp_path / "o")])
    assert said in f"{refused.value}{capsys.readouterr().err}"
    assert list(tmp_path.iterdir()) == []


def test_a_copy_shares_data_files_and_not_the_log(tmp_path: Path) -> None:
    """`_last_checkpoint` and the like are replaced; a link would change the table that all others read."""
    table = tmp_path / "t"
    (table / "_delta_log").mkdir(parents=True)
    (table / "_delta_log" / "00000000000000000000.json").write_text("log")
    (table / "part.parquet").write_text("rows")
    copy = Path(copy_of(table, tmp_path / "copy"))
    assert (copy / "part.parquet").samefile(table / "part.parquet")
    assert not (copy / "_delta_log" / "00000000000000000000.json").samefile(
        table / "_delta_log" / "00000000000000000000.json"
    )
    assert not (Path(without_log(table, tmp_path / "plain")) / "_delta_log").exists()


def test_a_side_answers_or_says_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line protocol, with an engine of three operations."""
    script = tmp_path / "toy_side.py"
    script.write_text(
        f"import sys, os\nsys.path.insert(0, {str(SIDES)!r})\nfrom side import serve\n"
        "def query(text): print('noise'); return [(1, None, 'x ')]\n"
        "def die(): os._exit(3)\n"
        "serve({'query': query, 'die': die}, lambda: 'toy 1')\n"
    )
    monkeypatch.setitem(ENGINES, "tahoe", ENGINES["tahoe"].__class__("toy", str(script), ()))  # type: ignore[arg-type]
    side = Side("tahoe", sys.executable, "", tmp_path)
    assert side.version == "toy 1"
    assert side.ask("query", text="select 1")["rows"] == [[1, None, "x"]]
    assert "no such operation" in side.ask("merge")["error"]
    assert "TypeError" in side.ask("query")["error"]
    assert "ended with 3" in side.ask("die")["error"]
    assert "ended with 3" in side.ask("query", text="")["error"]
    side.stop()


def test_the_race_needs_the_standard_library_alone() -> None:
    """Only sides import engines, each in its own environment."""
    folder = Path(str(tahoe_race.__file__)).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [str(node.module)]
                assert {n.split(".")[0] for n in names} <= {*sys.stdlib_module_names, "tahoe_race"}, path


def test_every_kind_of_question_has_a_title() -> None:
    assert tuple(TITLES) == GROUPS
